package dump

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// none stands in text where there is no number; JSON has null.
const none = "none"

// printer writes lines of facts. In text a fact is "name: value"; in JSON each
// line is an object whose first member is its type.
type printer struct {
	w        *bufio.Writer
	json     bool
	findings int

	line  []byte // the line that is being made
	facts int    // how many facts it has
}

// head opens the dump of one file.
func (p *printer) head(path string, k kind) {
	if p.json {
		p.begin("file", "")
		p.str("path", path)
		p.str("kind", k.name)
		if k.base >= 0 {
			p.num("baseOffset", int64(k.base))
		}
		p.end()
		return
	}
	fmt.Fprintf(p.w, "Dumping %s\n", path)
	switch k.name {
	case "segment":
		fmt.Fprintf(p.w, "Log starting offset: %d\n", k.base)
	case "metadata snapshot":
		fmt.Fprintf(p.w, "Snapshot end offset: %d, epoch: %d\n", k.base, k.epoch)
	}
}

// tail closes the dump of one file.
func (p *printer) tail(path string) {
	if p.json {
		p.begin("end", "")
		p.str("path", path)
		p.num("findings", int64(p.findings))
		p.end()
	} else if p.findings > 0 {
		fmt.Fprintf(p.w, "! %s in %s\n", count(p.findings), path)
	}
}

func count(n int) string {
	if n == 1 {
		return "1 finding"
	}
	return strconv.Itoa(n) + " findings"
}

// begin starts a line. prefix stands before it in text.
func (p *printer) begin(kind, prefix string) {
	p.line, p.facts = p.line[:0], 0
	if p.json {
		p.line = append(p.line, `{"type":`...)
		p.line = appendJSON(p.line, kind)
		return
	}
	p.line = append(p.line, prefix...)
}

// end writes the line.
func (p *printer) end() {
	if p.json {
		p.line = append(p.line, '}')
	}
	p.line = append(p.line, '\n')
	p.w.Write(p.line) // the first error stays with the writer until flush
}

// key appends a fact's name.
func (p *printer) key(name string) {
	if p.json {
		p.line = append(p.line, ',')
		p.line = appendJSON(p.line, name)
		p.line = append(p.line, ':')
		return
	}
	if p.facts > 0 {
		p.line = append(p.line, ' ')
	}
	p.facts++
	p.line = append(p.line, name...)
	p.line = append(p.line, ": "...)
}

func (p *printer) num(name string, v int64) {
	p.key(name)
	p.line = strconv.AppendInt(p.line, v, 10)
}

// optional writes a number that may be missing.
func (p *printer) optional(name string, v int64, ok bool) {
	if ok {
		p.num(name, v)
		return
	}
	p.key(name)
	if p.json {
		p.line = append(p.line, "null"...)
	} else {
		p.line = append(p.line, none...)
	}
}

func (p *printer) flag(name string, v bool) {
	p.key(name)
	p.line = strconv.AppendBool(p.line, v)
}

// str writes text that is known to be printable, such as the name of a codec.
func (p *printer) str(name, v string) {
	p.key(name)
	if p.json {
		p.line = appendJSON(p.line, v)
	} else {
		p.line = append(p.line, v...)
	}
}

// bytes writes bytes of a user: as they are if that is one line of text, in Go's
// quotes (text) or base64 under another name (JSON) if not.
func (p *printer) bytes(name string, v []byte) {
	switch {
	case p.json && utf8.Valid(v):
		p.str(name, string(v))
	case p.json:
		p.str(name+"Base64", base64.StdEncoding.EncodeToString(v))
	default:
		p.str(name, textOf(v))
	}
}

// raw writes text that is JSON already.
func (p *printer) raw(name string, text []byte) {
	p.key(name)
	p.line = append(p.line, text...)
}

// textOf is a name as it is shown: in Go's quotes unless it is one line of text.
func textOf(b []byte) string {
	if printable(b) {
		return string(b)
	}
	return strconv.Quote(string(b))
}

// names writes a list of header keys.
func (p *printer) names(name string, list []string) {
	if p.json {
		p.key(name)
		p.line = appendJSON(p.line, list)
		return
	}
	p.str(name, "["+strings.Join(list, ",")+"]")
}

// found tells of a fault at a position of the file, −1 for none.
func (p *printer) found(pos int64, format string, args ...any) {
	p.findings++
	p.remark("finding", "! ", pos, fmt.Sprintf(format, args...))
}

// note tells of something that is worth knowing and no fault.
func (p *printer) note(pos int64, format string, args ...any) {
	p.remark("note", "~ ", pos, fmt.Sprintf(format, args...))
}

func (p *printer) remark(kind, prefix string, pos int64, text string) {
	if p.json {
		p.begin(kind, "")
		if pos >= 0 {
			p.num("position", pos)
		}
		p.str("text", text)
		p.end()
		return
	}
	p.line = append(p.line[:0], prefix...)
	if pos >= 0 {
		p.line = fmt.Appendf(p.line, "position %d: ", pos)
	}
	p.line = append(p.line, text...)
	p.end()
}

func (p *printer) flush() error { return p.w.Flush() }

// appendJSON appends the JSON of a string, or of a list of them.
func appendJSON[T string | []string](dst []byte, v T) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...) // strings can always be marshalled
	}
	return append(dst, b...)
}

func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
