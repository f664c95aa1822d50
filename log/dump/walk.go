package dump

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

const (
	// windowBytes is how much of a segment is read at once.
	windowBytes = 1 << 20
	// batchBytesMax is the largest batch that is taken for one. Producers can't
	// write more than message.max.bytes, which nobody sets near it.
	batchBytesMax = 256 << 20
)

// source reads a file through one window that follows the reader.
type source struct {
	file   vfs.File
	size   int64
	window []byte
	at     int64 // position of window[0] in the file
}

func openSource(fs vfs.FS, path string) (*source, error) {
	f, err := fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, err
	}
	return &source{file: f, size: size}, nil
}

func (s *source) close() error { return s.file.Close() }

// bytes returns n bytes at pos, fewer where the file ends. They are valid
// until the next call.
func (s *source) bytes(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-pos))
	if n <= 0 {
		return nil, nil
	}
	if off := pos - s.at; off >= 0 && off+int64(n) <= int64(len(s.window)) {
		return s.window[off : off+int64(n)], nil
	}
	want := int(min(int64(max(n, windowBytes)), s.size-pos))
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

// batch returns the batch at pos. why says what is wrong with its header; a
// wrong checksum is not looked for. The batch is valid until the next call.
func (s *source) batch(pos int64) (b record.Batch, why string, err error) {
	head, err := s.bytes(pos, record.HeaderSize)
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
	raw, err := s.bytes(pos, int(size))
	if err != nil {
		return nil, "", err
	}
	b = record.Batch(raw)
	if err := b.CheckHeader(); err != nil {
		return nil, reason(err), nil
	}
	return b, "", nil
}

// walker goes through the batches of a segment and over what is damaged.
type walker struct {
	src *source
	// pos is where the next batch is looked for.
	pos int64
	// last is the last offset of the last batch whose checksum was right.
	last model.Offset
	// skipped, if set, is told of bytes that belong to no batch: n of them
	// at pos, for this reason.
	skipped func(pos, n int64, why string)
}

// placed is one batch of a walk.
type placed struct {
	record.Batch
	pos int64
	// crc is what the checksum should be; it is not if valid is false.
	crc   uint32
	valid bool
}

// next returns the next batch, false at the end.
func (w *walker) next() (f placed, ok bool, err error) {
	for w.pos < w.src.size {
		pos := w.pos
		b, why, err := w.src.batch(pos)
		if err != nil {
			return f, false, err
		}
		if why != "" {
			if err := w.resync(pos, pos+1, why); err != nil {
				return f, false, err
			}
			continue
		}
		f = placed{Batch: b, pos: pos, crc: b.ComputeCRC()}
		f.valid = f.crc == b.CRC()
		w.pos = pos + int64(len(b))
		if f.valid {
			w.last = max(w.last, b.LastOffset())
			return f, true, nil
		}
		return w.doubtful(f)
	}
	return f, false, nil
}

// doubtful returns a batch with a wrong checksum. Its length may be wrong too:
// if no batch follows where it should, the next one is looked for inside.
func (w *walker) doubtful(f placed) (placed, bool, error) {
	f.Batch = append(record.Batch(nil), f.Batch...) // the window moves on
	if w.pos == w.src.size {
		return f, true, nil
	}
	_, why, err := w.src.batch(w.pos)
	if err != nil {
		return f, false, err
	}
	if why == "" {
		return f, true, nil
	}
	at, err := w.search(f.pos + 1)
	if err != nil {
		return f, false, err
	}
	if at >= 0 && at < w.pos {
		w.pos = at // the length field was the damage
	}
	return f, true, nil
}

// resync moves on to the next whole batch at or after from, or to the end.
func (w *walker) resync(pos, from int64, why string) error {
	at, err := w.search(from)
	if err != nil {
		return err
	}
	if at < 0 {
		at = w.src.size
	}
	w.pos = at
	if w.skipped != nil {
		w.skipped(pos, at-pos, why)
	}
	return nil
}

// search returns the position of the first batch at or after from that is
// beyond doubt: a header that makes sense, a right checksum, and offsets above
// those that came before; −1 if there is none.
func (w *walker) search(from int64) (int64, error) {
	const magicAt = record.MagicPrefix - 1
	for pos := from; pos+record.HeaderSize <= w.src.size; {
		chunk, err := w.src.bytes(pos, windowBytes)
		if err != nil {
			return -1, err
		}
		for i := 0; i+record.HeaderSize <= len(chunk); i++ {
			if chunk[i+magicAt] != record.Magic || !w.plausible(record.Batch(chunk[i:])) {
				continue
			}
			b, why, err := w.src.batch(pos + int64(i))
			if err != nil {
				return -1, err
			}
			if why == "" && b.CheckCRC() == nil {
				return pos + int64(i), nil
			}
			// The window may have moved.
			if chunk, err = w.src.bytes(pos, windowBytes); err != nil {
				return -1, err
			}
		}
		pos += int64(len(chunk)) - record.HeaderSize + 1
	}
	return -1, nil
}

// plausible looks only at the fields that garbage rarely gets right.
func (w *walker) plausible(b record.Batch) bool {
	gap := int64(b.BaseOffset()) - int64(w.last)
	return gap > 0 && gap <= math.MaxInt32 && b.LastOffsetDelta() >= 0 && b.Codec().Valid() && b.LeaderEpoch() >= -1
}

// seek returns the first batch that ends at or above o; calls must ask for
// rising offsets.
func (w *walker) seek(o model.Offset) (f placed, ok bool, err error) {
	for {
		pos := w.pos
		f, ok, err = w.next()
		if err != nil || !ok {
			return f, false, err
		}
		if f.LastOffset() >= o {
			w.pos = pos // the same batch may be asked for again
			return f, true, nil
		}
	}
}
