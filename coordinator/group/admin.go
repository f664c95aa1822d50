package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// What ListGroups calls the groups of each protocol.
const (
	TypeClassic  = "classic"
	TypeConsumer = "consumer"
)

// list handles a ListGroups.
func (m *Machine) list(c *coordinator.Call, req *List, out *coordinator.Out) {
	groups := []kmsg.ListGroupsResponseGroup{}
	for _, name := range m.names() {
		lg := kmsg.NewListGroupsResponseGroup()
		cl := m.groups[name].classic
		lg.Group, lg.ProtocolType, lg.GroupState, lg.GroupType = name, cl.protocolType, cl.state.String(), TypeClassic
		if cg := m.groups[name].consumer; cg != nil {
			lg.ProtocolType, lg.GroupState, lg.GroupType = consumerType, cg.State(), TypeConsumer
		}
		if !wanted(req.States, lg.GroupState) || !wanted(req.Types, lg.GroupType) {
			continue
		}
		groups = append(groups, lg)
	}
	out.Answer(c, groups)
}

// wanted reports whether a filter lets a word through.
func wanted(filter []string, word string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, word) })
}

// describe handles one group of a DescribeGroups.
func (m *Machine) describe(c *coordinator.Call, out *coordinator.Out) {
	out.Answer(c, m.described(c))
}

func (m *Machine) described(c *coordinator.Call) *kmsg.DescribeGroupsResponseGroup {
	dg := kmsg.NewDescribeGroupsResponseGroup()
	dg.Group = c.Key
	g := m.groups[c.Key]
	if g == nil || g.consumer != nil {
		dg.State = Dead.String()
		if c.Version >= 6 {
			why := "Group " + c.Key + " not found."
			if g != nil {
				why = "Group " + c.Key + " is not a classic group."
			}
			dg.ErrorCode, dg.ErrorMessage = codeGroupIDNotFound, &why
		}
		return &dg
	}
	cl := g.classic
	stable := cl.state == Stable
	dg.State, dg.ProtocolType = cl.state.String(), cl.protocolType
	if stable {
		dg.Protocol = cl.protocol
	}
	for _, mem := range cl.members {
		dm := kmsg.NewDescribeGroupsResponseGroupMember()
		dm.MemberID, dm.InstanceID, dm.ClientID, dm.ClientHost = mem.id, mem.instance, mem.clientID, mem.clientHost
		dm.ProtocolMetadata, dm.MemberAssignment = []byte{}, []byte{}
		if stable {
			dm.ProtocolMetadata, dm.MemberAssignment = orEmpty(mem.metadata(cl.protocol)), orEmpty(mem.assignment)
		}
		dg.Members = append(dg.Members, dm)
	}
	return &dg
}

// delete handles one group of a DeleteGroups.
func (m *Machine) delete(c *coordinator.Call, out *coordinator.Out) {
	g := m.groups[c.Key]
	switch {
	case g == nil:
		out.Fail(c, codeGroupIDNotFound)
		return
	case g.classic.state != Empty, m.assigns(c.Key):
		out.Fail(c, codeNonEmptyGroup)
		return
	case g.consumer != nil:
		m.writeThenAnswer(c, append(m.tombstones(g), consumer.Tombstones(g.id)...), nil, out)
		return
	}
	m.writeThenAnswer(c, append(m.tombstones(g), groupTombstone(g.id)), nil, out)
}

// dropTopics removes the offsets of topics that were deleted, so that a topic
// made anew under the same name is read from its start.
func (m *Machine) dropTopics(c *coordinator.Call, req *DropTopics, out *coordinator.Out) {
	var records []coordinator.Record
	for _, name := range m.names() {
		g := m.groups[name]
		for _, topic := range req.Topics {
			records = append(records, m.topicTombstones(g, topic, req.Since)...)
		}
	}
	m.writeThenAnswer(c, records, nil, out)
}

func (m *Machine) topicTombstones(g *group, topic string, since model.Timestamp) []coordinator.Record {
	return slices.DeleteFunc(m.tombstones(g), func(r coordinator.Record) bool {
		p, err := parse(r)
		return err != nil || p.topic != topic || m.committedAt(g, topic, p.partition) > since
	})
}

// committedAt is when an offset was committed last, in the log or shown.
func (m *Machine) committedAt(g *group, topic string, partition int32) model.Timestamp {
	at := model.NoTimestamp
	if o, ok := g.offsets[topic][partition]; ok {
		at = o.at
	}
	if g.waiting > 0 {
		for i := range m.pending {
			if p := &m.pending[i]; p.group == g && p.topic == topic && p.partition == partition && p.value != nil {
				at = p.value.at
			}
		}
	}
	return at
}
