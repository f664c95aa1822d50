package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/tidemark/tidemark/internal/vfs"
)

// version is the only version of the line files.
const version = 0

// FormatError says where a file is not what its name promises. The file
// exists and could be read.
type FormatError struct {
	// Path names the file.
	Path string
	// Line counts from 1; 0 when no line is to blame.
	Line int
	// Why says what is wrong, with the numbers or the text found.
	Why string
}

// Error implements error.
func (e *FormatError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Path, e.Why)
	}
	return fmt.Sprintf("%s line %d: %s", e.Path, e.Line, e.Why)
}

func malformed(path string, line int, format string, args ...any) error {
	return &FormatError{Path: path, Line: line, Why: fmt.Sprintf(format, args...)}
}

// load returns the content of a file, nil if there is none.
func load(fs vfs.FS, path string) ([]byte, error) {
	info, err := fs.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	if info.IsDir {
		return nil, malformed(path, 0, "is a directory")
	}
	if info.Size > FileBytesMax {
		return nil, malformed(path, 0, "%d bytes, at most %d are read", info.Size, FileBytesMax)
	}
	b, err := vfs.ReadFile(fs, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// lineReader cuts a text into lines, without their ends. Like Java's reader
// it takes \n and \r\n, and a last line without either.
type lineReader struct {
	rest []byte
	n    int // number of the line that next returned
}

func (r *lineReader) next() ([]byte, bool) {
	if len(r.rest) == 0 {
		return nil, false
	}
	line, rest, _ := bytes.Cut(r.rest, []byte("\n"))
	r.rest = rest
	r.n++
	return bytes.TrimSuffix(line, []byte("\r")), true
}

// entryLines checks version and count of a line file and calls fn with each
// entry's line. An empty text has no entries, nor has one that ends after its
// version: Kafka takes both as an empty file.
func entryLines(path string, text []byte, fn func(line []byte, n int) error) error {
	r := lineReader{rest: text}
	line, ok := r.next()
	if !ok {
		return nil
	}
	if v, err := strconv.ParseInt(string(line), 10, 32); err != nil || v != version {
		return malformed(path, r.n, "version %s, want %d", quote(line), version)
	}
	if line, ok = r.next(); !ok {
		return nil
	}
	want, err := strconv.ParseInt(string(line), 10, 32)
	if err != nil || want < 0 {
		return malformed(path, r.n, "count %s is not a number", quote(line))
	}
	got := int64(0)
	for {
		line, ok := r.next()
		if !ok {
			break
		}
		if got == want {
			return malformed(path, r.n, "more than the %d entries that line 2 promises", want)
		}
		if err := fn(line, r.n); err != nil {
			return err
		}
		got++
	}
	if got != want {
		return malformed(path, r.n, "%d entries, line 2 promises %d", got, want)
	}
	return nil
}

// cutFields splits a line at single spaces into exactly len(into) parts.
func cutFields(line []byte, into [][]byte) bool {
	for i := range into {
		field, rest, found := bytes.Cut(line, []byte(" "))
		if len(field) == 0 || found == (i == len(into)-1) {
			return false
		}
		into[i], line = field, rest
	}
	return true
}

// header begins a line file of count entries.
func header(count int) []byte {
	b := strconv.AppendInt(nil, version, 10)
	b = append(b, '\n')
	b = strconv.AppendInt(b, int64(count), 10)
	return append(b, '\n')
}

// quote shows bytes from a file in an error, cut to a sensible length.
func quote(b []byte) string {
	const shown = 80
	if len(b) > shown {
		return strconv.Quote(string(b[:shown])) + "..."
	}
	return strconv.Quote(string(b))
}
