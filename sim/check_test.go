package sim

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Who begins to lead an epoch late, when the next has begun, need not have what
// was acknowledged there.
func TestLeaderNeedsWhatWasAcknowledgedBefore(t *testing.T) {
	p := &part{acked: 4, recs: []rec{{id: 1, epoch: 0}, {id: 2, epoch: 1}, {id: 3, epoch: -1}, {id: 4, epoch: 3}}}
	for epoch, want := range map[int32]int64{0: 3, 2: 3, 3: 4, 9: 4} {
		if got := p.ackedBefore(epoch); got != want {
			t.Errorf("epoch %d: %d, want %d", epoch, got, want)
		}
	}
	p.recs[2].epoch = 1
	if got := p.ackedBefore(0); got != 1 {
		t.Errorf("epoch 0 needs what ends at %d, want 1", got)
	}
	p.recs = nil
	if got := p.ackedBefore(0); got != 4 {
		t.Errorf("of unknown records %d, want 4", got)
	}
}

// A seat that a broker gets while nobody knows that its power was lost is not a
// sound one, until it has registered again.
func TestPowerLostBeforeTheReplica(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	m.powerLost()
	if r := m.replica(p); !r.dark || !r.tainted {
		t.Errorf("after the loss: dark %v, tainted %v", r.dark, r.tainted)
	}
	if r := w.machines[1].replica(p); r.dark || r.tainted {
		t.Errorf("on another machine: dark %v, tainted %v", r.dark, r.tainted)
	}
}

// A registration that was under way when power went says nothing of the loss.
func TestRegistrationOfAnEarlierLife(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	m.lives = 4
	m.lifeOf[metadata.Incarnation{1}], m.lifeOf[metadata.Incarnation{2}] = 4, 5
	register := func(name byte) {
		img, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, []metadata.Record{&metadata.RegisterBroker{ID: 1, Incarnation: metadata.Incarnation{name}}})
		if err != nil {
			t.Fatal(err)
		}
		w.meta.img = img
		w.meta.registered(1)
	}
	m.powerLost()
	m.lives = 5
	if register(1); !m.powerCut {
		t.Error("the loss is told before the next life registers")
	}
	if register(2); m.powerCut {
		t.Error("the loss is not told when the next life registers")
	}
}
