package scan

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

const (
	// WindowBytes is how much of a file is read at once.
	WindowBytes = 1 << 20
	// batchBytesMax is the largest batch that is taken for one. Producers can't
	// write more than message.max.bytes, which nobody sets near it.
	batchBytesMax = 256 << 20
)

// Source reads a file through one window that follows the reader. It has one
// user at a time, who closes it.
type Source struct {
	file   vfs.File
	size   int64
	window []byte
	at     int64 // position of window[0] in the file
}

// Open opens a file for reading only.
func Open(fs vfs.FS, path string) (*Source, error) {
	f, err := fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, err
	}
	return &Source{file: f, size: size}, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Size returns the length of the file in bytes, as it was when it was opened.
func (s *Source) Size() int64 { return s.size }

// Bytes returns n bytes at pos, fewer where the file ends. They are valid until
// the next call of any method.
func (s *Source) Bytes(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-pos))
	if n <= 0 {
		return nil, nil
	}
	if off := pos - s.at; off >= 0 && off+int64(n) <= int64(len(s.window)) {
		return s.window[off : off+int64(n)], nil
	}
	want := int(min(int64(max(n, WindowBytes)), s.size-pos))
	if cap(s.window) < want {
		s.window = make([]byte, want)
	}
	s.window, s.at = s.window[:want], pos
	got, err := s.file.ReadAt(s.window, pos)
	if err != nil && !(err == io.EOF && got == want) {
		s.window = s.window[:0]
		return nil, fmt.Errorf("read %d bytes at %d: %w", want, pos, err)
	}
	return s.window[:n], nil
}

// Zeros reports whether the file holds nothing but zeros from pos on.
func (s *Source) Zeros(pos int64) bool {
	for pos < s.size {
		b, err := s.Bytes(pos, WindowBytes)
		if err != nil {
			return false
		}
		for _, c := range b {
			if c != 0 {
				return false
			}
		}
		pos += int64(len(b))
	}
	return true
}

// Batch returns the batch at pos. why says what is wrong with its header; a
// wrong checksum is not looked for. The batch is valid until the next call of
// any method. err is one of the disk.
func (s *Source) Batch(pos int64) (b record.Batch, why string, err error) {
	head, err := s.Bytes(pos, record.HeaderSize)
	if err != nil {
		return nil, "", err
	}
	if len(head) < record.SizePrefix {
		return nil, fmt.Sprintf("%d bytes are no batch", len(head)), nil
	}
	size := record.SizeOf(head)
	switch {
	case size < record.HeaderSize:
		return nil, fmt.Sprintf("length field says %d bytes, a header has %d", size, record.HeaderSize), nil
	case size > batchBytesMax:
		return nil, fmt.Sprintf("length field says %d bytes", size), nil
	case size > s.size-pos:
		return nil, fmt.Sprintf("a batch of %d bytes, of which %d are there", size, s.size-pos), nil
	}
	raw, err := s.Bytes(pos, int(size))
	if err != nil {
		return nil, "", err
	}
	b = record.Batch(raw)
	if err := b.CheckHeader(); err != nil {
		return nil, Reason(err), nil
	}
	return b, "", nil
}

// Reason is an error about bytes without the position that a finding states
// itself.
func Reason(err error) string {
	var c *record.CorruptError
	if errors.As(err, &c) {
		return c.Why
	}
	return err.Error()
}
