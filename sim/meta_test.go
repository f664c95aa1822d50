package sim

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Who may be in the ELR after one entry of the metadata log.
func TestWhoMayBeInELR(t *testing.T) {
	type ids = []model.BrokerID
	reg := func(epoch model.PartitionEpoch, isr, elr ids) *metadata.PartitionRegistration {
		return &metadata.PartitionRegistration{PartitionEpoch: epoch, ISR: isr, ELR: elr}
	}
	for name, c := range map[string]struct {
		was, reg *metadata.PartitionRegistration
		cleared  bool
		wrong    model.BrokerID
	}{
		"new":                           {nil, reg(0, ids{1}, nil), false, model.NoLeader},
		"as before":                     {reg(3, ids{1}, ids{2}), reg(3, ids{1}, ids{2}), false, model.NoLeader},
		"from the ISR":                  {reg(3, ids{1, 2}, nil), reg(4, ids{1}, ids{2}), false, model.NoLeader},
		"from nowhere":                  {reg(3, ids{1}, nil), reg(4, ids{1}, ids{2}), false, 2},
		"kept by a change":              {reg(3, ids{1}, ids{2}), reg(3, ids{1}, ids{2}), true, 2},
		"kept by a change, and another": {reg(3, ids{1, 3}, ids{2}), reg(4, ids{1}, ids{2, 3}), true, 2},
		"left the ISR behind a change":  {reg(3, ids{1}, nil), reg(4, nil, ids{1}), true, model.NoLeader},
		"elected unclean, then stopped": {reg(5, ids{2}, nil), reg(7, nil, ids{3}), false, model.NoLeader},
	} {
		if got := wrongInELR(c.was, c.reg, c.cleared); got != c.wrong {
			t.Errorf("%s: broker %d is wrong there, want %d", name, got, c.wrong)
		}
	}
}

// Who leads may have come into the ISR only in the entry in which it is elected.
func TestWhoMayHaveJoined(t *testing.T) {
	type ids = []model.BrokerID
	reg := func(leader model.BrokerID, epoch model.PartitionEpoch, isr ids, adding ids) *metadata.PartitionRegistration {
		return &metadata.PartitionRegistration{Leader: leader, PartitionEpoch: epoch, ISR: isr, Replicas: ids{1, 2, 3}, Adding: adding}
	}
	for name, c := range map[string]struct {
		was, reg    *metadata.PartitionRegistration
		sound, want bool
	}{
		"at once":                      {reg(1, 3, ids{1}, nil), reg(2, 4, ids{2}, nil), true, false},
		"then the leader left":         {reg(1, 3, ids{1}, nil), reg(2, 5, ids{2}, nil), true, true},
		"the leader lost power":        {reg(1, 3, ids{1}, nil), reg(2, 5, ids{2}, nil), false, false},
		"without a leader":             {reg(-1, 3, ids{1}, nil), reg(2, 5, ids{2}, nil), true, false},
		"beside a member":              {reg(-1, 3, ids{1}, nil), reg(2, 5, ids{1, 2}, nil), false, true},
		"by the end of a reassignment": {reg(4, 3, ids{4}, ids{2}), reg(2, 4, ids{2}, nil), false, true},
	} {
		if got := joined(c.was, c.reg, c.sound); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A log is over once its own broker has heard that it is out of the assignment, not
// when others have: one that misses it goes on with what it has.
func TestReplicaThatWasTakenOut(t *testing.T) {
	type ids = []model.BrokerID
	id := model.TopicIDPartition{TopicID: model.TopicID{7}}
	assigned := func(replicas ids) *metadata.Image {
		img, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, []metadata.Record{
			&metadata.TopicRecord{ID: id.TopicID, Name: "d0"},
			&metadata.PartitionRecord{TopicID: id.TopicID, PartitionRegistration: metadata.PartitionRegistration{
				Replicas: replicas, Directories: make([]metadata.DirectoryID, len(replicas)), ISR: replicas[:1], Leader: replicas[0],
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	for name, c := range map[string]struct {
		heard         []ids
		newest        bool
		left, removed bool
	}{
		"has not heard":             {[]ids{{1, 2}}, false, false, true},
		"has heard":                 {[]ids{{1}}, true, true, true},
		"has heard, and is back":    {[]ids{{1}, {1, 2}}, true, true, true},
		"is back, and hears of all": {[]ids{{1, 2}}, true, false, false},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		r := w.machines[1].replica(w.h.part(id, model.TopicPartition{Topic: "d0"}))
		r.removed = true
		for _, replicas := range c.heard {
			r.hears(assigned(replicas), c.newest)
		}
		if r.left != c.left || r.removed != c.removed {
			t.Errorf("%s: left %v, removed %v", name, r.left, r.removed)
		}
	}
}
