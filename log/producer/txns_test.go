package producer

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

func wantUnstable(t *testing.T, m *StateManager, when string, want model.Offset) {
	t.Helper()
	got, ok := m.FirstUnstable()
	if got != want || ok != (want != model.NoOffset) {
		t.Fatalf("%s: first unstable %d %v, want %d", when, got, ok, want)
	}
}

func TestFirstUnstable(t *testing.T) {
	m := New()
	wantUnstable(t, m, "empty", -1)
	m.Update(data(9, 0, 0, 0, 10).batch())
	wantUnstable(t, m, "plain data", -1)
	m.Update(inTxn(1, 0, 0, 10, 2).batch())
	m.Update(inTxn(2, 0, 0, 12, 2).batch())
	m.Update(inTxn(1, 0, 2, 14, 2).batch())
	wantUnstable(t, m, "two open", 10)

	commit := end(1, 0, 16, true, 3).batch()
	want := CompletedTxn{ProducerID: 1, FirstOffset: 10, LastOffset: 16, LastStableOffset: 12}
	if got, ok := m.Completes(commit); !ok || got != want {
		t.Fatalf("completes %+v %v", got, ok)
	}
	wantUnstable(t, m, "asking changes nothing", 10)
	if got, ok := m.Update(commit); !ok || got != want {
		t.Fatalf("update %+v %v", got, ok)
	}
	wantUnstable(t, m, "decided, not replicated", 10)
	if o, ok := m.FirstUndecided(); !ok || o != 12 {
		t.Fatalf("first undecided %d %v", o, ok)
	}
	if m.AdvanceHighWatermark(16) {
		t.Fatal("the marker at 16 is not below 16")
	}
	wantUnstable(t, m, "HW on the marker", 10)
	if !m.AdvanceHighWatermark(17) {
		t.Fatal("the marker at 16 is below 17")
	}
	wantUnstable(t, m, "HW past the marker", 12)

	abort := end(2, 0, 17, false, 3).batch()
	if got, ok := m.Update(abort); !ok || got != (CompletedTxn{2, 12, 17, 18, true}) {
		t.Fatalf("abort %+v %v", got, ok)
	}
	wantUnstable(t, m, "abort, not replicated", 12)
	if _, ok := m.FirstUndecided(); ok {
		t.Fatal("nothing is open")
	}
	m.AdvanceHighWatermark(18)
	wantUnstable(t, m, "all stable", -1)
}

// TestDecidedOutOfOrder: a transaction that began first ends last, and the
// other way round; what is unstable is the least begin of both kinds.
func TestDecidedOutOfOrder(t *testing.T) {
	m := New()
	for id := range model.ProducerID(3) {
		m.Update(inTxn(id, 0, 0, model.Offset(id), 1).batch()) // begin 0, 1, 2
	}
	m.Update(end(2, 0, 3, true, 0).batch())
	m.Update(end(0, 0, 4, true, 0).batch())
	wantUnstable(t, m, "0 decided, 1 open", 0)
	m.AdvanceHighWatermark(4)
	wantUnstable(t, m, "2 stable, 0 not", 0)
	m.AdvanceHighWatermark(5)
	wantUnstable(t, m, "0 stable, 1 open", 1)
	m.Update(end(1, 0, 5, false, 0).batch())
	m.AdvanceLogStart(6)
	wantUnstable(t, m, "log start past all", -1)
	if m.MapEnd() != 6 {
		t.Errorf("map end %d", m.MapEnd())
	}
	m.AdvanceLogStart(9)
	if m.MapEnd() != 9 {
		t.Errorf("map end %d after the log start moved past it", m.MapEnd())
	}
}

func TestMarkers(t *testing.T) {
	m := New()
	if _, ok := m.Update(end(1, 4, 0, true, 7).batch()); ok {
		t.Fatal("a marker without a transaction completes none")
	}
	e, ok := m.Lookup(1)
	if !ok || e.Epoch != 4 || e.CoordinatorEpoch != 7 || e.LastTimestamp != 1000 || e.HasOpenTxn() {
		t.Fatalf("entry after a lone marker: %+v", e)
	}
	play(t, m, []step{
		{"after a marker a sequence is not unknown", inTxn(1, 4, 5, 1, 1), OutOfOrder, 0},
		{"it begins at zero", inTxn(1, 4, 0, 1, 1), OK, 0},
	})
	m.Update(end(1, 4, 2, true, 7).batch())
	play(t, m, []step{
		{"a marker of the same epoch keeps the batches", inTxn(1, 4, 0, 3, 1), Duplicate, 1},
		{"and the sequence", inTxn(1, 4, 1, 3, 1), OK, 0},
	})
	m.Update(end(1, 5, 4, false, 8).batch())
	e, _ = m.Lookup(1)
	if e.Epoch != 5 || len(e.Batches()) != 0 || e.CoordinatorEpoch != 8 {
		t.Fatalf("a marker of a new epoch forgets the batches: %+v", e)
	}
	play(t, m, []step{
		{"the old epoch is fenced", inTxn(1, 4, 2, 5, 1), FencedEpoch, 0},
		{"the new one begins at zero", inTxn(1, 5, 0, 5, 1), OK, 0},
	})
}

func TestMarkersThatAreNone(t *testing.T) {
	empty := end(1, 0, 1, true, 0)
	empty.empty = true
	kraft := end(1, 0, 1, true, 0).batch()
	kraft[record.HeaderSize+8] = 2 // low byte of the type: a leader change
	short := end(1, 0, 1, true, 0).batch()
	short[record.HeaderSize] = 4 // a record of two bytes
	negative := end(1, 0, 1, true, 0).batch()
	negative[record.HeaderSize+5] = 0xFF // version of the key
	for name, b := range map[string]record.Batch{
		"emptied by compaction": empty.batch(), "another control type": kraft, "truncated": short,
		"negative version": negative, "no records": end(1, 0, 1, true, 0).batch()[:record.HeaderSize],
	} {
		m := New()
		m.Update(inTxn(1, 0, 0, 0, 1).batch())
		if _, ok := m.Completes(b); ok {
			t.Errorf("%s: completes", name)
		}
		if _, ok := m.Update(b); ok {
			t.Errorf("%s: completed", name)
		}
		if o, ok := m.FirstUnstable(); !ok || o != 0 || m.MapEnd() != 2 {
			t.Errorf("%s: first unstable %d %v, map end %d", name, o, ok, m.MapEnd())
		}
	}
}

// TestReplicationIsNotJudged: followers and recovery apply what the leader
// wrote.
func TestReplicationIsNotJudged(t *testing.T) {
	m := New()
	m.Update(data(1, 5, 0, 0, 1).batch())
	m.Update(data(1, 5, 9, 1, 1).batch()) // a gap
	m.Update(data(1, 4, 3, 2, 1).batch()) // an old epoch
	e, _ := m.Lookup(1)
	if e.Epoch != 4 || len(e.Batches()) != 1 || e.LastSeq() != 3 || m.MapEnd() != 3 {
		t.Errorf("%+v, map end %d", e, m.MapEnd())
	}
}

func TestExpire(t *testing.T) {
	m := New()
	m.Update(data(1, 0, 0, 0, 1).batch())  // at 1000
	m.Update(data(2, 0, 0, 10, 1).batch()) // at 1010
	m.Update(inTxn(3, 0, 0, 11, 1).batch())
	future := data(4, 0, 0, 12, 1)
	future.ts = 1 << 62
	m.Update(future.batch())
	past := data(5, 0, 0, 13, 1)
	past.ts = -1 << 63
	m.Update(past.batch())

	if n := m.Expire(1100, 101); n != 1 {
		t.Errorf("expired %d, want only the one with an absurd timestamp", n)
	}
	if n := m.Expire(1100, 100); n != 1 {
		t.Errorf("expired %d, want the one silent for exactly the limit", n)
	}
	if n := m.Expire(1<<61, 100); n != 1 || m.Len() != 2 {
		t.Errorf("expired %d, left %d: want the open transaction and the future to stay", n, m.Len())
	}
	if _, ok := m.Lookup(3); !ok {
		t.Error("a producer with an open transaction expired")
	}
	play(t, m, []step{{"an expired producer may begin anywhere", data(2, 0, 50, 14, 1), OK, 0}})
	m.Update(end(3, 0, 15, true, 0).batch())
	if n := m.Expire(1<<61, 100); n != 2 {
		t.Errorf("expired %d, want 2 once the transaction is closed", n)
	}
}

func TestResetForgetsAll(t *testing.T) {
	m := New()
	m.Update(inTxn(1, 0, 0, 0, 1).batch())
	m.Update(inTxn(2, 0, 0, 1, 1).batch())
	m.Update(end(2, 0, 2, true, 0).batch())
	m.Reset(40)
	if m.Len() != 0 || m.MapEnd() != 40 {
		t.Errorf("%d producers, map end %d", m.Len(), m.MapEnd())
	}
	wantUnstable(t, m, "after reset", -1)
}

// TestLongReplayGivesMemoryBack: a replay piles up decided transactions until
// the high watermark is told.
func TestLongReplayGivesMemoryBack(t *testing.T) {
	m := New()
	o := model.Offset(0)
	for i := range 5 * decidedKeepMax {
		m.Update(inTxn(1, 0, model.Sequence(i), o, 1).batch())
		m.Update(end(1, 0, o+1, true, 0).batch())
		o += 2
	}
	m.AdvanceHighWatermark(o - 1)
	wantUnstable(t, m, "last marker not replicated", o-2)
	if n := cap(m.txns.decided); n > decidedKeepMax {
		t.Errorf("room for %d is kept", n)
	}
}
