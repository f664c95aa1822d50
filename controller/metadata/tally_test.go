package metadata

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// checkTally counts anew.
func checkTally(t *testing.T, m *Image) {
	t.Helper()
	var want tally
	for topic := range m.Topics() {
		for _, p := range topic.Partitions {
			want.add(p, 1)
		}
	}
	if m.Offline() != want.offline || m.Imbalanced() != want.imbalanced || m.Reassigning() != want.reassigning {
		t.Fatalf("tally %+v, counted %+v", m.tally, want)
	}
	if len(m.tally.loads) != len(want.loads) {
		t.Fatalf("loads %v, counted %v", m.tally.loads, want.loads)
	}
	for b := model.BrokerID(0); b < 5; b++ {
		if m.Leads(b) != want.of(b).leads || m.InSync(b) != want.of(b).isr {
			t.Fatalf("broker %d: leads %d, in sync %d, counted %+v", b, m.Leads(b), m.InSync(b), want.of(b))
		}
	}
}

// checkEnds: what is noted is about assigned replicas outside the ISR.
func checkEnds(t *testing.T, m *Image) {
	t.Helper()
	for k := range m.ends.all() {
		p := m.PartitionByID(model.TopicIDPartition{TopicID: k.topic, Partition: k.partition})
		if p == nil || !p.HasReplica(k.broker) || p.InISR(k.broker) {
			t.Fatalf("an end is noted of broker %d, partition %v", k.broker, p)
		}
	}
}

// TestEndsGo: a noted end lasts until the replica is in sync again, the broker
// comes back anew, or its topic or assignment is gone.
func TestEndsGo(t *testing.T) {
	tp := model.TopicIDPartition{TopicID: topicID(0), Partition: 1}
	end := model.OffsetAndEpoch{Offset: 7, Epoch: 3}
	noted := &ReplicaEnd{Broker: 3, TopicID: tp.TopicID, Partition: tp.Partition, End: end}
	change := func(f func(c *PartitionChange)) Record {
		c := NewPartitionChange(tp.TopicID, tp.Partition)
		f(c)
		return c
	}
	for name, c := range map[string]struct {
		r    Record
		gone bool
	}{
		"in sync":       {change(func(c *PartitionChange) { c.ISR = []model.BrokerID{1, 2, 3} }), true},
		"another":       {change(func(c *PartitionChange) { c.ISR = []model.BrokerID{1} }), false},
		"not assigned":  {change(func(c *PartitionChange) { c.Replicas = []model.BrokerID{1, 2} }), true},
		"topic removed": {&RemoveTopic{ID: tp.TopicID}, true},
		"comes back":    {&BrokerEpochBump{ID: 3}, true},
		"other bump":    {&BrokerEpochBump{ID: 2, Stop: StopPower}, false},
	} {
		m, _, err := Apply(grow(2, 2), m0, []Record{noted})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := m.ReplicaEnd(tp, 3); !ok || got != end {
			t.Fatalf("%s: %v %t", name, got, ok)
		}
		next, _, err := Apply(m, m0, []Record{c.r})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := next.ReplicaEnd(tp, 3); ok == c.gone {
			t.Errorf("%s: noted end is there: %t", name, ok)
		}
		if next.Hash() != rehash(next) {
			t.Errorf("%s: hash", name)
		}
	}
}

// TestLeaveSeats: what each kind of stop costs.
func TestLeaveSeats(t *testing.T) {
	ids := func(b ...model.BrokerID) []model.BrokerID { return b }
	tp := model.TopicIDPartition{TopicID: topicID(0), Partition: 0}
	for _, c := range []struct {
		name    string
		p       PartitionRegistration
		stop    Stop
		damaged bool
		want    string
	}{
		{"clean", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1, 2), Leader: 1}, StopClean, false,
			"leader=-1 e1 p1 replicas=[1 2] isr=[1 2]"},
		{"process", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1, 2), Leader: 1}, StopProcess, false,
			"leader=-1 e1 p1 replicas=[1 2] isr=[1 2]"},
		{"power", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1, 2), Leader: 1}, StopPower, false,
			"leader=-1 e1 p1 replicas=[1 2] isr=[2] lastKnown=[1]"},
		{"power of a follower", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1, 2), Leader: 2}, StopPower, false,
			"leader=2 e0 p1 replicas=[1 2] isr=[2] lastKnown=[1]"},
		{"power of an eligible leader", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(2), ELR: ids(1), Leader: 2}, StopPower, false,
			"leader=2 e0 p1 replicas=[1 2] isr=[2] lastKnown=[1]"},
		{"power of a sole member", PartitionRegistration{Replicas: ids(1), ISR: ids(1), Leader: 1}, StopPower, false,
			"leader=-1 e1 p1 replicas=[1] isr=[] lastKnown=[1]"},
		{"clean of a sole member", PartitionRegistration{Replicas: ids(1), ISR: ids(1), Leader: 1}, StopClean, false,
			"leader=-1 e1 p1 replicas=[1] isr=[1]"},
		{"damaged", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1, 2), Leader: 1}, StopClean, true,
			"leader=-1 e1 p1 replicas=[1 2] isr=[2] lastKnown=[1]"},
		{"nothing to lose", PartitionRegistration{Replicas: ids(1, 2), ISR: ids(2), Leader: 2}, StopPower, true,
			"leader=2 e0 p0 replicas=[1 2] isr=[2]"},
	} {
		bump := &BrokerEpochBump{ID: 1, Stop: c.stop}
		if c.damaged {
			bump.Damaged = []model.TopicIDPartition{tp}
		}
		m, _, err := Apply(Empty(), m0, []Record{
			&TopicRecord{Name: "t", ID: tp.TopicID}, &PartitionRecord{TopicID: tp.TopicID, PartitionRegistration: c.p}, bump,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.PartitionByID(tp).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
