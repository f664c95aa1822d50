package scan

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Walker goes through the batches of a segment and over what is damaged.
type Walker struct {
	src *Source
	// pos is where the next batch is looked for.
	pos int64
	// floor is what all offsets lie above.
	floor model.Offset
	// Skipped, if set, is told of bytes that belong to no batch: n of them
	// at pos, for this reason.
	Skipped func(pos, n int64, why string)
}

// Placed is one batch of a walk.
type Placed struct {
	record.Batch
	// Pos is where it begins in the file.
	Pos int64
	// Sum is what its bytes hash to; Valid says that its header says the same.
	Sum   uint32
	Valid bool
}

// Next returns the next batch, false at the end.
func (w *Walker) Next() (f Placed, ok bool, err error) {
	for w.pos < w.src.size {
		pos := w.pos
		b, why, err := w.src.Batch(pos)
		if err != nil {
			return f, false, err
		}
		if why != "" {
			if err := w.resync(pos, pos+1, why); err != nil {
				return f, false, err
			}
			continue
		}
		f = Placed{Batch: b, Pos: pos, Sum: b.ComputeCRC()}
		f.Valid = f.Sum == b.CRC()
		w.pos = pos + int64(len(b))
		if f.Valid {
			return f, true, nil
		}
		return w.doubtful(f)
	}
	return f, false, nil
}

// FloorOf is the offset that all in a segment file lie above, as its name says.
// Under another name batches are found all the same, if their offsets are low.
func FloorOf(path string) model.Offset {
	digits, _, _ := strings.Cut(filepath.Base(path), ".")
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return -1
	}
	return model.Offset(base) - 1
}

// NewWalker begins at the start of a source. floor is the greatest offset that
// its batches must lie above: the one before a segment's base.
func NewWalker(src *Source, floor model.Offset) *Walker {
	return &Walker{src: src, floor: floor}
}

// doubtful returns a batch with a wrong checksum. Its length may be wrong too:
// if no batch follows where it should, the next one is looked for inside.
func (w *Walker) doubtful(f Placed) (Placed, bool, error) {
	f.Batch = append(record.Batch(nil), f.Batch...) // the window moves on
	if w.pos == w.src.size {
		return f, true, nil
	}
	_, why, err := w.src.Batch(w.pos)
	if err != nil {
		return f, false, err
	}
	if why == "" {
		return f, true, nil
	}
	at, err := w.search(f.Pos + 1)
	if err != nil {
		return f, false, err
	}
	if at >= 0 && at < w.pos {
		w.pos = at // the length field was the damage
	}
	return f, true, nil
}

// resync moves on to the next whole batch at or after from, or to the end.
func (w *Walker) resync(pos, from int64, why string) error {
	at, err := w.search(from)
	if err != nil {
		return err
	}
	if at < 0 {
		at = w.src.size
	}
	w.pos = at
	if w.Skipped != nil {
		w.Skipped(pos, at-pos, why)
	}
	return nil
}

// search returns the position of the first batch at or after from that is
// beyond doubt: a header that makes sense, a right checksum, and offsets that a
// segment can hold; −1 if there is none. That they lie above those that came
// before is not asked: what came before may be what is wrong.
func (w *Walker) search(from int64) (int64, error) {
	const magicAt = record.MagicPrefix - 1
	for pos := from; pos+record.HeaderSize <= w.src.size; {
		chunk, err := w.src.Bytes(pos, WindowBytes)
		if err != nil {
			return -1, err
		}
		for i := 0; i+record.HeaderSize <= len(chunk); i++ {
			if chunk[i+magicAt] != record.Magic || !w.plausible(record.Batch(chunk[i:])) {
				continue
			}
			b, why, err := w.src.Batch(pos + int64(i))
			if err != nil {
				return -1, err
			}
			if why == "" && b.CheckCRC() == nil {
				return pos + int64(i), nil
			}
			// The window may have moved.
			if chunk, err = w.src.Bytes(pos, WindowBytes); err != nil {
				return -1, err
			}
		}
		pos += int64(len(chunk)) - record.HeaderSize + 1
	}
	return -1, nil
}

// plausible looks only at the fields that garbage rarely gets right.
func (w *Walker) plausible(b record.Batch) bool {
	gap := int64(b.BaseOffset()) - int64(w.floor)
	return gap > 0 && gap <= math.MaxInt32 && b.LastOffsetDelta() >= 0 && b.Codec().Valid() && b.LeaderEpoch() >= -1
}

// Seek returns the first batch that ends at or above o; calls must ask for
// rising offsets.
func (w *Walker) Seek(o model.Offset) (f Placed, ok bool, err error) {
	for {
		pos := w.pos
		f, ok, err = w.Next()
		if err != nil || !ok {
			return f, false, err
		}
		if f.LastOffset() >= o {
			w.pos = pos // the same batch may be asked for again
			return f, true, nil
		}
	}
}
