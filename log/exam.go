package log

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// exam is one reading of all of a segment, in which every batch is checked.
type exam struct {
	v      *View
	i      int // number of the segment in v
	epochs *epoch.Cache
	newest model.LeaderEpoch

	pos      int64
	expected model.Offset // the least that the next batch may begin with
	next     model.Offset // the base of the segment behind
	// want is the digest of what was written.
	want headSum
	// reigns are the epochs of the batches.
	reigns reigns
	// x is what the indexes should say, and sees every batch.
	x indexBuilder
	// sides, if set, compares what stands beside the segment.
	sides *sideExam
	// below is the first damage that lies below the log's start, nil without any.
	// leapt: what lies behind it was not read, so that only single batches tell.
	below error
	leapt bool
}

func (v *View) newExam(i int, epochs *epoch.Cache, newest model.LeaderEpoch) *exam {
	s := v.segments[i]
	want := v.tail.heads
	if !v.isTail(i) {
		want = s.headSum()
	}
	return &exam{
		v: v, i: i, epochs: epochs, newest: newest, expected: s.base, next: v.next(i), want: want,
		x: newIndexBuilder(s.base, s.interval),
	}
}

// read checks the batches. spend is told how many bytes were read, and ends it with
// an error; nil tells nobody. Of several things that are wrong it returns the first
// that reaches above the log's start, else the first.
func (e *exam) read(f vfs.File, buf []byte, spend func(n int) error) error {
	err := e.readAll(f, buf, spend)
	c := (*CorruptionError)(nil)
	switch damaged := errors.As(err, &c); {
	case e.reigns.wrong != nil && damaged:
		return e.reigns.wrong
	case e.reigns.wrong != nil && err == nil:
		return e.wrongEpochs()
	case e.below != nil && (err == nil || damaged && c.Offset < e.v.start):
		return e.below
	}
	return err
}

func (e *exam) readAll(f vfs.File, buf []byte, spend func(n int) error) error {
	sc := scanner{f: f, limit: e.v.limit(e.i), buf: buf}
	for {
		b, err := sc.next(e.pos)
		if err != nil {
			if err := e.passOver(&sc, nil, e.v.damaged(e.i, e.pos, e.expected, err)); err != nil {
				return err
			}
			continue
		}
		if b == nil {
			return e.atEnd()
		}
		if err := e.batch(b); err != nil {
			if err := e.passOver(&sc, b, e.bad(err)); err != nil {
				return err
			}
			continue
		}
		if e.sides != nil {
			e.sides.batch(b, e.pos)
		}
		e.reigns.add(b, e.expected)
		e.pos += int64(len(b))
		e.expected = b.NextOffset()
		if spend == nil {
			continue
		}
		if err := spend(len(b)); err != nil {
			return err
		}
	}
}

// batch says what is wrong with a batch whose structure is right.
func (e *exam) batch(b record.Batch) error {
	e.x.addBatch(b, e.pos)
	epoch, known := e.epochs.EpochFor(b.BaseOffset())
	switch err := b.CheckCRC(); {
	case err != nil:
		return err
	case mutant.On("log-scrub-ignores-heads"):
		return nil
	case b.BaseOffset() < e.expected || b.LastOffset() >= e.next:
		return fmt.Errorf("batch [%d, %d] where there is only room in [%d, %d)", b.BaseOffset(), b.LastOffset(), e.expected, e.next)
	case e.newest != model.NoEpoch && b.LeaderEpoch() > e.newest:
		return fmt.Errorf("batch [%d, %d] of epoch %d, the partition is in epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), e.newest)
	case b.LeaderEpoch() < model.NoEpoch:
		return fmt.Errorf("batch [%d, %d] of epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch())
	case known && epoch != b.LeaderEpoch():
		return e.contradicted(b, fmt.Errorf("batch [%d, %d] of epoch %d in what was written in epoch %d",
			b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), epoch))
	}
	return nil
}

// atEnd checks what only the whole tells.
func (e *exam) atEnd() error {
	if e.v.isTail(e.i) && e.expected < e.next {
		return e.bad(fmt.Errorf("the last batch ends at %d, the log at %d", e.expected, e.next))
	}
	if e.leapt {
		return nil
	}
	if e.x.heads.differs(e.want) && e.reigns.wrong == nil && !mutant.On("log-scrub-ignores-heads") {
		return e.blame(e.want)
	}
	return nil
}

// bad is the damage at the place that was reached.
func (e *exam) bad(err error) error {
	return e.v.damaged(e.i, e.pos, e.expected, &badBatch{Pos: e.pos, Err: err})
}

// fields are what the bytes of a batch's head belong to.
var fields = [headSize]string{
	0: "base offset", 1: "base offset", 2: "base offset", 3: "base offset", 4: "base offset", 5: "base offset", 6: "base offset", 7: "base offset",
	8: "length", 9: "length", 10: "length", 11: "length", 12: "leader epoch", 13: "leader epoch", 14: "leader epoch", 15: "leader epoch",
	16: "magic", 17: "CRC", 18: "CRC", 19: "CRC", 20: "CRC",
}

// blame names the batch whose head is not what was written, if one bit of it is
// all that has changed; else it is somewhere in the segment.
func (e *exam) blame(want headSum) error {
	s := e.v.segments[e.i]
	whole := &badBatch{Err: fmt.Errorf("bytes that no CRC covers are not those that were written, in some of %d batches", e.x.batches)}
	batch, bit, ok := flippedBit(e.x.heads.sum, want.sum, e.x.batches)
	if !ok {
		return e.v.damaged(e.i, 0, s.base, whole)
	}
	limit := e.v.limit(e.i)
	f, err := s.file.pin(limit)
	if err != nil {
		return err
	}
	defer s.file.unpin()
	buf := s.file.cache.buffer()
	defer s.file.cache.release(buf)
	w := headerWalk{f: f, limit: limit, buf: *buf}
	pos, at := int64(0), s.base // at is where the batches before it end
	for n := int64(0); ; n++ {
		b, err := w.header(pos)
		if err != nil {
			return e.v.damaged(e.i, 0, s.base, whole)
		}
		if n == batch {
			if b.LastOffset() >= e.v.start {
				at = max(at, e.v.start) // it may begin below
			}
			return e.v.damaged(e.i, pos, at, &badBatch{Pos: pos, Err: fmt.Errorf(
				"batch [%d, %d] of epoch %d: bit %d of the %s is not the one that was written", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), bit%8, fields[bit/8])})
		}
		at = b.NextOffset()
		pos += record.SizeOf(b)
	}
}
