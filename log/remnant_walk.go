package log

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// soundWalk finds out how far the batches of a damaged segment can be believed. A
// batch whose checksum is right may still have another base offset or leader epoch
// than was written, since the checksum does not cover them; it is found out by its
// neighbours, and then one of the two is wrong. Here both are left out.
type soundWalk struct {
	ld *loader
	i  int
	// limit is the segment's end, stop where the damage was found.
	limit, stop int64
}

// end returns the position at which belief ends.
func (w *soundWalk) end() (int64, error) {
	s := w.ld.found[w.i]
	f, err := s.file.pin(0)
	if err != nil {
		return 0, err
	}
	defer s.file.unpin()
	sc := scanner{f: f, limit: w.limit, buf: grow(nil, w.limit)}
	next, expected, epoch := w.ld.nextBase(w.i), s.base, w.ld.epochBefore(w.i)
	pos := int64(0)
	for {
		b, err := sc.next(pos)
		var bad *badBatch
		if err != nil && !errors.As(err, &bad) {
			return 0, err
		}
		switch {
		case bad != nil, b == nil, b.CheckCRC() != nil, expected == next:
			return w.unconfirmed(&sc, pos)
		case b.BaseOffset() < expected, b.LastOffset() >= next, int64(b.LastOffset()-s.base) > math.MaxInt32,
			b.LeaderEpoch() >= 0 && b.LeaderEpoch() < epoch:
			return w.before(&sc, pos, b.BaseOffset())
		case pos >= w.stop, w.contradictsFile(b):
			return w.unconfirmed(&sc, pos)
		}
		expected, epoch = b.NextOffset(), max(epoch, b.LeaderEpoch())
		pos += int64(len(b))
	}
}

// contradictsFile reports whether a batch has another leader epoch than the epoch file
// says of what was durable.
func (w *soundWalk) contradictsFile(b record.Batch) bool {
	if !w.ld.credible || b.BaseOffset() >= w.ld.o.RecoveryPoint || b.LeaderEpoch() < 0 {
		return false
	}
	said, ok := w.ld.fileEpochFor(b.BaseOffset())
	return ok && said != b.LeaderEpoch()
}

// step is one batch of a walk, and what it adds to those before.
type step struct {
	pos  int64
	base model.Offset
	// gap: offsets are missing in front of it. cleaned: compaction explains that.
	gap, cleaned bool
	// rise: it begins an epoch of which the epoch file does not know there.
	rise bool
}

// steps calls fn with the batches in front of to, until it returns false.
func (w *soundWalk) steps(sc *scanner, to int64, fn func(s step) bool) error {
	expected, epoch := w.ld.found[w.i].base, w.ld.epochBefore(w.i)
	for pos := int64(0); pos < to; {
		b, err := sc.next(pos)
		if err != nil {
			return err
		}
		s := step{pos: pos, base: b.BaseOffset(), gap: b.BaseOffset() > expected, cleaned: b.BaseOffset() <= w.ld.o.CleanedTo}
		if e := b.LeaderEpoch(); e > epoch {
			said, ok := w.ld.fileEpochFor(s.base)
			s.rise = !ok || said != e
			epoch = e
		}
		if !fn(s) {
			return nil
		}
		expected = b.NextOffset()
		pos += int64(len(b))
	}
	return nil
}

// unconfirmed returns to, or where the last batch in front of it begins if that one
// is where no other confirms it: behind a gap, or in a new epoch.
func (w *soundWalk) unconfirmed(sc *scanner, to int64) (int64, error) {
	var last step
	err := w.steps(sc, to, func(s step) bool {
		last = s
		return true
	})
	if last.gap && !last.cleaned || last.rise {
		to = last.pos
	}
	return to, err
}

// before returns where belief ends if a batch with a base offset stands at to,
// behind others that lie above it: at the first gap that leads there, if there is one.
func (w *soundWalk) before(sc *scanner, to int64, base model.Offset) (int64, error) {
	end := to
	err := w.steps(sc, to, func(s step) bool {
		if s.gap && s.base > base && base >= w.ld.found[w.i].base {
			end = s.pos
		}
		return end == to
	})
	if err != nil || end < to {
		return end, err
	}
	return w.unconfirmed(sc, to)
}

// endBehind returns where the log ends as far as the files tell: what can be told
// apart behind the damage counts, the rest does not. pos is where belief ends in
// segment i, at an offset of end.
func (ld *loader) endBehind(i int, pos int64, end model.Offset) (model.Offset, error) {
	last := len(ld.found) - 1
	if last > i {
		end, pos = ld.found[last].base, 0
	}
	end, err := ld.endFrom(ld.found[last], pos, end)
	return max(end, ld.o.RecoveryPoint), err
}

// endFrom is endBehind in the last segment.
func (ld *loader) endFrom(s *foundSegment, pos int64, end model.Offset) (model.Offset, error) {
	f, err := s.file.pin(0)
	if err != nil {
		return 0, err
	}
	defer s.file.unpin()
	sc := scanner{f: f, limit: s.length, buf: grow(nil, s.length)}
	for pos < s.length {
		b, err := sc.next(pos)
		var bad *badBatch
		switch {
		case err != nil && !errors.As(err, &bad):
			return 0, err
		case bad == nil && b.CheckCRC() == nil:
			if b.BaseOffset() < end || int64(b.LastOffset()-s.base) > math.MaxInt32 {
				end += model.Offset(b.LastOffsetDelta()) + 1 // it stood at another offset
			} else {
				end = b.NextOffset()
			}
			pos += int64(len(b))
			continue
		}
		if pos, err = sc.resync(pos+1, s.base); err != nil || pos < 0 {
			return end, err
		}
	}
	return end, nil
}

// resync returns where the first valid batch of a segment begins at or behind pos,
// -1 if there is none, or too much looks like one.
func (s *scanner) resync(pos int64, base model.Offset) (int64, error) {
	tries := 0
	for pos+record.HeaderSize <= s.limit {
		window, err := s.bytes(pos, int(min(s.limit-pos, scanBufferSize)))
		if err != nil {
			return -1, err
		}
		q := 0
		for ; q+record.HeaderSize <= len(window); q++ {
			h := window[q:]
			first, size := int64(binary.BigEndian.Uint64(h)), record.SizeOf(h)
			if h[16] != record.Magic || first < int64(base) || first-int64(base) > math.MaxInt32 ||
				size < record.HeaderSize || size > s.limit-pos-int64(q) {
				continue
			}
			if tries++; tries > crcTriesMax {
				return -1, nil
			}
			at := pos + int64(q)
			b, err := s.next(at)
			var bad *badBatch
			switch {
			case err == nil && b.CheckCRC() == nil:
				return at, nil
			case err != nil && !errors.As(err, &bad):
				return -1, err
			}
			q++
			break // the window's bytes may have moved
		}
		pos += int64(q)
	}
	return -1, nil
}
