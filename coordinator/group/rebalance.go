package group

import (
	"slices"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// rebalanceOrComplete begins a rebalance, or ends the joining phase of the one
// that is under way if everybody is there.
func (m *Machine) rebalanceOrComplete(now model.Now, g *group, out *coordinator.Out) {
	if g.classic.state == PreparingRebalance {
		m.maybeComplete(now, g, out)
		return
	}
	m.prepareRebalance(now, g, out)
}

// prepareRebalance begins a joining phase.
func (m *Machine) prepareRebalance(now model.Now, g *group, out *coordinator.Out) {
	c := g.classic
	if c.state == CompletingRebalance {
		m.giveAssignments(now, g, nil, codeRebalanceInProgress, out)
	}
	m.timers.cancel(&c.sync)
	initial := c.state == Empty
	m.enter(now, c, PreparingRebalance)
	m.stats.Rebalances++
	if initial {
		// More members may be on their way: they are waited for together.
		c.came = false
		c.remaining = max(c.rebalanceTimeout()-m.cfg.InitialDelay, 0)
		m.timers.set(&c.join, now.Mono+m.cfg.InitialDelay)
		return
	}
	if c.allJoined() {
		m.completeJoin(now, g, out)
		return
	}
	m.timers.set(&c.join, now.Mono+c.rebalanceTimeout())
}

// maybeComplete ends the joining phase if everybody is there. The first one of
// an empty group lasts its time.
func (m *Machine) maybeComplete(now model.Now, g *group, out *coordinator.Out) {
	if c := g.classic; c.state == PreparingRebalance && c.previous != Empty && c.allJoined() {
		m.completeJoin(now, g, out)
	}
}

// joinOver: the time of a joining phase is over.
func (m *Machine) joinOver(now model.Now, g *group, out *coordinator.Out) {
	c := g.classic
	if c.state != PreparingRebalance {
		return
	}
	if c.previous == Empty && c.came && c.remaining > 0 {
		c.came = false
		delay := min(m.cfg.InitialDelay, c.remaining)
		c.remaining = max(c.remaining-m.cfg.InitialDelay, 0)
		m.timers.set(&c.join, now.Mono+delay)
		return
	}
	m.completeJoin(now, g, out)
}

// completeJoin ends the joining phase: who has not joined is out, but for static
// members, and a new generation begins.
func (m *Machine) completeJoin(now model.Now, g *group, out *coordinator.Out) {
	c := g.classic
	m.timers.cancel(&c.join)
	for _, mem := range slices.Clone(c.members) {
		if mem.joining == nil && mem.instance == nil {
			m.stats.Evicted++
			m.remove(g, mem, codeUnknownMemberID, out)
		}
	}
	if !c.electJoined() && len(c.members) > 0 {
		// Only static members that have not come: there is nobody to assign.
		m.timers.set(&c.join, now.Mono+c.rebalanceTimeout())
		return
	}
	m.stats.Generations++
	if !mutant.On("group-generation-kept") {
		c.generation++
	}
	if len(c.members) == 0 {
		c.chosen, c.protocol = false, ""
		m.enter(now, c, Empty)
		c.learnSubscriptions()
		out.Write(&coordinator.Write{Records: []coordinator.Record{groupRecord(g, nil)}, Timeout: m.cfg.CommitTimeout})
		return
	}
	c.chosen, c.protocol = true, c.choose()
	m.enter(now, c, CompletingRebalance)
	c.learnSubscriptions()
	for _, mem := range c.members {
		mem.owesSync = true
		mem.assignment = nil
		if mem.joining == nil {
			continue
		}
		c.answerJoin(mem, m.joined(g, mem, mem.id == c.leader), out)
		mem.fresh = false
		m.armSession(mem, now, mem.sessionTimeout)
	}
	m.timers.set(&c.sync, now.Mono+c.rebalanceTimeout())
}

// electJoined makes sure that the leader is a member that has joined, and
// reports whether there is one.
func (c *classic) electJoined() bool {
	if mem := c.byID[c.leader]; mem != nil && mem.joining != nil {
		return true
	}
	for _, mem := range c.members {
		if mem.joining != nil {
			c.leader = mem.id
			return true
		}
	}
	return false
}

// syncOver: the time for syncs is over. Who has not asked for its assignment is
// out.
func (m *Machine) syncOver(now model.Now, g *group, out *coordinator.Out) {
	c := g.classic
	if c.state != CompletingRebalance && c.state != Stable {
		return
	}
	late := 0
	for _, mem := range slices.Clone(c.members) {
		if mem.owesSync {
			m.stats.Evicted++
			m.remove(g, mem, codeUnknownMemberID, out)
			late++
		}
	}
	if late > 0 {
		m.prepareRebalance(now, g, out)
	}
}

// armSession begins a member's session, or prolongs it.
func (m *Machine) armSession(mem *member, now model.Now, timeout model.Instant) {
	mem.deadline = now.Mono + timeout
	if mem.session.place == 0 || mem.deadline < mem.session.at {
		m.timers.set(&mem.session, mem.deadline)
	}
}

// sessionOver: a member was not heard of.
func (m *Machine) sessionOver(now model.Now, t *timer, out *coordinator.Out) {
	mem, g := t.member, t.group
	switch {
	case g.classic.byID[mem.id] != mem:
		return
	case now.Mono < mem.deadline:
		m.timers.set(t, mem.deadline)
		return
	case !mem.fresh && (mem.joining != nil || mem.syncing != nil):
		return // it waits for us; its session begins when it is answered
	}
	m.stats.Evicted++
	m.removeAndRebalance(now, g, mem, out)
	m.maybeForget(g)
}

// removeAndRebalance takes a member out and has the others share what it had.
func (m *Machine) removeAndRebalance(now model.Now, g *group, mem *member, out *coordinator.Out) {
	m.remove(g, mem, codeUnknownMemberID, out)
	m.rebalanceAfterLeave(now, g, out)
}

func (m *Machine) rebalanceAfterLeave(now model.Now, g *group, out *coordinator.Out) {
	switch g.classic.state {
	case Stable, CompletingRebalance:
		m.prepareRebalance(now, g, out)
	case PreparingRebalance:
		m.maybeComplete(now, g, out)
	}
}

// pendingOver: an id that was given away was not used.
func (m *Machine) pendingOver(now model.Now, t *timer, out *coordinator.Out) {
	if t.group.classic.unused[t.member.id] != t.member {
		return
	}
	m.dropID(t.group, t.member)
	m.maybeComplete(now, t.group, out)
	m.maybeForget(t.group)
}
