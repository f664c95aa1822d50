package verify

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/scan"
)

// offsetIndex compares an offset index with the batches: each entry has to name
// the position and the last offset of one.
type offsetIndex struct {
	entries
}

func (x *offsetIndex) batch(s *segment, f scan.Placed) {
	for e := x.peek(); e != nil; e = x.peek() {
		last, pos := scan.DecodeOffsetEntry(s.base, e)
		if pos > f.Pos {
			return
		}
		if pos < f.Pos {
			s.found.add(Derived, x.file, int64(x.at), last, "no batch begins at position %d", pos)
		} else if last != f.LastOffset() {
			s.found.add(Derived, x.file, int64(x.at), last, "the batch at position %d ends at %d", pos, f.LastOffset())
		}
		x.at += x.size
	}
}

func (x *offsetIndex) end(s *segment) {
	for e := x.peek(); e != nil; e = x.peek() {
		last, pos := scan.DecodeOffsetEntry(s.base, e)
		s.found.add(Derived, x.file, int64(x.at), last, "no batch begins at position %d", pos)
		x.at += x.size
	}
	x.rest(s)
}

// timeIndex compares a time index with the batches: each entry has to name the
// last offset of a batch and its greatest timestamp, which is above all before.
type timeIndex struct {
	entries
	// ts is the greatest timestamp so far, once started.
	ts      model.Timestamp
	started bool
}

func (x *timeIndex) batch(s *segment, f scan.Placed) {
	before := x.ts
	if !x.started {
		before, x.started = math.MinInt64, true
	}
	ts := f.MaxTimestamp()
	if f.Count() == 0 {
		ts = model.NoTimestamp // what compaction has emptied has no time
	}
	x.ts = max(before, ts)
	for e := x.peek(); e != nil; e = x.peek() {
		at, last := scan.DecodeTimeEntry(s.base, e)
		if last > f.LastOffset() {
			return
		}
		switch {
		case last < f.LastOffset():
			s.found.add(Derived, x.file, int64(x.at), last, "no batch ends at this offset")
		case at != x.ts:
			s.found.add(Derived, x.file, int64(x.at), last, "timestamp %d, the batches up to there have %d", at, x.ts)
		}
		x.at += x.size
	}
}

func (x *timeIndex) end(s *segment) {
	for e := x.peek(); e != nil; e = x.peek() {
		_, last := scan.DecodeTimeEntry(s.base, e)
		s.found.add(Derived, x.file, int64(x.at), last, "no batch ends at this offset")
		x.at += x.size
	}
	x.rest(s)
}

// txnIndex compares a transaction index with the abort markers: there is one
// entry for each that ends a transaction.
type txnIndex struct {
	entries
}

// batch takes the batch into the producers' state, which says what it ends.
func (x *txnIndex) batch(s *segment, f scan.Placed) {
	done, ok := s.producers.Update(f.Batch)
	ends := ok && done.Aborted
	for e := x.peek(); e != nil; e = x.peek() {
		a := scan.DecodeAborted(e)
		if a.Last > f.LastOffset() {
			break
		}
		switch {
		case a.Version != 0:
			s.found.add(Derived, x.file, int64(x.at), a.Last, "version %d, want 0", a.Version)
		case a.Last != f.LastOffset() || !f.IsControl() || a.ProducerID != f.ProducerID():
			s.found.add(Derived, x.file, int64(x.at), a.Last, "no marker of producer %d is here", a.ProducerID)
		case ok && !done.Aborted:
			s.found.add(Derived, x.file, int64(x.at), a.Last, "the transaction of producer %d was committed", a.ProducerID)
		case ends && a.First != done.FirstOffset && done.FirstOffset >= s.bases[0]:
			s.found.add(Derived, x.file, int64(x.at), a.Last, "the transaction begins at %d, not at %d", done.FirstOffset, a.First)
		default:
			ends = false
		}
		x.at += x.size
	}
	if ends && !s.last {
		s.found.add(Derived, x.file, -1, done.LastOffset, "the aborted transaction of producer %d from %d on is missing", done.ProducerID, done.FirstOffset)
	}
}

func (x *txnIndex) end(s *segment) {
	for e := x.peek(); e != nil; e = x.peek() {
		a := scan.DecodeAborted(e)
		s.found.add(Derived, x.file, int64(x.at), a.Last, "no marker of producer %d is here", a.ProducerID)
		x.at += x.size
	}
	x.rest(s)
}
