package inspect

import (
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

func TestElectionsAreCounted(t *testing.T) {
	id := model.TopicID{1}
	all := []model.BrokerID{1, 2, 3}
	topic := func(id model.TopicID, leader model.BrokerID, isr, elr []model.BrokerID) *metadata.Topic {
		return &metadata.Topic{ID: id, Partitions: []*metadata.PartitionRegistration{
			{Replicas: all, ISR: isr, ELR: elr, Leader: leader},
		}}
	}
	var e elections
	change := func(old, now *metadata.Topic) {
		e.count(nil, &metadata.Delta{Topics: []metadata.TopicDelta{{Old: old, New: now, Partitions: []int32{0}}}})
	}
	want := func(elected, unclean, lost int64) {
		t.Helper()
		if e.elected.Load() != elected || e.unclean.Load() != unclean || e.lost.Load() != lost {
			t.Errorf("elected %d, unclean %d, lost %d; want %d, %d, %d",
				e.elected.Load(), e.unclean.Load(), e.lost.Load(), elected, unclean, lost)
		}
	}
	isr := func(ids ...model.BrokerID) []model.BrokerID { return ids }
	change(nil, topic(id, 1, all, nil)) // created
	change(topic(id, 1, all, nil), nil) // deleted
	change(topic(id, 1, all, nil), topic(id, 1, isr(1), nil))
	want(0, 0, 0)
	change(topic(id, 1, all, nil), topic(id, 2, isr(2, 3), nil))
	want(1, 0, 0)
	change(topic(id, 2, isr(2), nil), topic(id, model.NoLeader, isr(), isr(2)))
	want(1, 0, 1)
	change(topic(id, model.NoLeader, isr(), isr(2)), topic(id, 2, isr(2), nil))
	want(2, 0, 1)
	change(topic(id, model.NoLeader, isr(), isr(2)), topic(id, 3, isr(3), nil))
	want(3, 1, 1)
	change(topic(id, 1, all, nil), topic(model.TopicID{2}, 3, all, nil)) // created anew
	want(3, 1, 1)
}

// TestDroppedRecordsAreCounted: the best of two that lost power is not back, the
// other leads.
func TestDroppedRecordsAreCounted(t *testing.T) {
	id := model.TopicID{1}
	var n Node
	m := metadata.Empty()
	at := model.OffsetAndEpoch{}
	apply := func(recs ...metadata.Record) {
		t.Helper()
		next, d, err := metadata.Apply(m, at, recs)
		if err != nil {
			t.Fatal(err)
		}
		at.Offset++
		m = next
		n.Image(m, d)
	}
	both := []model.BrokerID{1, 2}
	apply(&metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{TopicID: id,
		PartitionRegistration: metadata.PartitionRegistration{Replicas: both, LastKnown: both, Leader: model.NoLeader}})
	apply(&metadata.ReplicaEnd{Broker: 1, TopicID: id, End: model.OffsetAndEpoch{Offset: 70, Epoch: 3}},
		&metadata.ReplicaEnd{Broker: 2, TopicID: id, End: model.OffsetAndEpoch{Offset: 50, Epoch: 3}})
	elect := metadata.NewPartitionChange(id, 0)
	elect.ISR, elect.LastKnown, elect.Leader = both[1:], []model.BrokerID{}, 2
	apply(elect)
	if got := n.elections.dropped.Load(); got != 20 {
		t.Errorf("dropped %d", got)
	}
}
