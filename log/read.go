package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// Region is a range of bytes of one segment, pinned: the bytes stay as they are
// and the file stays open until Release. The zero Region is empty. A Region is
// used by one goroutine at a time and not copied while it is held.
type Region struct {
	file  *segmentFile
	f     vfs.File
	pos   int64
	n     int
	start model.Offset
	older bool
}

// Len is the number of bytes.
func (r *Region) Len() int { return r.n }

// Start is the base offset at which the region's first batch begins or, in an
// empty region, the offset that was asked for. It may lie below that offset:
// batches are not split at their front.
func (r *Region) Start() model.Offset { return r.start }

// OlderSegment reports whether the region lies in a segment that is no longer
// written, so that a longer wait brings no more bytes of it (KIP-74, delayed
// fetches).
func (r *Region) OlderSegment() bool { return r.older }

// ReadAt reads from the region, off counted from its beginning.
func (r *Region) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(r.n) {
		return 0, fmt.Errorf("read at %d of a region of %d bytes: %w", off, r.n, ErrOffsetOutOfRange)
	}
	if rest := int64(r.n) - off; int64(len(p)) > rest {
		n, err := r.readFull(p[:rest], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return r.readFull(p, off)
}

func (r *Region) readFull(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := r.f.ReadAt(p, r.pos+off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("read %s at %d, %d of %d bytes: %w", r.file.name(), r.pos+off, n, len(p), err)
}

// OSFile returns the file and the position of the region in it, for sendfile.
func (r *Region) OSFile() (f *os.File, pos int64, ok bool) {
	if r.f == nil {
		return nil, 0, false
	}
	f, ok = r.f.OSFile()
	return f, r.pos, ok
}

// Release gives the bytes up. The region is empty afterwards; releasing it
// again does nothing.
func (r *Region) Release() {
	if r.file != nil {
		r.file.unpin()
	}
	*r = Region{start: r.start}
}

// Read returns the bytes of one segment that begin at the batch which holds
// from, or the first one behind it, and end below bound: a batch that reaches
// to or beyond bound is not part of it. They are cut to maxBytes, which may be
// inside a batch. If the first batch alone is longer, the region is that batch
// when minOne is set, else it is empty (KIP-74).
//
// from at or above bound gives an empty region; below Start or above End it is
// ErrOffsetOutOfRange.
func (v *View) Read(from, bound model.Offset, maxBytes int, minOne bool) (Region, error) {
	if from < v.start || from > v.end {
		return Region{}, fmt.Errorf("read at %d of [%d, %d): %w", from, v.start, v.end, ErrOffsetOutOfRange)
	}
	bound = min(bound, v.end)
	empty := Region{start: from}
	for i := v.segmentFor(from); from < bound && i < len(v.segments) && v.segments[i].base < bound; i++ {
		r, past, err := v.readSegment(i, from, bound, maxBytes, minOne)
		if err != nil {
			return empty, err
		}
		if !past {
			return r, nil
		}
	}
	return empty, nil
}

// readSegment is Read in one segment. past tells that all its batches lie below
// from, which is possible where compaction has removed the ones that followed.
func (v *View) readSegment(i int, from, bound model.Offset, maxBytes int, minOne bool) (r Region, past bool, err error) {
	r = Region{start: from}
	limit := v.limit(i)
	if limit == 0 {
		return r, true, nil
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return r, false, err
	}
	buf := file.cache.buffer()
	w := headerWalk{f: f, limit: limit, buf: *buf}
	pos, n, base, err := v.slice(i, &w, from, bound, maxBytes, minOne)
	file.cache.release(buf)
	if err != nil || n == 0 {
		file.unpin()
		return r, err == nil && pos == limit, err
	}
	return Region{file: file, f: f, pos: pos, n: int(n), start: base, older: !v.isTail(i)}, false, nil
}

// slice finds the bytes that Read promises, within one segment.
func (v *View) slice(i int, w *headerWalk, from, bound model.Offset, maxBytes int, minOne bool) (pos, n int64, base model.Offset, err error) {
	pos, size, err := v.locate(i, w, from)
	if err != nil || pos == w.limit {
		return pos, 0, from, err
	}
	end := w.limit
	if v.next(i) > bound {
		if end, err = v.endBelow(i, w, bound, pos, pos+int64(maxBytes)); err != nil {
			return 0, 0, from, err
		}
	}
	if end < pos+size {
		return pos, 0, from, nil // the first batch reaches beyond the bound
	}
	n = min(end-pos, int64(maxBytes))
	if n < size {
		if !minOne {
			return pos, 0, from, nil
		}
		n = size
	}
	if m, ok := v.markAt(i, from); ok {
		return pos, n, m.base, nil
	}
	if n, err = v.checkHeaders(i, w, pos, n); err != nil {
		return 0, 0, from, v.damaged(i, pos, from, err)
	}
	b, err := w.header(pos)
	if err != nil {
		return 0, 0, from, v.damaged(i, pos, from, err)
	}
	return pos, n, b.BaseOffset(), nil
}

// markAt is markFor for any segment.
func (v *View) markAt(i int, target model.Offset) (mark, bool) {
	if !v.isTail(i) {
		return mark{}, false
	}
	return v.tail.markFor(target)
}

// locate returns the position and size of the first batch of segment i whose
// last offset is not below target; the segment's limit and 0 if there is none.
func (v *View) locate(i int, w *headerWalk, target model.Offset) (pos, size int64, err error) {
	if v.isTail(i) {
		if target >= v.end {
			return w.limit, 0, nil
		}
		if m, ok := v.tail.markFor(target); ok {
			return m.pos, m.size, nil
		}
		return v.locateFrom(i, w, v.tail.offsets, target)
	}
	s := v.segments[i]
	if target >= s.end {
		return w.limit, 0, nil
	}
	x, err := s.load(w.f)
	if err != nil {
		return 0, 0, v.damaged(i, 0, target, err)
	}
	pos, size, err = v.locateFrom(i, w, x.offsets, target)
	if errors.Is(err, errNoBatch) {
		// Either the index lies or the segment is damaged; an index made from
		// the segment tells which.
		if x, err = s.rebuild(w.f); err == nil {
			pos, size, err = v.locateFrom(i, w, x.offsets, target)
		}
	}
	if err != nil {
		return 0, 0, v.damaged(i, pos, target, err)
	}
	return pos, size, nil
}

// locateFrom searches from the index entry at or below target. The entry is
// believed only if a batch that ends at or below its offset begins where it
// points: then no batch before that position can hold target, and an entry that
// is off can only make the search longer.
func (v *View) locateFrom(i int, w *headerWalk, es []offsetEntry, target model.Offset) (pos, size int64, err error) {
	base := v.segments[i].base
	if k := floorEntry(es, relative(base, target)); k >= 0 {
		if err := w.confirm(base, es[k]); err != nil {
			if v.isTail(i) && errors.Is(err, errNoBatch) {
				return w.seek(0, target)
			}
			return 0, 0, err
		}
		pos = int64(es[k].pos)
	}
	return w.seek(pos, target)
}

// endBelow returns where the batches of segment i that lie wholly below bound
// end, or any position at or above enough if that suffices.
func (v *View) endBelow(i int, w *headerWalk, bound model.Offset, from, enough int64) (int64, error) {
	if v.isTail(i) {
		if m, ok := v.tail.markFor(bound); ok {
			return m.pos, nil
		}
	}
	// The index alone often shows that the bound is far away.
	es := v.tail.offsets
	if !v.isTail(i) {
		x, err := v.segments[i].load(w.f)
		if err != nil {
			return 0, v.damaged(i, 0, bound, err)
		}
		es = x.offsets
	}
	base := v.segments[i].base
	if k := floorEntry(es, relative(base, bound)); k >= 0 && int64(es[k].pos) >= enough && w.confirm(base, es[k]) == nil {
		return int64(es[k].pos), nil
	}
	pos, _, err := v.locate(i, w, bound)
	return max(pos, from), err
}

// damaged wraps what makes a segment unreadable.
func (v *View) damaged(i int, pos int64, o model.Offset, err error) error {
	if !errors.Is(err, errNoBatch) {
		var bad *badBatch
		if !errors.As(err, &bad) {
			return err // the disk's error, not the bytes'
		}
		pos = bad.Pos
	}
	s := v.segments[i]
	name := s.file.name()
	return &CorruptionError{Dir: filepath.Dir(name), Segment: s.base, Pos: pos, Offset: o, Err: err}
}

// ReadableBytes returns how many bytes Read could return from from to bound, if
// it were not limited to one segment: whole batches, by file position. Where a
// position can't be found it counts as none.
func (v *View) ReadableBytes(from, bound model.Offset) int64 {
	bound = min(bound, v.end)
	if from < v.start || from >= bound {
		return 0
	}
	var sum int64
	for i := v.segmentFor(from); i < len(v.segments) && v.segments[i].base < bound; i++ {
		lo, hi := int64(0), v.limit(i)
		if v.segments[i].base < from {
			lo = v.position(i, from)
		}
		if v.next(i) > bound {
			hi = v.position(i, bound)
		}
		sum += max(hi-lo, 0)
	}
	return sum
}

// position returns where the first batch begins that is not wholly below
// target; the segment's limit if that can't be found.
func (v *View) position(i int, target model.Offset) int64 {
	limit := v.limit(i)
	if v.isTail(i) && target >= v.end {
		return limit
	}
	if m, ok := v.markAt(i, target); ok {
		return m.pos
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return limit
	}
	buf := file.cache.buffer()
	w := headerWalk{f: f, limit: limit, buf: *buf}
	pos, _, err := v.locate(i, &w, target)
	file.cache.release(buf)
	file.unpin()
	if err != nil {
		return limit
	}
	return pos
}

// Batches calls fn with each batch from the one that holds from to the end of
// the view, reading len(buf) bytes at once (at least one batch; a nil buf means
// 1 MiB). The batch is valid during the call. CRCs are not checked. It stops at
// the first error, fn's or its own.
func (v *View) Batches(from model.Offset, buf []byte, fn func(b record.Batch) error) error {
	if from < v.start || from > v.end {
		return fmt.Errorf("read at %d of [%d, %d): %w", from, v.start, v.end, ErrOffsetOutOfRange)
	}
	return v.batches(from, buf, fn)
}

// batches is Batches for any offset, also one below the start.
func (v *View) batches(from model.Offset, buf []byte, fn func(b record.Batch) error) error {
	if len(buf) < record.HeaderSize {
		buf = make([]byte, min(max(v.Size(), record.HeaderSize), scanBufferSize))
	}
	for i := v.segmentFor(from); i < len(v.segments); i++ {
		if err := v.segmentBatches(i, from, buf, fn); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) segmentBatches(i int, from model.Offset, buf []byte, fn func(b record.Batch) error) error {
	limit := v.limit(i)
	if limit == 0 {
		return nil
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return err
	}
	defer file.unpin()
	pos := int64(0)
	if from > v.segments[i].base {
		walk := file.cache.buffer()
		w := headerWalk{f: f, limit: limit, buf: *walk}
		pos, _, err = v.locate(i, &w, from)
		file.cache.release(walk)
		if err != nil {
			return err
		}
	}
	at := max(from, v.segments[i].base)
	sc := scanner{f: f, limit: limit, buf: buf}
	for {
		b, err := sc.next(pos)
		if err != nil {
			return v.damaged(i, pos, at, err)
		}
		if b == nil {
			return nil
		}
		if err := fn(b); err != nil {
			return err
		}
		at = b.NextOffset()
		pos += int64(len(b))
	}
}
