package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// mayDowngrade reports whether a consumer group becomes a classic one when some
// members go: those were the last that spoke the consumer protocol. joins is how
// many come in their place.
func (m *Machine) mayDowngrade(g *group, joins int, gone ...string) bool {
	return m.cfg.Migration.Downgrade && (g.consumer.OnlyClassicWithout(gone...) || joins > 0 && g.consumer.Len() == len(gone)) &&
		g.consumer.Len()-len(gone)+joins <= m.cfg.SizeMax
}

// removal returns the records that take members out of a consumer group. The
// classic members that are left alone become a classic group: reverts says so.
func (m *Machine) removal(g *group, gone ...string) (records []coordinator.Record, reverts bool) {
	if !m.mayDowngrade(g, 0, gone...) {
		return g.consumer.Remove(m.cfg.Topics(), gone...), false
	}
	// Nobody has assigned what is free now: the record names no leader, so that
	// another coordinator begins a rebalance as well.
	return m.downgrade(g, nil, "", true, gone...), true
}

// downgrade prepares the classic group that takes the consumer group's place once
// the records that it returns are in the log. joins is a static member that takes
// the place of another, if there is one.
func (m *Machine) downgrade(g *group, joins *member, replaced string, rebalance bool, gone ...string) []coordinator.Record {
	cg := g.consumer
	c := newClassic(g)
	c.state, c.typed, c.protocolType = Stable, true, consumerType
	c.generation, _ = cg.Epochs()
	for _, id := range cg.Members() {
		if !slices.Contains(gone, id) {
			c.add(m.asMember(g, cg.Member(id)))
		}
	}
	if joins != nil {
		c.add(joins)
	}
	c.chosen, c.protocol = true, c.choose()
	names := m.topicNames()
	for _, mem := range c.members {
		var has assign.Set
		switch cm := cg.Member(mem.id); {
		case mem == joins:
			// Of what the one before it was to have, others may be reading some.
			has = cg.Member(replaced).Assigned
		case rebalance:
			// What it may be reading, not what it was to have: should the group be
			// upgraded again before it has joined, nobody else is given that.
			has = cm.Assigned.Union(cm.Revoking)
		default:
			has = cm.Assigned
		}
		mem.assignment = assignmentBytes(has, names, mem.metadata(c.protocol))
	}
	c.learnSubscriptions()
	g.reverting = c
	leader := c.leader
	if rebalance {
		c.leader = ""
	}
	r := groupRecord(g, nil, c)
	c.leader = leader
	return append(cg.Dissolve(), r)
}

// asMember is a classic member of a consumer group as one of a classic group.
func (m *Machine) asMember(g *group, cm *consumer.Member) *member {
	mem := &member{
		id: cm.ID, instance: cm.Instance, clientID: cm.ClientID, clientHost: cm.ClientHost, protocolType: consumerType,
		rebalanceTimeout: model.Instant(max(cm.RebalanceTimeoutMs, 0)) * nanosPerMilli,
		sessionTimeout:   model.Instant(cm.Classic.SessionTimeoutMs) * nanosPerMilli,
	}
	for _, p := range cm.Classic.Protocols {
		mem.protocols = append(mem.protocols, protocol{name: p.Name, metadata: p.Metadata})
	}
	mem.session = timer{kind: timerSession, group: g, member: mem}
	return mem
}

// topicNames returns the name of a topic by its id.
func (m *Machine) topicNames() func(id model.TopicID) (string, bool) {
	ts := m.cfg.Topics()
	return ts.Name
}

// assignmentBytes is an assignment as classic members read it, in the version
// that said, what the member says of itself, has. Topics that are gone are left
// out.
func assignmentBytes(s assign.Set, names func(model.TopicID) (string, bool), said []byte) []byte {
	var a kmsg.ConsumerMemberAssignment
	if v, ok := keyVersion(said); ok {
		a.Version = min(v, assignmentVersionMax)
	}
	for _, t := range byTopic(s) {
		if name, ok := names(t.id); ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: t.partitions})
		}
	}
	return a.AppendTo(nil)
}

// assignmentVersionMax is the highest version of assignments that Kafka writes.
const assignmentVersionMax = 3

// reverted begins the life of a classic group that was a consumer group until its
// records came into the log: sessions run, and if nobody has assigned what the
// others left, everybody is asked to join.
func (m *Machine) reverted(now model.Now, id string, rebalance bool, out *coordinator.Out) {
	g := m.groups[id]
	if g == nil {
		return
	}
	g.reverting = nil // it was refused, and the group is what it was
	if g.consumer != nil {
		return
	}
	for _, mem := range g.classic.members {
		if mem.session.place == 0 {
			m.armSession(mem, now, mem.sessionTimeout)
		}
	}
	if rebalance && g.classic.state == Stable {
		m.prepareRebalance(now, g, out)
	}
}
