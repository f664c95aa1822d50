package sim

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
)

// What is acknowledged binds who acknowledged it and all after, and nobody before: two
// coordinators, the first of which has not heard of the second, answer apart.
func TestAcknowledged(t *testing.T) {
	a := make(acknowledged)
	want := func(epoch int32, at int64) {
		t.Helper()
		if got := a.by(epoch); got != at {
			t.Errorf("epoch %d has to know %d, want %d", epoch, got, at)
		}
	}
	want(7, -1)
	a.note(1, 20)
	a.note(3, 30)
	a.note(3, 25) // an answer that came late
	want(0, -1)
	want(1, 20)
	want(2, 20)
	want(3, 30)
	want(9, 30)
	a.note(5, 10) // and so it never falls
	want(5, 30)
}

// A coordinator that has not heard of its successor need not show what that one has
// acknowledged. The successor has to, and so does whoever was told its epoch.
func TestCoordinatorThatWasSucceeded(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	id := model.TopicIDPartition{TopicID: model.TopicID{7}}
	p := w.h.part(id, model.TopicPartition{Topic: groupsTopic})
	g, tp := w.group("g"), model.TopicPartition{Topic: "d0"}
	on := func(m *machine, epoch model.LeaderEpoch) {
		m.replica(p).state = &host.State{}
		m.replica(p).state.LeaderEpoch = epoch
	}
	elected := func(leader model.BrokerID, epoch model.LeaderEpoch) {
		replicas := []model.BrokerID{1, 2}
		img, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, []metadata.Record{
			&metadata.TopicRecord{ID: id.TopicID, Name: groupsTopic},
			&metadata.PartitionRecord{TopicID: id.TopicID, PartitionRegistration: metadata.PartitionRegistration{
				Replicas: replicas, Directories: make([]metadata.DirectoryID, 2), ISR: replicas, Leader: leader, LeaderEpoch: epoch,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.meta.img = img
	}
	want := func(b model.BrokerID, at int64) {
		t.Helper()
		if got := g.acked[tp].by(w.groupsEpochOn(b)); got != at {
			t.Errorf("broker %d has to know %d, want %d", b, got, at)
		}
	}
	elected(1, 0)
	on(w.machines[0], 0)
	g.ack(tp, w.groupsEpoch(), 10)
	want(1, 10)
	want(2, -1)
	elected(2, 1)
	on(w.machines[1], 1)
	want(2, 10)
	g.ack(tp, w.groupsEpoch(), 20)
	want(1, 10)
	want(2, 20)
	want(3, -1)
	want(9, -1) // there is none
	on(w.machines[0], 1)
	want(1, 20)
}
