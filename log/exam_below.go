package log

import (
	"errors"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// passOver has the exam go on behind damage that lies below the log's start: nobody
// is given that, but what stands behind it in the segment. b is the damaged batch if
// its structure is right. It returns the damage where it lies above, or where the next
// batch can't be found. That of a batch which holds the log's start counts as the
// start's.
func (e *exam) passOver(sc *scanner, b record.Batch, damage error) error {
	var c *CorruptionError
	if e.expected >= e.v.start || e.v.isTail(e.i) || !errors.As(damage, &c) {
		return damage
	}
	start, size := e.v.start, int64(len(b))
	holds := b != nil && b.LastOffset() >= start // b is gone once another batch is read
	if pos, at, ok := e.soundFrom(sc); ok {
		e.pos, e.expected, e.leapt = pos, at, true
	} else if next, ok := e.follower(sc, e.pos+size); size > 0 && ok && next <= start {
		e.pos += size // nothing above was passed over, whatever has become of the length
	} else {
		if size > 0 && ok && holds {
			c.Offset = start
		}
		return damage
	}
	if e.below == nil {
		e.below = damage
	}
	return nil
}

// follower returns the base offset of the batch at pos, if one is there that can be
// the next, sound or not, or, at the segment's end, that of the next segment.
func (e *exam) follower(sc *scanner, pos int64) (model.Offset, bool) {
	b, err := sc.next(pos)
	if err == nil && b == nil {
		return e.next, true
	}
	if err != nil || b.BaseOffset() < e.expected {
		return 0, false
	}
	return b.BaseOffset(), true
}

// soundFrom returns where a batch stands from which on everything at and above the
// log's start is read, and its base offset. The index says where, if it is what was
// sealed and the batch is sound. ok is false if the index has none behind the damage.
func (e *exam) soundFrom(sc *scanner) (pos int64, at model.Offset, ok bool) {
	s := e.v.segments[e.i]
	x, err := s.readIndexes()
	if err != nil || x.unsure {
		return 0, 0, false
	}
	// Entries give the last offset of their batch.
	rel := relative(s.base, e.v.start)
	k := sort.Search(len(x.offsets), func(k int) bool { return x.offsets[k].rel >= rel })
	if k < len(x.offsets) && x.offsets[k].rel == rel {
		k++ // its batch holds the start as its last
	}
	for k--; k >= 0 && int64(x.offsets[k].pos) > e.pos; k-- {
		b, err := sc.next(int64(x.offsets[k].pos))
		if err == nil && b != nil && b.CheckCRC() == nil && b.LastOffset() == s.base+model.Offset(x.offsets[k].rel) && b.BaseOffset() >= e.expected {
			return int64(x.offsets[k].pos), b.BaseOffset(), true
		}
	}
	return 0, 0, false
}
