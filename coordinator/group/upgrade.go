package group

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// Migration is which way a group with members may change from one protocol to the
// other: group.consumer.migration.policy. Source: KIP-848.
type Migration struct{ Upgrade, Downgrade bool }

// refusesUpgrade says why a classic group with members can't become a consumer
// group, "" if nothing forbids it.
func (m *Machine) refusesUpgrade(g *group) string {
	why := ""
	switch {
	case !m.cfg.Migration.Upgrade:
		why = "online upgrade is disabled"
	case g.classic.protocolType != consumerType:
		why = "the group does not use the consumer embedded protocol"
	case len(g.classic.members) > m.cfg.ConsumerSizeMax:
		why = "the group size exceeds the consumer group maximum size"
	default:
		return ""
	}
	return cannotUpgrade(g, why)
}

func cannotUpgrade(g *group, why string) string {
	return fmt.Sprintf("Cannot upgrade classic group %s to consumer group because %s.", g.id, why)
}

// upgraded is the consumer group that a classic one becomes with its members, and
// the records that make it so; why says why it can't be. What members waited for
// is answered REBALANCE_IN_PROGRESS: they join again, and are served from within
// the consumer group. The group itself changes with its records. Until then, and
// for good if they can't be written, the sessions of those who no longer wait run.
func (m *Machine) upgraded(now model.Now, g *group, out *coordinator.Out) (cg *consumer.Group, records []coordinator.Record, why string) {
	c := g.classic
	members := make([]consumer.Member, 0, len(c.members))
	claims := make([]assign.Set, 0, len(c.members))
	for _, mem := range c.members {
		cm, owned, why := m.asPeer(c, mem)
		if why != "" {
			return nil, nil, cannotUpgrade(g, why)
		}
		members, claims = append(members, cm), append(claims, owned)
	}
	addClaims(members, claims)
	for _, mem := range c.members {
		if mem.joining == nil && mem.syncing == nil {
			continue
		}
		if mem.joining != nil {
			c.answerJoin(mem, joinError(mem.joining, mem.id, codeRebalanceInProgress), out)
		}
		answerSync(mem, codeRebalanceInProgress, nil, nil, nil, out)
		m.armSession(mem, now, mem.sessionTimeout)
	}
	cg, records = consumer.Adopt(g.id, c.generation, members, m.cfg.Topics())
	return cg, append([]coordinator.Record{groupTombstone(g.id)}, records...), ""
}

// addClaims gives members what they said they had when they joined and nobody was
// assigned: those that need not give up everything to join may be reading it
// still, and nobody else may until they say that they don't.
func addClaims(members []consumer.Member, claims []assign.Set) {
	taken := make(map[assign.Partition]bool)
	for i := range members {
		for _, p := range members[i].Assigned {
			taken[p] = true
		}
	}
	for i := range members {
		var more []assign.Partition
		for _, p := range claims[i] {
			if !taken[p] {
				taken[p] = true
				more = append(more, p)
			}
		}
		members[i].Assigned = members[i].Assigned.Union(more)
	}
}

// topicIDs returns the id of a topic by its name.
func (m *Machine) topicIDs() func(name string) (model.TopicID, bool) {
	ts := m.cfg.Topics()
	return func(name string) (model.TopicID, bool) {
		t, ok := ts.Topic(name)
		return t.ID, ok
	}
}

// asPeer is a classic member as the consumer group will know it, and what it says
// that it has; why says why it can't be one.
func (m *Machine) asPeer(c *classic, mem *member) (cm consumer.Member, owned assign.Set, why string) {
	const malformed = "the embedded consumer protocol is malformed"
	said := mem.metadata(c.protocol)
	if !c.chosen && len(mem.protocols) > 0 {
		said = mem.protocols[0].metadata // of a group's first generation, which is not complete
	}
	sub, ok := subscriptionOf(said)
	if !ok {
		return cm, nil, malformed
	}
	var a kmsg.ConsumerMemberAssignment
	if len(mem.assignment) > 0 {
		if a.ReadFrom(mem.assignment) != nil {
			return cm, nil, malformed
		}
		if len(a.UserData) > 0 {
			return cm, nil, "an unsupported custom assignor is in use; switch to a default assignor before the group is upgraded"
		}
	}
	ids := m.topicIDs()
	assigned := []assign.Partition{}
	for i := range a.Topics {
		if id, ok := ids(a.Topics[i].Topic); ok {
			for _, n := range a.Topics[i].Partitions {
				assigned = append(assigned, assign.Partition{Topic: id, Number: n})
			}
		}
	}
	return consumer.Member{
		ID: mem.id, Instance: mem.instance, Rack: sub.Rack, ClientID: mem.clientID, ClientHost: mem.clientHost,
		Names: sub.Topics, RebalanceTimeoutMs: int32(mem.rebalanceTimeout / nanosPerMilli),
		Classic:  &consumer.Classic{SessionTimeoutMs: int32(mem.sessionTimeout / nanosPerMilli), Protocols: keptProtocols(mem.protocols)},
		Assigned: assign.SetOf(assigned),
	}, m.ownedSet(&sub), ""
}

func keptProtocols(ps []protocol) []consumer.Protocol {
	kept := make([]consumer.Protocol, len(ps))
	for i, p := range ps {
		kept[i] = consumer.Protocol{Name: p.name, Metadata: p.metadata}
	}
	return kept
}

// subscriptionOf reads what a consumer says of itself under an assignment
// protocol. Its topics come sorted, each once.
func subscriptionOf(metadata []byte) (s kmsg.ConsumerMemberMetadata, ok bool) {
	if _, ok := subscription(metadata); !ok || s.ReadFrom(metadata) != nil {
		return s, false
	}
	slices.Sort(s.Topics)
	s.Topics = slices.Compact(s.Topics)
	if s.Rack != nil && *s.Rack == "" {
		s.Rack = nil
	}
	return s, true
}

// dropIDs forgets the ids that were given away: whoever comes with one is known to
// the consumer group by it.
func (m *Machine) dropIDs(g *group) {
	for _, mem := range g.classic.unused { // order-free: each is dropped
		m.dropID(g, mem)
	}
}
