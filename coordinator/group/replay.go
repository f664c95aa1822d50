package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// pendingOffset is a change of an offset that is in the log and not known to be
// committed.
type pendingOffset struct {
	at        model.Offset
	group     *group
	topic     string
	partition int32
	value     *committed // nil: tombstone
}

// Replay implements coordinator.Machine.
func (m *Machine) Replay(at model.Offset, r coordinator.Record) {
	if version, ok := keyVersion(r.Key); ok && consumer.Known(version) {
		m.replayConsumer(r)
		return
	}
	p, err := parse(r)
	switch {
	case err != nil:
		m.stats.Unreadable++
	case p.isOffset:
		g := m.groups[p.group]
		if g == nil && p.offset == nil {
			return
		}
		g = m.get(p.group)
		g.waiting++
		m.pending = append(m.pending, pendingOffset{at: at, group: g, topic: m.name(p.topic), partition: p.partition, value: p.offset})
	case p.isGroup && p.metadata == nil:
		m.replayGone(p.group)
	case p.isGroup && m.groups[p.group] != nil && m.groups[p.group].reverting != nil:
		g := m.groups[p.group]
		m.replace(g, g.reverting)
		g.reverting = nil
	case p.isGroup && !m.serving:
		// While it serves, the members in memory are ahead of their records.
		m.restore(p.group, p.metadata)
		if g := m.groups[p.group]; g.consumer != nil && g.consumer.Len() == 0 {
			g.consumer = nil
		}
	}
}

// name returns a topic's name in memory that all groups share.
func (m *Machine) name(topic string) string {
	if s, ok := m.topics[topic]; ok {
		return s
	}
	m.topics[topic] = topic
	return topic
}

// replayGone takes a group's tombstone. Offsets go by tombstones of their own.
func (m *Machine) replayGone(id string) {
	g := m.groups[id]
	if g == nil {
		return
	}
	// Members that are left go on in a consumer group, whose records follow: a
	// group that has any is removed for nothing else.
	if len(g.classic.unused) == 0 {
		m.replace(g, newClassic(g))
	}
	m.maybeForget(g)
}

// replace gives a group another membership.
func (m *Machine) replace(g *group, c *classic) {
	for _, mem := range g.classic.members {
		m.timers.cancel(&mem.session)
	}
	m.timers.cancel(&g.classic.join)
	m.timers.cancel(&g.classic.sync)
	m.stats.Groups[g.classic.state]--
	m.stats.Groups[c.state]++
	g.classic = c
}

// restore makes a group what its record says.
func (m *Machine) restore(id string, v *kmsg.GroupMetadataValue) {
	g := m.get(id)
	c := newClassic(g)
	c.typed, c.protocolType = v.ProtocolType != "" || len(v.Members) > 0, v.ProtocolType
	c.generation = v.Generation
	c.since = model.Timestamp(v.CurrentStateTimestamp)
	if v.Protocol != nil {
		c.chosen, c.protocol = true, *v.Protocol
	}
	for i := range v.Members {
		mv := &v.Members[i]
		if c.byID[mv.MemberID] != nil {
			continue
		}
		mem := &member{
			id: mv.MemberID, instance: mv.InstanceID, clientID: mv.ClientID, clientHost: mv.ClientHost,
			sessionTimeout: model.Instant(mv.SessionTimeoutMillis) * nanosPerMilli,
			protocolType:   v.ProtocolType, protocols: []protocol{{name: c.protocol, metadata: mv.Subscription}},
			assignment: mv.Assignment,
		}
		mem.rebalanceTimeout = mem.sessionTimeout
		if mv.RebalanceTimeoutMillis >= 0 {
			mem.rebalanceTimeout = model.Instant(mv.RebalanceTimeoutMillis) * nanosPerMilli
		}
		mem.session = timer{kind: timerSession, group: g, member: mem}
		c.add(mem)
	}
	c.unassigned = v.Leader == nil && len(c.members) > 0
	if v.Leader != nil && c.byID[*v.Leader] != nil {
		c.leader = *v.Leader
	}
	if len(c.members) > 0 {
		c.state = Stable
	}
	c.learnSubscriptions()
	m.replace(g, c)
}

// Commit implements coordinator.Machine: what is committed is shown.
func (m *Machine) Commit(to model.Offset) {
	n := 0
	for n < len(m.pending) && m.pending[n].at < to {
		p := &m.pending[n]
		p.group.waiting--
		m.show(p)
		if p.value == nil && m.serving {
			m.maybeForget(p.group)
		}
		n++
	}
	switch {
	case n == 0:
	case n == len(m.pending):
		m.pending = nil
	default:
		clear(m.pending[:n])
		m.pending = m.pending[n:]
	}
}

// show makes one committed change visible.
func (m *Machine) show(p *pendingOffset) {
	g := p.group
	parts := g.offsets[p.topic]
	before := len(parts)
	defer func() { m.stats.Offsets += int64(len(parts) - before) }()
	if p.value == nil {
		delete(parts, p.partition)
		if len(parts) == 0 {
			delete(g.offsets, p.topic)
		}
		return
	}
	if parts == nil {
		if g.offsets == nil {
			g.offsets = make(map[string]map[int32]committed)
		}
		parts = make(map[int32]committed)
		g.offsets[p.topic] = parts
	}
	parts[p.partition] = *p.value
}
