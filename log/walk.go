package log

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// headerWalk reads batch headers of one segment, forward, for searches that
// cover about one index interval. It lives on its caller's stack; the buffer
// comes from the FileCache.
type headerWalk struct {
	f     vfs.File
	limit int64 // end of the readable bytes
	buf   []byte
	at    int64 // file position of buf[0]
	n     int   // valid bytes in buf
}

// errNoBatch says that no batch can begin at a position: an index led astray,
// or the segment is damaged.
var errNoBatch = errors.New("no batch begins here")

// header returns the header of the batch at pos: HeaderSize bytes, no records.
// It is valid until the next call. The batch lies wholly below the limit.
func (w *headerWalk) header(pos int64) (record.Batch, error) {
	if pos+record.HeaderSize > w.limit {
		return nil, fmt.Errorf("position %d of %d: %w", pos, w.limit, errNoBatch)
	}
	if pos < w.at || pos+record.HeaderSize > w.at+int64(w.n) {
		n := int(min(int64(len(w.buf)), w.limit-pos))
		got, err := w.f.ReadAt(w.buf[:n], pos)
		if got < n {
			w.n = 0
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read batch header at %d, %d of %d bytes: %w", pos, got, n, err)
		}
		w.at, w.n = pos, n
	}
	b := record.Batch(w.buf[pos-w.at:][:record.HeaderSize])
	if size := record.SizeOf(b); size < record.HeaderSize || size > w.limit-pos ||
		b.Magic() != record.Magic || b.BaseOffset() < 0 || b.LastOffsetDelta() < 0 || b.LeaderEpoch() < model.NoEpoch {
		return nil, fmt.Errorf("position %d of %d, size %d, magic %d, base offset %d, epoch %d: %w",
			pos, w.limit, size, b.Magic(), b.BaseOffset(), b.LeaderEpoch(), errNoBatch)
	}
	return b, nil
}

// seek returns the position and size of the first batch at or behind pos whose
// last offset is not below target; the limit and 0 if there is none.
func (w *headerWalk) seek(pos int64, target model.Offset) (int64, int64, error) {
	for pos < w.limit {
		b, err := w.header(pos)
		if err != nil {
			return 0, 0, err
		}
		size := record.SizeOf(b)
		if b.LastOffset() >= target {
			return pos, size, nil
		}
		pos += size
	}
	return w.limit, 0, nil
}

// confirm checks an index entry against the segment: a batch that ends at or
// below the entry's offset must begin where it points.
func (w *headerWalk) confirm(base model.Offset, e offsetEntry) error {
	b, err := w.header(int64(e.pos))
	if err != nil {
		return err
	}
	if last := base + model.Offset(e.rel); b.LastOffset() > last || b.BaseOffset() < base {
		return fmt.Errorf("index entry (%d, %d) points at batch [%d, %d]: %w", last, e.pos, b.BaseOffset(), b.LastOffset(), errNoBatch)
	}
	return nil
}

// scanner reads whole batches of one segment, forward, in large reads: a cold
// file is read ten times faster so than by headers alone.
type scanner struct {
	f     vfs.File
	limit int64
	buf   []byte
	at    int64
	n     int
}

// scanBufferSize is the read size of a scan.
const scanBufferSize = 1 << 20

// bytes returns n bytes at pos, valid until the next call. The caller has
// checked that they lie below the limit. An error is one of the disk.
func (s *scanner) bytes(pos int64, n int) ([]byte, error) {
	if pos >= s.at && pos+int64(n) <= s.at+int64(s.n) {
		return s.buf[pos-s.at:][:n], nil
	}
	if n > len(s.buf) {
		s.buf = make([]byte, n)
	}
	want := int(min(int64(len(s.buf)), s.limit-pos))
	got, err := s.f.ReadAt(s.buf[:want], pos)
	s.at, s.n = pos, got
	if got < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read at %d, %d of %d bytes: %w", pos, got, want, err)
	}
	return s.buf[:n], nil
}

// badBatch says why the bytes at Pos are no batch. Torn tells that the file
// ends before the batch does, which a write that was cut short leaves behind; Sound,
// that they are a whole batch with its right checksum, which can't stand there.
type badBatch struct {
	Pos   int64
	Torn  bool
	Sound bool
	Err   error
}

func (e *badBatch) Error() string {
	return fmt.Sprintf("no valid batch at position %d: %v", e.Pos, e.Err)
}

func (e *badBatch) Unwrap() error { return e.Err }

// next returns the whole batch at pos, its header checked, nil at the limit.
// The error is a *badBatch, or one of the disk.
func (s *scanner) next(pos int64) (record.Batch, error) {
	rest := s.limit - pos
	if rest == 0 {
		return nil, nil
	}
	if rest < record.HeaderSize {
		return nil, &badBatch{Pos: pos, Torn: true, Err: fmt.Errorf("%d bytes, a header has %d", rest, record.HeaderSize)}
	}
	head, err := s.bytes(pos, record.HeaderSize)
	if err != nil {
		return nil, err
	}
	size := record.SizeOf(head)
	if size < record.HeaderSize {
		return nil, &badBatch{Pos: pos, Err: fmt.Errorf("length field says %d bytes, a header has %d", size, record.HeaderSize)}
	}
	if magic := record.Batch(head).Magic(); magic != record.Magic {
		return nil, &badBatch{Pos: pos, Err: fmt.Errorf("magic %d, want %d", magic, record.Magic)}
	}
	if size > rest {
		return nil, &badBatch{Pos: pos, Torn: true, Err: fmt.Errorf("batch of %d bytes, the file ends after %d", size, rest)}
	}
	b, err := s.bytes(pos, int(size))
	if err != nil {
		return nil, err
	}
	batch := record.Batch(b)
	if err := batch.CheckHeader(); err != nil {
		return nil, &badBatch{Pos: pos, Err: err}
	}
	return batch, nil
}
