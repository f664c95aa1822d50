package sim

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
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

// A leader whose log begins behind all that a producer was acknowledged may know nothing
// of it: it takes a batch whose predecessor was just refused, which is out of order then.
// One that has a batch of it left may not.
func TestOvertakenWhereAllWasDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		start model.Offset
		code  int16
		want  bool
	}{
		"all was deleted":           {5, protocol.CodeNone, true},
		"and more":                  {6, protocol.CodeNone, true},
		"a record is left":          {4, protocol.CodeNone, false},
		"the other was refused too": {5, protocol.CodeNotEnoughReplicas, false},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		tp := model.TopicPartition{Topic: "d0", Partition: 1}
		p := &producer{acks: -1, idem: true, link: link{world: w}}
		l := &lane{to: target{topic: "d0", partition: 1}}
		first, second := &batch{recs: make([]outRecord, 2)}, &batch{recs: make([]outRecord, 1)}
		l.batches = []*batch{{recs: make([]outRecord, 2)}, first, second}
		p.answer(l, l.batches[0], nil, &kmsg.ProduceResponseTopicPartition{BaseOffset: 3})
		r := w.machines[0].replica(w.h.part(model.TopicIDPartition{Partition: 1}, tp))
		r.state = &host.State{View: &log.View{}}
		r.state.LogStart = c.start
		q := &kmsg.ProduceResponseTopicPartition{BaseOffset: 7, ErrorCode: c.code}
		if second.unheralded = r.unheralded(l, q); l.overtaken() != c.want {
			t.Errorf("%s: overtaken %v, want %v", name, !c.want, c.want)
		}
		if first.settled = true; l.overtaken() {
			t.Errorf("%s: who was acknowledged was overtaken", name)
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
