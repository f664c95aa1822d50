package controller

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Election says how hard a partition change looks for a leader.
type Election uint8

// The kinds of election.
const (
	// ElectOnline keeps a valid leader, else takes the first valid replica.
	ElectOnline Election = iota
	// ElectPreferred takes the first assigned replica if it is valid.
	ElectPreferred
	// ElectUnclean takes, when nobody is valid, any replica that is online.
	ElectUnclean
)

// change builds the record that moves one partition from its registration to a
// target. Fields left zero keep what is registered.
type change struct {
	view  *metadata.Image
	topic *metadata.Topic
	n     int32
	// isr is the target; nil keeps it.
	isr []model.BrokerID
	// directories is the target; nil keeps it.
	directories []metadata.DirectoryID
	// without may neither lead nor be in the ISR after this change (a broker
	// that is being fenced while the view still shows it active).
	without model.BrokerID
	// with counts as active although the view shows it fenced.
	with model.BrokerID
	// minISR of the topic.
	minISR   int
	election Election
}

func newChange(view *metadata.Image, t *metadata.Topic, n int32) *change {
	return &change{view: view, topic: t, n: n, without: model.NoLeader, with: model.NoLeader, minISR: 1}
}

// acceptable reports whether b may lead: active, and its replica's directory
// online.
func (c *change) acceptable(p *metadata.PartitionRegistration, b model.BrokerID) bool {
	reg := c.view.Broker(b)
	if reg == nil || b == c.without || (!reg.Active() && b != c.with) {
		return false
	}
	dir := p.Directory(b)
	return dir == metadata.DirectoryUnassigned || slices.Contains(reg.Directories, dir)
}

// build returns the record, or nil if nothing changes.
func (c *change) build() *metadata.PartitionChange {
	p := c.topic.Partitions[c.n]
	isr := p.ISR
	if c.isr != nil {
		isr = c.isr
	}
	elr := c.eligible(p, isr)
	leader, unclean := c.elect(p, isr, elr)
	recovery := p.Recovery
	if leader != model.NoLeader && !slices.Contains(isr, leader) {
		isr = []model.BrokerID{leader}
		elr = metadata.Without(elr, leader)
		if unclean && len(p.Replicas) > 1 {
			recovery = metadata.Recovering
		}
	}
	lastKnown := p.LastKnown
	switch {
	case leader != model.NoLeader:
		lastKnown = nil
	case len(isr)+len(elr) == 0 && len(lastKnown) == 0 && p.Leader != model.NoLeader:
		lastKnown = []model.BrokerID{p.Leader}
	}
	return c.record(p, isr, elr, lastKnown, leader, recovery)
}

// record returns the difference between p and the target, or nil.
func (c *change) record(p *metadata.PartitionRegistration, isr, elr, lastKnown []model.BrokerID,
	leader model.BrokerID, recovery metadata.RecoveryState) *metadata.PartitionChange {
	r := metadata.NewPartitionChange(c.topic.ID, c.n)
	changed := false
	set := func(field *[]model.BrokerID, old, now []model.BrokerID) {
		if !slices.Equal(old, now) {
			*field, changed = append([]model.BrokerID{}, now...), true
		}
	}
	set(&r.ISR, p.ISR, isr)
	set(&r.ELR, p.ELR, elr)
	set(&r.LastKnown, p.LastKnown, lastKnown)
	if leader != p.Leader {
		r.Leader, changed = leader, true
	}
	if recovery != p.Recovery {
		r.Recovery, changed = recovery, true
	}
	if c.directories != nil {
		r.Directories, changed = c.directories, true
	}
	if !changed {
		return nil
	}
	return r
}

// eligible returns the ELR that goes with a target ISR: below min ISR everyone
// who was in ISR or ELR stays eligible, else nobody outside the ISR is needed.
func (c *change) eligible(p *metadata.PartitionRegistration, isr []model.BrokerID) []model.BrokerID {
	if len(isr) >= min(c.minISR, len(p.Replicas)) {
		return nil
	}
	var elr []model.BrokerID
	for _, b := range p.Replicas {
		if (p.InISR(b) || p.InELR(b)) && !slices.Contains(isr, b) {
			elr = append(elr, b)
		}
	}
	return elr
}

// elect returns the leader of the target and whether it may lack records.
func (c *change) elect(p *metadata.PartitionRegistration, isr, elr []model.BrokerID) (leader model.BrokerID, unclean bool) {
	valid := func(b model.BrokerID) bool {
		return c.acceptable(p, b) && (slices.Contains(isr, b) || len(isr) == 0 && slices.Contains(elr, b))
	}
	if c.election == ElectPreferred && valid(p.Replicas[0]) {
		return p.Replicas[0], false
	}
	if p.Leader != model.NoLeader && valid(p.Leader) {
		return p.Leader, false
	}
	for _, b := range p.Replicas {
		if valid(b) {
			return b, false
		}
	}
	// Nobody is known to be complete. If exactly one member was left when ISR
	// and ELR ran empty, it has the most there is.
	if len(isr)+len(elr) == 0 && len(p.LastKnown) == 1 && c.acceptable(p, p.LastKnown[0]) {
		return p.LastKnown[0], true
	}
	if c.election == ElectUnclean {
		for _, b := range p.Replicas {
			if c.acceptable(p, b) {
				return b, true
			}
		}
	}
	return model.NoLeader, false
}
