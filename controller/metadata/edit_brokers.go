package metadata

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// record returns the snapshot record of a registration.
func (b *BrokerRegistration) record() *RegisterBroker {
	return &RegisterBroker{
		ID: b.ID, Epoch: b.Epoch, Incarnation: b.Incarnation, Listeners: b.Listeners, Features: b.Features,
		Rack: b.Rack, Directories: b.Directories, Fenced: b.Fenced, InShutdown: b.InShutdown,
	}
}

func (e *Edit) register(at model.OffsetAndEpoch, r *RegisterBroker) string {
	if r.ID < 0 {
		return fmt.Sprintf("broker id %d", r.ID)
	}
	b := &BrokerRegistration{
		ID: r.ID, Epoch: r.Epoch, Incarnation: r.Incarnation, Listeners: r.Listeners, Features: r.Features,
		Rack: r.Rack, Directories: r.Directories, Fenced: r.Fenced, InShutdown: r.InShutdown,
	}
	if b.Epoch == model.NoBrokerEpoch {
		b.Epoch = model.BrokerEpoch(at.Offset)
	}
	if old := e.next.Broker(r.ID); old != nil && old.Epoch >= b.Epoch {
		return fmt.Sprintf("broker %d is registered at epoch %d, not below %d", r.ID, old.Epoch, b.Epoch)
	}
	e.setBroker(b)
	return ""
}

// setBroker stores b, which nobody else holds yet, and accounts for it.
func (e *Edit) setBroker(b *BrokerRegistration) {
	i, found := e.next.brokerIndex(b.ID)
	e.next.brokers = slices.Clone(e.next.brokers)
	if found {
		e.next.sum.sub(e.next.brokers[i].sum)
		e.next.brokers[i] = b
	} else {
		e.next.brokers = slices.Insert(e.next.brokers, i, b)
	}
	b.sum = e.coder.digest(b.record())
	e.next.sum.add(b.sum)
	e.brokers[b.ID] = true
}

func (e *Edit) unregister(r *UnregisterBroker) string {
	i, found := e.next.brokerIndex(r.ID)
	if !found || e.next.brokers[i].Epoch != r.Epoch {
		return fmt.Sprintf("broker %d is not registered at epoch %d", r.ID, r.Epoch)
	}
	e.next.sum.sub(e.next.brokers[i].sum)
	e.next.brokers = slices.Delete(slices.Clone(e.next.brokers), i, i+1)
	e.brokers[r.ID] = true
	return ""
}

func (e *Edit) changeBroker(r *BrokerChange) string {
	old := e.next.Broker(r.ID)
	if old == nil || old.Epoch != r.Epoch {
		return fmt.Sprintf("broker %d is not registered at epoch %d", r.ID, r.Epoch)
	}
	b := *old
	b.Fenced = r.Fenced.on(b.Fenced)
	b.InShutdown = r.InShutdown.on(b.InShutdown)
	if r.Directories != nil {
		b.Directories = r.Directories
	}
	e.setBroker(&b)
	return ""
}

// on returns what the switch makes of a flag.
func (s Switch) on(v bool) bool {
	switch s {
	case Set:
		return true
	case Clear:
		return false
	}
	return v
}

// bump expands a BrokerEpochBump.
func (e *Edit) bump(r *BrokerEpochBump) string {
	if r.ID < 0 {
		return fmt.Sprintf("broker id %d", r.ID)
	}
	// A broker that was unregistered may still have seats: it is not fenced then.
	if old := e.next.Broker(r.ID); old != nil && (!old.Fenced || old.InShutdown) {
		b := *old
		b.Fenced, b.InShutdown = true, false
		e.setBroker(&b)
	}
	e.forgetEndsOf(r.ID)
	damaged := make(map[model.TopicIDPartition]bool, len(r.Damaged))
	for _, tp := range r.Damaged {
		damaged[tp] = true
	}
	return e.assignedTo(r.ID, func(t *Topic, n int32, p *PartitionRegistration) string {
		c := NewPartitionChange(t.ID, n)
		lost := r.Stop == StopPower || damaged[model.TopicIDPartition{TopicID: t.ID, Partition: n}]
		if !leaveSeats(c, p, r.ID, lost) {
			return ""
		}
		return e.changePartition(c)
	})
}

// leaveSeats fills c with what a broker's new incarnation costs its old one on
// one partition, and reports whether that is anything. The leadership goes in
// any case; the seats in ISR and ELR go if what it held may be lost. Who lost a
// seat so is remembered: when nobody is left, the best of those is looked for.
func leaveSeats(c *PartitionChange, p *PartitionRegistration, b model.BrokerID, lost bool) bool {
	changed := false
	if p.Leader == b && !mutant.On("ctl-no-epoch-bump") {
		c.Leader, changed = model.NoLeader, true
	}
	if !lost || (!p.InISR(b) && !p.InELR(b)) {
		return changed
	}
	isr, elr := Without(p.ISR, b), Without(p.ELR, b)
	if len(isr) == 0 && mutant.On("ctl-sole-reelected") || mutant.On("ctl-power-keeps-seat") {
		return changed
	}
	if len(isr) != len(p.ISR) {
		c.ISR = isr
	}
	if len(elr) != len(p.ELR) {
		c.ELR = elr
	}
	if !slices.Contains(p.LastKnown, b) {
		c.LastKnown = append(slices.Clone(p.LastKnown), b)
	}
	return true
}

// Without returns ids without b: never nil, so that it means "changed to this"
// in a PartitionChange. ids is not written to.
func Without(ids []model.BrokerID, b model.BrokerID) []model.BrokerID {
	out := make([]model.BrokerID, 0, len(ids))
	for _, id := range ids {
		if id != b {
			out = append(out, id)
		}
	}
	return out
}

func (e *Edit) cluster(r *Cluster) string {
	if r.ID == "" || e.next.clusterID != "" {
		return fmt.Sprintf("cluster id %q after %q", r.ID, e.next.clusterID)
	}
	e.next.clusterID = r.ID
	e.swap(nil, r)
	return ""
}

func (e *Edit) voters(r *Voters) string {
	if len(r.Voters) == 0 {
		return "no voters"
	}
	var old Record
	if len(e.next.voters) > 0 {
		old = &Voters{Voters: e.next.voters}
	}
	e.swap(old, r)
	e.next.voters, e.delta.Voters = r.Voters, true
	return ""
}

func (e *Edit) feature(r *FeatureLevel) string {
	if r.Name == "" || r.Level < 0 {
		return fmt.Sprintf("feature %q at level %d", r.Name, r.Level)
	}
	i, found := slices.BinarySearchFunc(e.next.features, r.Name, func(f Feature, name string) int {
		switch {
		case f.Name < name:
			return -1
		case f.Name > name:
			return 1
		}
		return 0
	})
	fs := slices.Clone(e.next.features)
	if found {
		e.swap(&FeatureLevel{Feature: fs[i]}, nil)
		fs = slices.Delete(fs, i, i+1)
	}
	if r.Level > 0 {
		fs = slices.Insert(fs, i, r.Feature)
		e.swap(nil, r)
	}
	e.next.features, e.delta.Features = fs, true
	return ""
}

func (e *Edit) producerIDs(r *ProducerIDs) string {
	if r.Next <= e.next.producers.Next {
		return fmt.Sprintf("producer ids up to %d were handed out, not below %d", e.next.producers.Next, r.Next)
	}
	if e.next.producers.Next > 0 {
		old := e.next.producers
		e.swap(&old, nil)
	}
	e.swap(nil, r)
	e.next.producers, e.delta.ProducerIDs = *r, true
	return ""
}
