package sim

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// A batch that was found in one log, and passed over without an acknowledgement, may
// have been cut since. What is in the leader's files, or was shown, may not.
func TestLogWithoutWhatWasPassedOver(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	r := w.machines[0].replica(p)
	for range 3 {
		w.h.newPayload("d0", 1, true)
	}
	w.h.payload(2).part = p // it was shown, and is lost if it is not there
	file := appendBatch(nil, []outRecord{{id: 1, ts: 5}}, 7, 0, 0)
	if err := errors.Join(r.m.disk.MkdirAll(partDir(p.tp), 0o755), vfs.WriteFileAtomic(r.m.disk, partDir(p.tp)+"/00000000000000000000.log", file)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		passed []uint64
		want   bool
	}{{nil, false}, {[]uint64{1}, false}, {[]uint64{2}, false}, {[]uint64{3}, true}, {[]uint64{1, 2, 3}, true}} {
		if got := r.without(tc.passed, 0); got != tc.want {
			t.Errorf("passed over %v: the log is without one of them %v", tc.passed, got)
		}
	}
}

// A sequence that is out of order at acks=1 needs no other reason than that two
// leaders took batches of it, one of them without knowing of the other.
func TestLaneIsWholeOnOneLeader(t *testing.T) {
	a, b := &node{}, &node{}
	l := &lane{}
	if !l.whole(a) {
		t.Error("nothing was acknowledged, and something is lost")
	}
	l.took(a)
	l.took(a)
	if !l.whole(a) || l.whole(b) {
		t.Errorf("one leader took all: whole for it %v, for another %v", l.whole(a), l.whole(b))
	}
	l.took(b)
	if l.whole(a) || l.whole(b) {
		t.Error("two leaders took batches, and either has all")
	}
}
