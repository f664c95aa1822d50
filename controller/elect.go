package controller

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// Election says how hard a partition change looks for a leader.
type Election uint8

// The kinds of election.
const (
	// ElectOnline keeps a valid leader, else takes the first valid replica.
	ElectOnline Election = iota
	// ElectPreferred takes the first assigned replica if it is valid.
	ElectPreferred
	// ElectUnclean takes, when nobody is valid, any replica that is online. Last
	// known members that are being waited for come first.
	ElectUnclean
	// ElectUncleanNow is ElectUnclean without the wait: someone asked for it.
	ElectUncleanNow
)

// change builds the record that moves one partition from its registration to a
// target. Fields left zero keep what is registered.
type change struct {
	view  *metadata.Image
	topic *metadata.Topic
	n     int32
	// isr is the target; nil keeps it.
	isr []model.BrokerID
	// replicas, adding and removing are the target; nil keeps each.
	replicas, adding, removing []model.BrokerID
	// directories is the target; nil keeps it. It goes with the replicas that are
	// registered, not with a new list.
	directories []metadata.DirectoryID
	// recovery is the target, or metadata.NoRecoveryChange.
	recovery metadata.RecoveryState
	// confirmed: the leader itself asks for this, so it lives and whoever lost a
	// seat before is behind it.
	confirmed bool
	// without may neither lead nor be in the ISR after this change (brokers that are
	// being fenced while the view still shows them active).
	without []model.BrokerID
	// lost may not be eligible either: its replica is damaged.
	lost model.BrokerID
	// failed: a member goes whose broker lives on. That costs an epoch, also with the
	// same leader, so that what its log asked for is not heard or waited for any more.
	failed bool
	// passed are members that are not last known any more: the others went on
	// without them.
	passed []model.BrokerID
	// with counts as active although the view shows it fenced.
	with model.BrokerID
	// settled: last known members that did not report are not waited for.
	settled bool
	// minISR of the topic.
	minISR   int
	election Election
}

func newChange(view *metadata.Image, t *metadata.Topic, n int32) *change {
	return &change{
		view: view, topic: t, n: n, recovery: metadata.NoRecoveryChange,
		lost: model.NoLeader, with: model.NoLeader, minISR: 1,
	}
}

// target is what a partition is to become.
type target struct {
	replicas, adding, removing []model.BrokerID
	isr, elr, lastKnown        []model.BrokerID
	leader                     model.BrokerID
	recovery                   metadata.RecoveryState
}

// build returns the record, or nil if nothing changes.
func (c *change) build() *metadata.PartitionChange {
	p := c.topic.Partitions[c.n]
	t := target{
		replicas: orElse(c.replicas, p.Replicas), adding: orElse(c.adding, p.Adding), removing: orElse(c.removing, p.Removing),
		isr: orElse(c.isr, p.ISR), lastKnown: minus(p.LastKnown, c.passed), leader: p.Leader, recovery: p.Recovery,
	}
	if c.recovery != metadata.NoRecoveryChange {
		t.recovery = c.recovery
	}
	t.completeReassignment()
	t.isr = within(t.isr, t.replicas)
	t.elr = c.eligible(p, &t)
	if (p.InISR(c.lost) || p.InELR(c.lost)) && !slices.Contains(t.lastKnown, c.lost) {
		t.lastKnown = append(t.lastKnown, c.lost)
	}
	c.elect(p, &t)
	c.remember(&t)
	return c.record(p, &t)
}

func orElse(now, old []model.BrokerID) []model.BrokerID {
	if now != nil {
		return now
	}
	return old
}

// within returns the ids that are in whole; never nil.
func within(ids, whole []model.BrokerID) []model.BrokerID {
	return filter(ids, func(b model.BrokerID) bool { return slices.Contains(whole, b) })
}

// minus returns the ids that are not in other; never nil.
func minus(ids, other []model.BrokerID) []model.BrokerID {
	return filter(ids, func(b model.BrokerID) bool { return !slices.Contains(other, b) })
}

func filter(ids []model.BrokerID, keep func(model.BrokerID) bool) []model.BrokerID {
	out := make([]model.BrokerID, 0, len(ids))
	for _, b := range ids {
		if keep(b) {
			out = append(out, b)
		}
	}
	return out
}

// completeReassignment ends a reassignment whose target is wholly in sync.
func (t *target) completeReassignment() {
	if len(t.adding)+len(t.removing) == 0 {
		return
	}
	isr, replicas := minus(t.isr, t.removing), minus(t.replicas, t.removing)
	if len(isr) == 0 || len(replicas) == 0 || len(minus(replicas, isr)) > 0 {
		return
	}
	t.isr, t.replicas, t.adding, t.removing = isr, replicas, nil, nil
}

// eligible returns the ELR that goes with a target ISR: below min ISR everyone
// who was in ISR or ELR stays eligible, else nobody outside the ISR is needed.
func (c *change) eligible(p *metadata.PartitionRegistration, t *target) []model.BrokerID {
	if len(t.isr) >= min(c.minISR, len(t.replicas)) {
		return nil
	}
	return filter(t.replicas, func(b model.BrokerID) bool {
		return (p.InISR(b) || p.InELR(b)) && !slices.Contains(t.isr, b) && b != c.lost
	})
}

// acceptable reports whether b may lead: active, and its replica's directory
// online.
func (c *change) acceptable(p *metadata.PartitionRegistration, b model.BrokerID) bool {
	reg := c.view.Broker(b)
	if reg == nil || slices.Contains(c.without, b) || b == c.lost || (!reg.Active() && b != c.with) {
		return false
	}
	dir := p.Directory(b)
	return dir == metadata.DirectoryUnassigned || slices.Contains(reg.Directories, dir)
}

// elect chooses the leader of the target, and what ISR goes with it.
func (c *change) elect(p *metadata.PartitionRegistration, t *target) {
	if t.leader = c.among(p, t, t.isr); t.leader != model.NoLeader {
		return
	}
	// Nobody of the ISR can lead, so nothing is committed until somebody does: its
	// members are as eligible as those of the ELR. Source: KIP-966.
	eligible := append(slices.Clone(t.isr), t.elr...)
	if t.leader = c.among(p, t, eligible); t.leader != model.NoLeader {
		t.isr, t.elr = []model.BrokerID{t.leader}, metadata.Without(inOrder(eligible, t.replicas), t.leader)
		if min(c.minISR, len(t.replicas)) <= 1 {
			t.elr = nil
		}
		return
	}
	if t.leader = c.unclean(p, t); t.leader == model.NoLeader {
		return
	}
	if c.remnant(t.leader) {
		// It takes no writes: what others hold is what it was.
		t.isr, t.elr = []model.BrokerID{t.leader}, nil
		return
	}
	// What the others hold is no longer what is committed.
	t.isr, t.elr, t.lastKnown = []model.BrokerID{t.leader}, nil, nil
	if len(t.replicas) > 1 {
		t.recovery = metadata.Recovering
	}
}

// inOrder returns ids in the order of the assignment.
func inOrder(ids, replicas []model.BrokerID) []model.BrokerID { return within(replicas, ids) }

// among returns who of the candidates leads: the preferred replica if that is
// asked for, the leader there is, or the first of the assignment.
func (c *change) among(p *metadata.PartitionRegistration, t *target, candidates []model.BrokerID) model.BrokerID {
	valid := func(b model.BrokerID) bool { return slices.Contains(candidates, b) && c.acceptable(p, b) }
	if c.election == ElectPreferred && valid(t.replicas[0]) {
		return t.replicas[0]
	}
	if p.Leader != model.NoLeader && valid(p.Leader) {
		return p.Leader
	}
	for _, b := range t.replicas {
		if valid(b) {
			return b
		}
	}
	return model.NoLeader
}

// unclean returns a leader that may lack committed records, or NoLeader.
func (c *change) unclean(p *metadata.PartitionRegistration, t *target) model.BrokerID {
	if len(t.isr)+len(t.elr) == 0 {
		leader, wait := c.lastKnown(p, t)
		if leader != model.NoLeader || wait && c.election != ElectUncleanNow {
			return leader
		}
	}
	last := model.NoLeader // who is damaged, but can be read, and was a member when nobody else was
	if len(t.isr)+len(t.elr) == 0 {
		last = c.lastRemnant(p, t)
	}
	if c.election != ElectUnclean && c.election != ElectUncleanNow && !mutant.On("ctl-unclean-silently") {
		return last
	}
	damaged := last
	for _, b := range t.replicas {
		switch {
		case !c.acceptable(p, b):
		case !c.damaged(b):
			return b
		case damaged == model.NoLeader:
			damaged = b
		}
	}
	return damaged
}

// partition names the partition of the change.
func (c *change) partition() model.TopicIDPartition {
	return model.TopicIDPartition{TopicID: c.topic.ID, Partition: c.n}
}

// damaged reports whether b came back without its replica.
func (c *change) damaged(b model.BrokerID) bool {
	end, ok := c.view.ReplicaEnd(c.partition(), b)
	return ok && (end == metadata.ReplicaDamaged || metadata.IsRemnant(end)) && !mutant.On("ctl-damaged-elected")
}

// remnant reports whether b is damaged, but can be read below the damage.
func (c *change) remnant(b model.BrokerID) bool {
	end, ok := c.view.ReplicaEnd(c.partition(), b)
	return ok && metadata.IsRemnant(end)
}

// lastRemnant returns which of the last known members is damaged, can be read below
// the damage, and can lead: who can be read furthest. Led by it the partition serves
// that much, and takes no writes.
func (c *change) lastRemnant(p *metadata.PartitionRegistration, t *target) model.BrokerID {
	best := candidate{id: model.NoLeader}
	for _, b := range inOrder(t.lastKnown, t.replicas) {
		if !c.remnant(b) || !c.acceptable(p, b) {
			continue
		}
		end, _ := c.view.ReplicaEnd(c.partition(), b)
		if next := (candidate{b, end, true}); best.id == model.NoLeader || next.better(best) {
			best = next
		}
	}
	return best.id
}

// remember keeps the last known members: those who lost their seats and have
// not regained one. A leader that lives with enough members has left them behind.
func (c *change) remember(t *target) {
	t.lastKnown = filter(t.lastKnown, func(b model.BrokerID) bool {
		return slices.Contains(t.replicas, b) && !slices.Contains(t.isr, b) && !slices.Contains(t.elr, b)
	})
	if c.confirmed && len(t.isr) >= min(c.minISR, len(t.replicas)) {
		t.lastKnown = nil
	}
}

// record returns the difference between p and the target, or nil.
func (c *change) record(p *metadata.PartitionRegistration, t *target) *metadata.PartitionChange {
	r := metadata.NewPartitionChange(c.topic.ID, c.n)
	changed := false
	set := func(field *[]model.BrokerID, old, now []model.BrokerID) {
		if !slices.Equal(old, now) {
			*field, changed = append([]model.BrokerID{}, now...), true
		}
	}
	set(&r.Replicas, p.Replicas, t.replicas)
	set(&r.ISR, p.ISR, t.isr)
	set(&r.ELR, p.ELR, t.elr)
	set(&r.LastKnown, p.LastKnown, t.lastKnown)
	set(&r.Adding, p.Adding, t.adding)
	set(&r.Removing, p.Removing, t.removing)
	// A replica that goes from the list costs an epoch, so that it is not heard any
	// more; one that is added does not.
	failed := c.failed && t.leader != model.NoLeader && !mutant.On("ctl-damage-keeps-epoch")
	if t.leader != p.Leader || len(minus(p.Replicas, t.replicas)) > 0 || failed {
		r.Leader, changed = t.leader, true
	}
	if t.recovery != p.Recovery {
		r.Recovery, changed = t.recovery, true
	}
	if dirs := c.placed(p, t.replicas); dirs != nil {
		r.Directories, changed = dirs, true
	}
	if !changed {
		return nil
	}
	return r
}

// placed returns the directories that go with a list of replicas, or nil if they
// are as registered.
func (c *change) placed(p *metadata.PartitionRegistration, replicas []model.BrokerID) []metadata.DirectoryID {
	old := p.Directories
	if c.directories != nil {
		old = c.directories
	}
	if slices.Equal(replicas, p.Replicas) {
		return c.directories
	}
	out, known := make([]metadata.DirectoryID, len(replicas)), false
	for i, b := range replicas {
		if k := slices.Index(p.Replicas, b); k < 0 {
			out[i] = onlyDirectory(c.view.Broker(b))
		} else if k < len(old) {
			out[i] = old[k]
		}
		known = known || out[i] != metadata.DirectoryUnassigned
	}
	switch {
	case known:
		return out
	case len(p.Directories) > 0:
		return []metadata.DirectoryID{}
	}
	return nil
}

// onlyDirectory returns where a broker that has no choice puts a new replica.
func onlyDirectory(b *metadata.BrokerRegistration) metadata.DirectoryID {
	if b != nil && len(b.Directories) == 1 {
		return b.Directories[0]
	}
	return metadata.DirectoryUnassigned
}
