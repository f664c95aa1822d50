package logtest

import (
	"bytes"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// Model is a log without files: a list of batches.
type Model struct {
	// Start and End are LogStart and LogEnd.
	Start, End model.Offset
	// Batches are all that were appended and not truncated, also those below
	// Start, oldest first.
	Batches []record.Batch
}

// Clone returns an independent copy; the batches are shared, nobody changes
// them.
func (m *Model) Clone() *Model {
	c := *m
	c.Batches = append([]record.Batch(nil), m.Batches...)
	return &c
}

// Append adds the batches of a set.
func (m *Model) Append(set []byte) {
	it := record.NewIter(append([]byte(nil), set...))
	for it.Next() {
		m.Batches = append(m.Batches, it.Batch())
		m.End = it.Batch().NextOffset()
	}
}

// Truncate removes what holds an offset at or above to.
func (m *Model) Truncate(to model.Offset) {
	if to >= m.End {
		return
	}
	n := len(m.Batches)
	for n > 0 && m.Batches[n-1].LastOffset() >= to {
		n--
	}
	m.Batches = m.Batches[:n:n]
	m.End = to
	m.Start = min(m.Start, to)
}

// StartAt empties the model.
func (m *Model) StartAt(o model.Offset) { *m = Model{Start: o, End: o} }

// Raise is IncrementLogStart.
func (m *Model) Raise(o model.Offset) { m.Start = max(m.Start, o) }

// Bytes returns the batches that a reader of [from, bound) gets.
func (m *Model) Bytes(from, bound model.Offset) []byte {
	var b []byte
	for _, x := range m.Batches {
		if x.LastOffset() >= from && x.LastOffset() < bound {
			b = append(b, x...)
		}
	}
	return b
}

// Epochs computes the epoch cache from the batches.
func (m *Model) Epochs() []epoch.Entry {
	c := &epoch.Cache{}
	for _, b := range m.Batches {
		c.Assign(b.LeaderEpoch(), b.BaseOffset())
	}
	c.TruncateFromStart(m.Start)
	return c.Entries()
}

// Producers computes the producers' state and the aborted transactions.
func (m *Model) Producers() (*producer.StateManager, []producer.CompletedTxn) {
	s := producer.New()
	var aborted []producer.CompletedTxn
	for _, b := range m.Batches {
		if done, ok := s.Update(b); ok && done.Aborted {
			aborted = append(aborted, done)
		}
	}
	return s, aborted
}

// Check compares a log with the model through its public reading methods: reads
// from about 30 offsets or all, with several bounds and limits; look-ups by every
// timestamp; what is derived from the batches. Use small logs.
func Check(l *log.Log, m *Model) error {
	if l.LogStart() != m.Start || l.LogEnd() != m.End {
		return fmt.Errorf("log [%d, %d), want [%d, %d)", l.LogStart(), l.LogEnd(), m.Start, m.End)
	}
	if err := CheckView(l.View(), m); err != nil {
		return err
	}
	return checkState(l, m)
}

// CheckView is Check for what a View shows.
func CheckView(v *log.View, m *Model) error {
	if v.Start() != m.Start || v.End() != m.End {
		return fmt.Errorf("view [%d, %d), want [%d, %d)", v.Start(), v.End(), m.Start, m.End)
	}
	if err := checkReads(v, m); err != nil {
		return err
	}
	if err := checkWalk(v, m); err != nil {
		return err
	}
	if err := checkTimes(v, m); err != nil {
		return err
	}
	return checkAborted(v, m)
}

// stride is the distance of the offsets that are tried: odd, so that over time
// every offset of a batch has its turn.
func stride(m *Model) model.Offset { return (m.End-m.Start)/60*2 + 1 }

func checkReads(v *log.View, m *Model) error {
	bases := make(map[model.Offset]bool)
	for _, s := range v.Segments() {
		bases[s.Base] = true
	}
	stride := stride(m)
	for from := m.Start; from <= m.End; from += stride {
		for _, bound := range []model.Offset{m.End, from + 1, from + 3, from - 1, (from + m.End) / 2} {
			for _, limit := range []int{1, 100, 1 << 20} {
				for _, minOne := range []bool{false, true} {
					if err := checkRead(v, m, bases, from, bound, limit, minOne); err != nil {
						return fmt.Errorf("read from %d to %d, %d bytes, minOne %v: %w", from, bound, limit, minOne, err)
					}
				}
			}
			if got, want := v.ReadableBytes(from, bound), int64(len(m.Bytes(from, min(bound, m.End)))); from < bound && got != want {
				return fmt.Errorf("readable bytes from %d to %d: %d, want %d", from, bound, got, want)
			}
		}
	}
	return nil
}

func checkRead(v *log.View, m *Model, bases map[model.Offset]bool, from, bound model.Offset, limit int, minOne bool) error {
	r, err := v.Read(from, bound, limit, minOne)
	if err != nil {
		return err
	}
	defer r.Release()
	want := m.Bytes(from, bound)
	first := 0
	if len(want) > 0 {
		first = record.Batch(want).Size()
	}
	if len(want) == 0 || limit < first && !minOne {
		if r.Len() != 0 {
			return fmt.Errorf("%d bytes, want none", r.Len())
		}
		return nil
	}
	got := make([]byte, r.Len())
	if n, err := r.ReadAt(got, 0); err != nil || n != len(got) {
		return fmt.Errorf("read %d of %d bytes: %w", n, len(got), err)
	}
	if !bytes.HasPrefix(want, got) {
		return fmt.Errorf("%d bytes are not the ones that were appended", len(got))
	}
	if r.Start() != record.Batch(want).BaseOffset() {
		return fmt.Errorf("region starts at %d, want %d", r.Start(), record.Batch(want).BaseOffset())
	}
	if most := min(len(want), max(limit, first)); r.Len() != most {
		// Shorter only where a segment ends.
		it := record.NewIter(got)
		next := model.NoOffset
		for it.Next() {
			next = it.Batch().NextOffset()
		}
		if it.Rest() > 0 || !segmentBetween(bases, next, want[len(got):]) {
			return fmt.Errorf("%d bytes up to offset %d, want %d", len(got), next, most)
		}
	}
	return nil
}

// segmentBetween reports whether a segment begins behind a batch that ends at
// next and not behind the batch that rest begins with.
func segmentBetween(bases map[model.Offset]bool, next model.Offset, rest []byte) bool {
	for o := next; len(rest) > 0 && o <= record.Batch(rest).BaseOffset(); o++ {
		if bases[o] {
			return true
		}
	}
	return false
}

func checkWalk(v *log.View, m *Model) error {
	for _, size := range []int{0, 256} {
		var got []byte
		err := v.Batches(m.Start, make([]byte, size), func(b record.Batch) error {
			got = append(got, b...)
			return b.CheckCRC()
		})
		if err != nil {
			return fmt.Errorf("walk: %w", err)
		}
		if want := m.Bytes(m.Start, m.End); !bytes.Equal(got, want) {
			return fmt.Errorf("walk gives %d bytes, want %d", len(got), len(want))
		}
	}
	return nil
}

func checkTimes(v *log.View, m *Model) error {
	seen := map[model.Timestamp]bool{0: true, 1 << 60: true}
	best := log.TimestampOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp}
	for _, b := range m.Batches {
		_ = b.Each(0, func(r *record.Record) error {
			seen[r.Timestamp], seen[r.Timestamp+1] = true, true
			if r.Offset >= m.Start && r.Timestamp > best.Timestamp {
				best = log.TimestampOffset{Offset: r.Offset, Timestamp: r.Timestamp}
			}
			return nil
		})
	}
	n := 0
	for ts := range seen { // order-free
		if n++; n > 40 {
			break // the map's order draws the sample
		}
		want, wantOK := firstAt(m, ts)
		got, ok, err := v.OffsetForTimestamp(ts, m.End)
		if err != nil || ok != wantOK || ok && got != want {
			return fmt.Errorf("offset for timestamp %d: %v %v %v, want %v %v", ts, got, ok, err, want, wantOK)
		}
	}
	if m.Start > 0 && len(m.Batches) > 0 && m.Batches[0].BaseOffset() < m.Start {
		return nil // the greatest may be among the deleted ones
	}
	got, ok, err := v.MaxTimestamp(m.End)
	if err != nil || ok != (best.Offset != model.NoOffset) || ok && got != best {
		return fmt.Errorf("max timestamp: %v %v %v, want %v", got, ok, err, best)
	}
	return nil
}

func firstAt(m *Model, ts model.Timestamp) (to log.TimestampOffset, ok bool) {
	for _, b := range m.Batches {
		_ = b.Each(0, func(r *record.Record) error {
			if !ok && r.Offset >= m.Start && r.Timestamp >= ts {
				to, ok = log.TimestampOffset{Offset: r.Offset, Timestamp: r.Timestamp}, true
			}
			return nil
		})
	}
	return to, ok
}

func checkAborted(v *log.View, m *Model) error {
	_, aborted := m.Producers()
	for from := m.Start; from < m.End; from += stride(m) {
		for upper := from + 1; upper <= m.End; upper += 2*stride(m) + 1 {
			got := make(map[log.AbortedTxn]bool)
			for _, a := range v.AbortedTxns(from, upper) {
				got[a] = true
			}
			for _, a := range aborted {
				need := a.LastOffset >= from && a.FirstOffset < upper
				if has := got[log.AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset}]; need && !has {
					return fmt.Errorf("aborted transactions of [%d, %d): [%d, %d] of producer %d is missing", from, upper, a.FirstOffset, a.LastOffset, a.ProducerID)
				}
			}
			for a := range got { // order-free
				if a.FirstOffset >= upper {
					return fmt.Errorf("aborted transactions of [%d, %d): one begins at %d", from, upper, a.FirstOffset)
				}
			}
		}
	}
	return nil
}

// sameEpochs reports whether two lists say the same of every readable batch. An
// epoch may be known in which nothing was written, or of which a truncation has
// left nothing, and may start earlier than its first batch.
func sameEpochs(m *Model, got, want []epoch.Entry) bool {
	of := func(es []epoch.Entry, o model.Offset) model.LeaderEpoch {
		e := model.NoEpoch
		for _, x := range es {
			if x.Start <= o {
				e = x.Epoch
			}
		}
		return e
	}
	for _, b := range m.Batches {
		if o := max(b.BaseOffset(), m.Start); b.LastOffset() >= m.Start && of(got, o) != of(want, o) {
			return false
		}
	}
	return true
}

func checkState(l *log.Log, m *Model) error {
	got, want := l.Epochs().Entries(), m.Epochs()
	if !sameEpochs(m, got, want) {
		return fmt.Errorf("epochs %v, want %v", got, want)
	}
	if m.Start > 0 {
		return nil // producers below the start may be known or not
	}
	state, _ := m.Producers()
	if !bytes.Equal(l.Producers().Marshal(nil), state.Marshal(nil)) {
		return fmt.Errorf("producers differ: %d known, want %d", l.Producers().Len(), state.Len())
	}
	var unknown error
	l.Producers().Each(func(e *producer.Entry) {
		full, _ := state.Lookup(e.ProducerID)
		got, want := e.Batches(), full.Batches()
		for i := range got { // a start remembers the last one
			if k := len(want) - len(got) + i; k < 0 || want[k].LastOffset != got[i].LastOffset || want[k].LastSeq != got[i].LastSeq {
				unknown = fmt.Errorf("batches of producer %d: %v, want the last of %v", e.ProducerID, got, want)
				return
			}
		}
	})
	if unknown != nil {
		return unknown
	}
	gotFirst, gotOK := l.Producers().FirstUndecided()
	wantFirst, wantOK := state.FirstUndecided()
	if gotFirst != wantFirst || gotOK != wantOK {
		return fmt.Errorf("first undecided offset %d %v, want %d %v", gotFirst, gotOK, wantFirst, wantOK)
	}
	return nil
}
