package metadata

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// PartitionRegistration is what the cluster agrees on about one partition. It
// is immutable: a change makes a new one. Source: KIP-631, KIP-966, KIP-858.
type PartitionRegistration struct {
	// Replicas in assignment order, without repetition, never empty. While a
	// reassignment runs: the target followed by the replicas on their way out.
	Replicas []model.BrokerID
	// ISR: in-sync replicas. Invariant: a subset of Replicas.
	ISR []model.BrokerID
	// ELR: eligible leaders outside the ISR; each holds every offset below the
	// committed high watermark. Invariant: disjoint from ISR.
	ELR []model.BrokerID
	// LastKnown: the members that lost their seats because what they held may
	// be lost, and have not regained them. When ISR and ELR are empty the one
	// that has the most of the log is elected.
	LastKnown []model.BrokerID
	// Adding and Removing are the two halves of a running reassignment.
	Adding, Removing []model.BrokerID
	// Directories is parallel to Replicas; empty means all unassigned.
	Directories []DirectoryID
	// Leader, or model.NoLeader. Invariant: none or in ISR.
	Leader model.BrokerID
	// LeaderEpoch rises with each record that names a leader, even the same.
	LeaderEpoch model.LeaderEpoch
	// PartitionEpoch rises with each change record.
	PartitionEpoch model.PartitionEpoch
	Recovery       RecoveryState

	sum sum128 // hash of the canonical record, kept for the incremental image hash
}

// HasReplica reports whether b is assigned.
func (p *PartitionRegistration) HasReplica(b model.BrokerID) bool {
	return slices.Contains(p.Replicas, b)
}

// InISR reports whether b is in the ISR.
func (p *PartitionRegistration) InISR(b model.BrokerID) bool { return slices.Contains(p.ISR, b) }

// InELR reports whether b is an eligible leader outside the ISR.
func (p *PartitionRegistration) InELR(b model.BrokerID) bool { return slices.Contains(p.ELR, b) }

// Reassigning reports whether a reassignment is running.
func (p *PartitionRegistration) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Directory returns where b's replica lives, or DirectoryUnassigned.
func (p *PartitionRegistration) Directory(b model.BrokerID) DirectoryID {
	if i := slices.Index(p.Replicas, b); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return DirectoryUnassigned
}

// merge returns the registration after c. Both epoch rules live here and
// nowhere else: the partition epoch rises with every record, the leader epoch
// with every record whose Leader field is set.
func (p *PartitionRegistration) merge(c *PartitionChange) *PartitionRegistration {
	n := *p
	n.PartitionEpoch++
	if c.Replicas != nil {
		n.Replicas = c.Replicas
	}
	if c.ISR != nil {
		n.ISR = c.ISR
	}
	if c.ELR != nil {
		n.ELR = c.ELR
	}
	if c.LastKnown != nil {
		n.LastKnown = c.LastKnown
	}
	if c.Adding != nil {
		n.Adding = c.Adding
	}
	if c.Removing != nil {
		n.Removing = c.Removing
	}
	if c.Directories != nil {
		n.Directories = c.Directories
	}
	if c.Leader != NoLeaderChange {
		n.Leader = c.Leader
		n.LeaderEpoch++
	}
	if c.Recovery != NoRecoveryChange {
		n.Recovery = c.Recovery
	}
	return &n
}

// After returns the registration that c makes of p.
func (p *PartitionRegistration) After(c *PartitionChange) *PartitionRegistration { return p.merge(c) }

// Lost reports whether nobody is left who is known to have every committed
// record: a leader can only be guessed at.
func (p *PartitionRegistration) Lost() bool {
	return p.Leader == model.NoLeader && len(p.ISR)+len(p.ELR) == 0
}

// check returns what is wrong with p, or "".
func (p *PartitionRegistration) check() string {
	switch {
	case len(p.Replicas) == 0:
		return "no replicas"
	case repeated(p.Replicas):
		return fmt.Sprintf("replicas %v repeat", p.Replicas)
	case repeated(p.ISR), !subset(p.ISR, p.Replicas):
		return fmt.Sprintf("isr %v repeats or is not within replicas %v", p.ISR, p.Replicas)
	case repeated(p.ELR), !subset(p.ELR, p.Replicas):
		return fmt.Sprintf("elr %v repeats or is not within replicas %v", p.ELR, p.Replicas)
	case repeated(p.LastKnown), repeated(p.Adding), repeated(p.Removing):
		return "a member list repeats"
	case len(p.Directories) != 0 && len(p.Directories) != len(p.Replicas):
		return fmt.Sprintf("%d directories for %d replicas", len(p.Directories), len(p.Replicas))
	case p.Leader != model.NoLeader && !p.InISR(p.Leader):
		return fmt.Sprintf("leader %d is not in isr %v", p.Leader, p.ISR)
	case p.Recovery != Recovered && p.Recovery != Recovering:
		return fmt.Sprintf("recovery state %d", p.Recovery)
	case p.LeaderEpoch < 0 || p.PartitionEpoch < 0:
		return fmt.Sprintf("leader epoch %d, partition epoch %d", p.LeaderEpoch, p.PartitionEpoch)
	}
	for _, b := range p.ELR {
		if p.InISR(b) {
			return fmt.Sprintf("%d is in isr and elr", b)
		}
	}
	return ""
}

func repeated(ids []model.BrokerID) bool {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return true
		}
	}
	return false
}

func subset(part, whole []model.BrokerID) bool {
	for _, id := range part {
		if !slices.Contains(whole, id) {
			return false
		}
	}
	return true
}

// Topic is one topic and its partitions; immutable.
type Topic struct {
	ID   model.TopicID
	Name string
	// Partitions by number, without gaps; never empty in a published image.
	Partitions []*PartitionRegistration
}

// Partition returns the registration of partition p, or nil.
func (t *Topic) Partition(p int32) *PartitionRegistration {
	if p < 0 || int(p) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[p]
}
