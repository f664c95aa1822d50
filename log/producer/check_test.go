package producer

import (
	"fmt"
	"math"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// step is one attempt of a client: what is sent, and what the leader says. A
// batch that is OK is appended.
type step struct {
	name  string
	s     spec
	want  Verdict
	first model.Offset // of a duplicate
}

func play(t *testing.T, m *StateManager, steps []step) {
	t.Helper()
	for _, st := range steps {
		c := m.Check(st.s.batch())
		if c.Kind != st.want {
			t.Fatalf("%s: %v (%+v), want %v", st.name, c.Kind, c, st.want)
		}
		switch c.Kind {
		case OK:
			m.Update(st.s.batch())
		case Duplicate:
			if c.First != st.first || c.Last != st.first+model.Offset(st.s.n-1) {
				t.Fatalf("%s: duplicate of %d..%d, want %d records at %d", st.name, c.First, c.Last, st.s.n, st.first)
			}
		}
	}
}

// TestNumbers plays the numbers of a long session: gaps, retries of remembered
// and of forgotten batches, a new epoch, the old one fenced.
func TestNumbers(t *testing.T) {
	play(t, New(), []step{
		{"first", data(7, 0, 0, 0, 5), OK, 0},
		{"retry", data(7, 0, 0, 5, 5), Duplicate, 0},
		{"gap", data(7, 0, 6, 5, 1), OutOfOrder, 0},
		{"next", data(7, 0, 5, 5, 5), OK, 0},
		{"10", data(7, 0, 10, 10, 1), OK, 0},
		{"11", data(7, 0, 11, 11, 1), OK, 0},
		{"12", data(7, 0, 12, 12, 1), OK, 0},
		{"first is the fifth and still known", data(7, 0, 0, 13, 5), Duplicate, 0},
		{"13", data(7, 0, 13, 13, 1), OK, 0},
		{"first is forgotten", data(7, 0, 0, 14, 5), OutOfOrder, 0},
		{"14", data(7, 0, 14, 14, 1), OK, 0},
		{"retry of 10", data(7, 0, 10, 15, 1), Duplicate, 10},
		{"retry of 5-9, forgotten", data(7, 0, 5, 15, 5), OutOfOrder, 0},
		{"same first, other last", data(7, 0, 10, 15, 2), OutOfOrder, 0},
		{"same last, other first", data(7, 0, 13, 15, 2), OutOfOrder, 0},
		{"epoch 1 not from zero", data(7, 1, 3, 15, 1), OutOfOrder, 0},
		{"epoch 1", data(7, 1, 0, 15, 1), OK, 0},
		{"epoch 0 is fenced", data(7, 0, 15, 16, 1), FencedEpoch, 0},
		{"epoch 0 is fenced even for a retry", data(7, 0, 14, 16, 1), FencedEpoch, 0},
		{"epoch 1 again", data(7, 1, 0, 16, 1), Duplicate, 15},
		{"epoch 1 next", data(7, 1, 1, 16, 1), OK, 0},
		{"another producer", data(8, 0, 0, 17, 1), OK, 0},
		{"no producer", data(model.NoProducerID, -1, -1, 18, 1), OK, 0},
		{"no producer again", data(model.NoProducerID, -1, -1, 19, 1), OK, 0},
	})
}

func TestSequencesWrap(t *testing.T) {
	const last = math.MaxInt32
	play(t, New(), []step{
		{"up to the last number", data(1, 0, last-3, 0, 4), OK, 0},
		{"not to its successor as a plain number", data(1, 0, math.MinInt32, 4, 1), OutOfOrder, 0},
		{"zero follows", data(1, 0, 0, 4, 1), OK, 0},
	})
	play(t, New(), []step{
		{"across: MAX-1, MAX, 0, 1", data(1, 0, last-1, 0, 4), OK, 0},
		{"again", data(1, 0, last-1, 4, 4), Duplicate, 0},
		{"two follows", data(1, 0, 2, 4, 1), OK, 0},
		{"one does not", data(1, 0, 1, 5, 1), OutOfOrder, 0},
	})
}

func TestUnknownProducerMayBeginAnywhere(t *testing.T) {
	play(t, New(), []step{
		{"any sequence", data(1, 3, 77, 0, 1), OK, 0},
		{"then in order", data(1, 3, 79, 1, 1), OutOfOrder, 0},
		{"then in order", data(1, 3, 78, 1, 1), OK, 0},
	})
}

// TestOrderOfChecks has batches that break several rules at once: the first in
// Kafka's order is the one that is told.
func TestOrderOfChecks(t *testing.T) {
	m := New()
	m.Update(inTxn(1, 5, 0, 0, 2).batch())
	plain := data(1, 5, 0, 2, 2)
	for _, tc := range []struct {
		name string
		s    spec
		want Verdict
	}{
		{"a plain batch that is a duplicate", plain, Duplicate},
		{"old epoch, gap, outside the transaction", data(1, 4, 9, 2, 1), FencedEpoch},
		{"gap, outside the transaction", data(1, 5, 9, 2, 1), OutOfOrder},
		{"in order, outside the transaction", data(1, 5, 2, 2, 1), InvalidTxnState},
		{"new epoch, not from zero, outside the transaction", data(1, 6, 2, 2, 1), OutOfOrder},
		{"new epoch, outside the transaction", data(1, 6, 0, 2, 1), InvalidTxnState},
		{"in order, inside", inTxn(1, 5, 2, 2, 1), OK},
	} {
		c := m.Check(tc.s.batch())
		if c.Kind != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, c.Kind, tc.want)
		}
		if c.Kind != OK && c.Kind != Duplicate && (c.KnownEpoch != 5 || c.Expected != 2) {
			t.Errorf("%s: known epoch %d, expected %d; want 5 and 2", tc.name, c.KnownEpoch, c.Expected)
		}
	}
}

func TestDuplicateTellsTheOriginalAppendTime(t *testing.T) {
	m := New()
	first := data(1, 0, 0, 40, 3)
	first.appendTime, first.ts = true, 5000
	m.Update(first.batch())
	m.Update(data(1, 0, 3, 43, 1).batch())
	retry := data(1, 0, 0, 44, 3)
	retry.ts = 9999
	c := m.Check(retry.batch())
	if c.Kind != Duplicate || c.First != 40 || c.Last != 42 || c.Timestamp != 5000 {
		t.Errorf("%+v, want a duplicate of 40..42 at 5000", c)
	}
}

func TestCoordinatorBatchesCarryNoSequence(t *testing.T) {
	m := New()
	offsets := inTxn(1, 2, model.NoSequence, 0, 1)
	for i := range 3 {
		offsets.base = model.Offset(i)
		if c := m.CheckCoordinator(offsets.batch()); c.Kind != OK {
			t.Fatalf("batch %d: %v", i, c.Kind)
		}
		m.Update(offsets.batch())
	}
	e, _ := m.Lookup(1)
	if len(e.Batches()) != 3 || e.LastSeq() != model.NoSequence || e.TxnFirstOffset != 0 {
		t.Errorf("entry %+v", e)
	}
	if c := m.CheckCoordinator(inTxn(1, 1, model.NoSequence, 3, 1).batch()); c.Kind != FencedEpoch {
		t.Errorf("old epoch: %v", c.Kind)
	}
	if c := m.CheckCoordinator(data(1, 2, model.NoSequence, 3, 1).batch()); c.Kind != InvalidTxnState {
		t.Errorf("outside the transaction: %v", c.Kind)
	}
	if c := m.CheckCoordinator(data(9, 0, model.NoSequence, 3, 1).batch()); c.Kind != OK {
		t.Errorf("unknown producer: %v", c.Kind)
	}
}

func TestCheckMarker(t *testing.T) {
	m := New()
	m.Update(inTxn(1, 5, 0, 0, 1).batch())
	m.Update(end(2, 5, 1, true, 9).batch())
	for _, tc := range []struct {
		name    string
		id      model.ProducerID
		epoch   model.ProducerEpoch
		coord   int32
		version int16
		want    Verdict
	}{
		{"same epoch, version 1", 1, 5, 0, 1, OK},
		{"same epoch, version 2, open", 1, 5, 0, 2, FencedEpoch},
		{"next epoch, version 2", 1, 6, 0, 2, OK},
		{"old epoch", 1, 4, 0, 1, FencedEpoch},
		{"same epoch, version 2, nothing open", 2, 5, 9, 2, OK},
		{"old epoch, version 2, nothing open", 2, 4, 9, 2, FencedEpoch},
		{"old coordinator", 2, 5, 8, 1, CoordinatorFenced},
		{"old epoch before old coordinator", 2, 4, 8, 1, FencedEpoch},
		{"new coordinator", 2, 5, 10, 1, OK},
		{"unknown producer", 3, 0, 0, 2, OK},
	} {
		if c := m.CheckMarker(tc.id, tc.epoch, tc.coord, tc.version); c.Kind != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, c.Kind, tc.want)
		}
	}
}

func TestVerdictNames(t *testing.T) {
	seen := map[string]bool{}
	for v := OK; v <= CoordinatorFenced+1; v++ {
		if s := fmt.Sprint(v); seen[s] || s == "" {
			t.Errorf("verdict %d has the name %q of another", v, s)
		} else {
			seen[s] = true
		}
	}
}

// TestKnownProducersCostNoAllocation covers data and markers: they run inside
// the partition's loop for every idempotent batch.
func TestKnownProducersCostNoAllocation(t *testing.T) {
	m := New()
	m.Update(inTxn(1, 0, 0, 0, 1).batch())
	next := inTxn(1, 0, 1, 1, 1).batch()
	dup := inTxn(1, 0, 0, 1, 1).batch()
	commit := end(1, 0, 2, true, 0).batch()
	base := model.Offset(1)
	n := testing.AllocsPerRun(200, func() {
		stampSeq(next, base, model.Sequence(base))
		if m.Check(next).Kind != OK {
			t.Fatal("not in order")
		}
		m.Update(next)
		m.Check(dup)
		stampSeq(commit, base+1, model.NoSequence)
		m.Completes(commit)
		m.Update(commit)
		m.FirstUnstable()
		m.AdvanceHighWatermark(base + 2)
		m.CheckMarker(1, 0, 0, 1)
		base++
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
