package dump

import (
	"errors"
	"io/fs"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
)

// index reads an index file and opens the segment beside it. The source is nil
// if there is none; that is told.
func (d *dumper) index() (b []byte, src *scan.Source, err error) {
	b, err = vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return nil, nil, err
	}
	src, err = scan.Open(d.fs, d.sibling(logSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		d.out.note(-1, "no segment beside it: entries can't be compared")
		return b, nil, nil
	}
	return b, src, err
}

// walk goes through the batches of a segment from its beginning; nil if there is
// no segment.
func (d *dumper) walk(src *scan.Source) *scan.Walker {
	if src == nil {
		return nil
	}
	return scan.NewWalker(src, d.name.base-1)
}

// entries cuts b into entries and calls fn with each, up to the zeros that
// Kafka preallocates behind the last one. An entry of zeros can't be meant:
// the first batch of a segment is never indexed.
func (d *dumper) entries(b []byte, size int, padded bool, fn func(i int, e []byte) error) error {
	n := len(b) / size
	for i := 0; i < n; i++ {
		if padded {
			i += d.padding(b[:n*size], i*size, size)
		}
		if i == n {
			break
		}
		if err := fn(i, b[i*size:(i+1)*size]); err != nil {
			return err
		}
	}
	if rest := len(b) % size; rest != 0 {
		d.out.found(int64(n*size), "%d bytes at the end, an entry has %d", rest, size)
	}
	return nil
}

// padding tells of the entries of zeros that begin at a position, and returns
// how many there are.
func (d *dumper) padding(b []byte, at, size int) int {
	end := at
	for end < len(b) && allZero(b[end:end+size]) {
		end += size
	}
	switch {
	case end == at:
	case end == len(b):
		d.out.note(int64(at), "%d bytes of zeros, preallocated", end-at)
	default:
		d.out.found(int64(at), "%d bytes of zeros, and entries behind them", end-at)
	}
	return (end - at) / size
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// offsetIndex shows an offset index. Each entry is compared with the batch at
// its position, whose last offset it has to hold.
func (d *dumper) offsetIndex() (err error) {
	b, src, err := d.index()
	if err != nil {
		return err
	}
	if src != nil {
		defer func() { err = errors.Join(err, src.Close()) }()
	}
	lastOffset, lastPos := model.NoOffset, int64(-1)
	return d.entries(b, scan.OffsetEntrySize, true, func(i int, e []byte) error {
		offset, pos := scan.DecodeOffsetEntry(d.name.base, e)
		d.out.begin("offsetEntry", "")
		d.out.num("offset", int64(offset))
		d.out.num("position", pos)
		d.out.end()
		at := int64(i * scan.OffsetEntrySize)
		if offset <= lastOffset || pos <= lastPos {
			d.out.found(at, "offset %d at position %d does not rise above %d at %d", offset, pos, lastOffset, lastPos)
		}
		lastOffset, lastPos = offset, pos
		return d.matchOffset(src, at, offset, pos)
	})
}

func (d *dumper) matchOffset(src *scan.Source, at int64, offset model.Offset, pos int64) error {
	if src == nil {
		return nil
	}
	if pos >= src.Size() {
		d.out.found(at, "position %d lies outside the segment of %d bytes", pos, src.Size())
		return nil
	}
	batch, why, err := src.Batch(pos)
	switch {
	case err != nil:
		return err
	case why != "":
		d.out.found(at, "no batch at position %d: %s", pos, why)
	case batch.LastOffset() != offset:
		d.out.found(at, "index offset %d, log offset %d", offset, batch.LastOffset())
	}
	return nil
}

// timeIndex shows a time index. Each entry is compared with the batch that
// ends at its offset, whose greatest timestamp it has to hold.
func (d *dumper) timeIndex() (err error) {
	b, src, err := d.index()
	if err != nil {
		return err
	}
	w := d.walk(src)
	if src != nil {
		defer func() { err = errors.Join(err, src.Close()) }()
	}
	lastOffset, lastTime := model.NoOffset, model.Timestamp(-1)
	return d.entries(b, scan.TimeEntrySize, true, func(i int, e []byte) error {
		ts, offset := scan.DecodeTimeEntry(d.name.base, e)
		d.out.begin("timeEntry", "")
		d.out.num("timestamp", int64(ts))
		d.out.num("offset", int64(offset))
		d.out.end()
		at := int64(i * scan.TimeEntrySize)
		if ts <= lastTime || offset < lastOffset {
			d.out.found(at, "timestamp %d at offset %d does not rise above %d at %d", ts, offset, lastTime, lastOffset)
		}
		if offset < lastOffset {
			w = d.walk(src)
		}
		lastOffset, lastTime = offset, ts
		return d.matchTime(w, at, offset, ts)
	})
}

func (d *dumper) matchTime(w *scan.Walker, at int64, offset model.Offset, ts model.Timestamp) error {
	if w == nil {
		return nil
	}
	f, ok, err := w.Seek(offset)
	switch {
	case err != nil:
		return err
	case !ok:
		d.out.found(at, "indexed offset %d is above all in the segment", offset)
	case f.LastOffset() != offset:
		d.out.found(at, "indexed offset %d, log offset %d", offset, f.LastOffset())
	case f.MaxTimestamp() != ts:
		d.out.found(at, "index timestamp %d, log timestamp %d", ts, f.MaxTimestamp())
	}
	return nil
}
