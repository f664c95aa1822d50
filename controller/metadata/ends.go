package metadata

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// replicaKey names one replica.
type replicaKey struct {
	topic     model.TopicID
	partition int32
	broker    model.BrokerID
}

func compareReplicas(a, b replicaKey) int {
	if c := bytes.Compare(a.topic[:], b.topic[:]); c != 0 {
		return c
	}
	if c := cmp.Compare(a.partition, b.partition); c != 0 {
		return c
	}
	return cmp.Compare(a.broker, b.broker)
}

// record returns the snapshot record of a noted end.
func (k replicaKey) record(end model.OffsetAndEpoch) *ReplicaEnd {
	return &ReplicaEnd{Broker: k.broker, TopicID: k.topic, Partition: k.partition, End: end}
}

// ReplicaEnd returns what b said that it found of its replica of tp when it
// came back; false if it said nothing.
func (m *Image) ReplicaEnd(tp model.TopicIDPartition, b model.BrokerID) (model.OffsetAndEpoch, bool) {
	return m.ends.get(replicaKey{tp.TopicID, tp.Partition, b})
}

func (e *Edit) replicaEnd(r *ReplicaEnd) string {
	p := e.next.PartitionByID(model.TopicIDPartition{TopicID: r.TopicID, Partition: r.Partition})
	switch {
	case p == nil:
		return fmt.Sprintf("no partition %d of topic %s", r.Partition, r.TopicID)
	case !p.HasReplica(r.Broker) || p.InISR(r.Broker) && !(IsRemnant(r.End) && p.lastLeader(r.Broker)):
		return fmt.Sprintf("broker %d has no replica outside the isr: %s", r.Broker, p)
	}
	k := replicaKey{r.TopicID, r.Partition, r.Broker}
	e.forgetEnd(k)
	e.next.ends.put(e.owner, k, r.End)
	e.swap(nil, r)
	return ""
}

// lastLeader reports whether b leads and is the only one in sync.
func (p *PartitionRegistration) lastLeader(b model.BrokerID) bool {
	return p.Leader == b && len(p.ISR) == 1 && p.ISR[0] == b
}

func (e *Edit) forgetEnd(k replicaKey) {
	if end, ok := e.next.ends.get(k); ok {
		e.swap(k.record(end), nil)
		e.next.ends.remove(e.owner, k)
	}
}

// forgetEnds drops what was noted of these replicas.
func (e *Edit) forgetEnds(topic model.TopicID, n int32, brokers []model.BrokerID) {
	if e.next.ends.size == 0 {
		return
	}
	for _, b := range brokers {
		e.forgetEnd(replicaKey{topic, n, b})
	}
}

// forgetEndsOf drops what b said in an earlier life.
func (e *Edit) forgetEndsOf(b model.BrokerID) {
	var gone []replicaKey
	for k := range e.next.ends.all() {
		if k.broker == b {
			gone = append(gone, k)
		}
	}
	for _, k := range gone {
		e.forgetEnd(k)
	}
}

// rejoined drops what was noted of replicas that are in the ISR now, or not
// assigned any more.
func (e *Edit) rejoined(topic model.TopicID, n int32, old, now *PartitionRegistration) {
	if old == nil || e.next.ends.size == 0 {
		return
	}
	for _, b := range old.Replicas {
		if now.lastLeader(b) {
			if end, ok := e.next.ends.get(replicaKey{topic, n, b}); ok && IsRemnant(end) {
				continue // it leads damaged as it is
			}
		}
		if now.InISR(b) || !now.HasReplica(b) {
			e.forgetEnd(replicaKey{topic, n, b})
		}
	}
}
