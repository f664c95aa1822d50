package checkpoint

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// property is a value with the line its key stands on.
type property struct {
	text string
	line int
}

// parseProperties reads the format of Java's Properties: comments after # or
// !, keys that end at =, : or white space, backslash escapes, lines joined by
// a backslash at their end. Of a key that stands there twice the last counts.
//
// Bytes above 127 are taken as UTF-8 and not, as Java does, as Latin-1: that
// is what writers of today put there.
func parseProperties(path string, text []byte) (map[string]property, error) {
	props := map[string]property{}
	r := lineReader{rest: text}
	for {
		line, n, ok := logicalLine(&r)
		if !ok {
			return props, nil
		}
		if len(line) == 0 || line[0] == '#' || line[0] == '!' {
			continue
		}
		rawKey, rawValue := splitProperty(line)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, malformed(path, n, "key %s: %v", quote(rawKey), err)
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, malformed(path, n, "value of %s: %v", key, err)
		}
		props[key] = property{text: value, line: n}
	}
}

// logicalLine joins lines that end in an odd number of backslashes with their
// successors, whose leading white space goes. Comments are never continued.
func logicalLine(r *lineReader) (line []byte, n int, ok bool) {
	for {
		part, more := r.next()
		if !more {
			return line, n, ok
		}
		part = trimLeft(part)
		if !ok {
			ok, n = true, r.n
			if len(part) > 0 && (part[0] == '#' || part[0] == '!') {
				return part, n, true
			}
		}
		slashes := 0
		for slashes < len(part) && part[len(part)-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return append(line, part...), n, true
		}
		line = append(line, part[:len(part)-1]...)
	}
}

// splitProperty finds the end of the key and the start of the value.
func splitProperty(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && !isSeparator(line[end]) {
		if line[end] == '\\' && end+1 < len(line) {
			end++
		}
		end++
	}
	key, value = line[:end], trimLeft(line[end:])
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = trimLeft(value[1:])
	}
	return key, value
}

func unescape(b []byte) (string, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, used, err := unicodeEscape(b[i-1:])
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
			i += used - 2
		default:
			out = append(out, b[i])
		}
	}
	return string(out), nil
}

// unicodeEscape reads \uXXXX, or two of them that make one surrogate pair, at
// the start of b, and returns how many bytes it took.
func unicodeEscape(b []byte) (rune, int, error) {
	const size = len(`\uXXXX`)
	first, ok := hex4(b)
	if !ok {
		return 0, 0, fmt.Errorf("%s is not \\uXXXX", quote(b))
	}
	if utf16.IsSurrogate(first) {
		if second, ok := hex4(b[size:]); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, 2 * size, nil
			}
		}
	}
	return first, size, nil // AppendRune writes a lone surrogate as U+FFFD
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(v), err == nil
}

// appendProperty writes one line, escaped so that Java reads it back.
func appendProperty(b []byte, key, value string) []byte {
	b = appendEscaped(b, key, true)
	b = append(b, '=')
	b = appendEscaped(b, value, false)
	return append(b, '\n')
}

func appendEscaped(b []byte, s string, key bool) []byte {
	for i, r := range s {
		switch {
		case r == ' ' && (key || i == 0), r == '\\', r == '=', r == ':', r == '#', r == '!':
			b = append(b, '\\', byte(r))
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04X\u%04X`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04X`, r)
		}
	}
	return b
}

func isSeparator(c byte) bool { return c == '=' || c == ':' || isSpace(c) }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

func trimLeft(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}
