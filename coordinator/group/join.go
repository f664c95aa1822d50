package group

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
)

// join handles a JoinGroup. The order of the checks is Kafka's.
func (m *Machine) join(now model.Now, c *coordinator.Call, req *kmsg.JoinGroupRequest, out *coordinator.Out) {
	session := model.Instant(req.SessionTimeoutMillis) * nanosPerMilli
	switch {
	case c.Key == "":
		out.Answer(c, joinError(c, req.MemberID, codeInvalidGroupID))
		return
	case session < m.cfg.SessionMin || session > m.cfg.SessionMax:
		out.Answer(c, joinError(c, req.MemberID, codeInvalidSessionTimeout))
		return
	case m.assigns(c.Key):
		m.guestJoin(now, m.groups[c.Key], c, req, out)
		return
	case m.groups[c.Key] == nil && req.MemberID != "":
		out.Answer(c, joinError(c, req.MemberID, codeUnknownMemberID))
		return
	}
	g := m.get(c.Key)
	m.becomeClassic(g, out)
	code := m.admit(now, g, c, req, out)
	if code != codeNone {
		out.Answer(c, joinError(c, req.MemberID, code))
	}
	m.maybeForget(g)
}

// admit decides a join; a code that is not 0 refuses it.
func (m *Machine) admit(now model.Now, g *group, c *coordinator.Call, req *kmsg.JoinGroupRequest, out *coordinator.Out) Code {
	if !m.roomFor(g, req.MemberID) {
		if mem := g.classic.byID[req.MemberID]; mem != nil {
			// It was a member of an older, larger generation.
			m.remove(g, mem, codeUnknownMemberID, out)
			m.maybeComplete(now, g, out)
		}
		return codeGroupMaxSizeReached
	}
	protocols := protocolsOf(req)
	if !g.classic.supports(req.ProtocolType, protocols) {
		return codeInconsistentGroupProtocol
	}
	switch {
	case req.MemberID != "":
		return m.joinKnown(now, g, c, req, protocols, out)
	case req.InstanceID != nil:
		id := m.newID(*req.InstanceID)
		if old := g.classic.static[*req.InstanceID]; old != nil {
			m.replaceStatic(now, g, old, id, c, req, protocols, out)
			return codeNone
		}
		m.addMember(now, g, m.memberOf(id, c, req, protocols), c, out)
		return codeNone
	case c.Version >= 4:
		return m.giveID(now, g, c, req, protocols, out)
	}
	m.addMember(now, g, m.memberOf(m.newID(c.ClientID), c, req, protocols), c, out)
	return codeNone
}

// roomFor reports whether the group may have this member: group.max.size.
func (m *Machine) roomFor(g *group, id string) bool {
	c := g.classic
	mem := c.byID[id]
	switch c.state {
	case PreparingRebalance:
		return mem != nil && mem.joining != nil || c.joining < m.cfg.SizeMax
	case CompletingRebalance, Stable:
		return mem != nil || len(c.members) < m.cfg.SizeMax
	}
	return true
}

// giveID answers a new member with the id that it is to join with, so that a
// client that never hears of its first join leaves no member behind. Source:
// KIP-394.
func (m *Machine) giveID(now model.Now, g *group, c *coordinator.Call, req *kmsg.JoinGroupRequest, protocols []protocol, out *coordinator.Out) Code {
	if m.ids >= pendingMax {
		return codeCoordinatorNotAvailable
	}
	mem := m.memberOf(m.newID(c.ClientID), c, req, protocols)
	mem.session = timer{kind: timerPending, group: g, member: mem}
	g.classic.unused[mem.id] = mem
	m.ids++
	m.timers.set(&mem.session, now.Mono+mem.sessionTimeout)
	out.Answer(c, joinError(c, mem.id, codeMemberIDRequired))
	return codeNone
}

// dropID forgets an id that was given away.
func (m *Machine) dropID(g *group, mem *member) {
	m.timers.cancel(&mem.session)
	delete(g.classic.unused, mem.id)
	m.ids--
}

// joinKnown handles a join with a member id.
func (m *Machine) joinKnown(now model.Now, g *group, c *coordinator.Call, req *kmsg.JoinGroupRequest, protocols []protocol, out *coordinator.Out) Code {
	cl := g.classic
	if old := cl.unused[req.MemberID]; old != nil && req.InstanceID == nil {
		m.dropID(g, old)
		m.addMember(now, g, m.memberOf(req.MemberID, c, req, protocols), c, out)
		return codeNone
	}
	mem, code := cl.checkMember(req.MemberID, req.InstanceID)
	if code != codeNone {
		return code
	}
	again := cl.state == CompletingRebalance && mem.same(protocols) ||
		cl.state == Stable && cl.leader != mem.id && mem.same(protocols)
	switch {
	case cl.state == Empty:
		return codeUnknownMemberID
	case again:
		// It did not hear that the generation began.
		out.Answer(c, m.joined(g, mem, cl.state == CompletingRebalance && cl.leader == mem.id))
		return codeNone
	}
	m.updateMember(mem, c, req, protocols)
	cl.park(mem, c, out)
	m.rebalanceOrComplete(now, g, out)
	return codeNone
}

// addMember takes a new member in and has the group rebalance.
func (m *Machine) addMember(now model.Now, g *group, mem *member, c *coordinator.Call, out *coordinator.Out) {
	cl := g.classic
	mem.fresh = true
	if cl.state == PreparingRebalance && cl.previous == Empty {
		cl.came = true
	}
	cl.add(mem)
	cl.park(mem, c, out)
	m.armSession(mem, now, newMemberTimeout)
	m.rebalanceOrComplete(now, g, out)
}

// replaceStatic gives a static member that comes back a new id. If nothing else
// has changed the others are not disturbed. Source: KIP-345.
func (m *Machine) replaceStatic(now model.Now, g *group, old *member, id string, c *coordinator.Call, req *kmsg.JoinGroupRequest, protocols []protocol, out *coordinator.Out) {
	cl := g.classic
	leaderBefore := cl.leader
	before := &replacing{group: g, old: *old, leaderBefore: leaderBefore}
	m.rename(now, cl, old, id, out)
	mem := old
	before.member = mem
	m.updateMember(mem, c, req, protocols)
	m.armSession(mem, now, mem.sessionTimeout)
	switch {
	case cl.state == Stable && cl.choose() == cl.protocol:
		before.generation = cl.generation
		out.Write(&coordinator.Write{Records: []coordinator.Record{groupRecord(g, nil)}, Call: c, Timeout: m.cfg.CommitTimeout, Token: before})
	case cl.state == PreparingRebalance:
		cl.park(mem, c, out)
		m.maybeComplete(now, g, out)
	default:
		// The old id may be in the leader's hands already: it would assign to
		// somebody who is no more.
		cl.park(mem, c, out)
		m.prepareRebalance(now, g, out)
	}
}

// rename gives a static member another id; whoever waits under the old one is
// fenced.
func (m *Machine) rename(now model.Now, cl *classic, mem *member, id string, out *coordinator.Out) {
	if mem.joining != nil {
		cl.answerJoin(mem, joinError(mem.joining, mem.id, codeFencedInstanceID), out)
	}
	answerSync(mem, codeFencedInstanceID, nil, nil, nil, out)
	delete(cl.byID, mem.id)
	if cl.leader == mem.id {
		cl.leader = id
	}
	mem.id = id
	cl.byID[id] = mem
}

// replacing is the write that makes a static member's new id durable.
type replacing struct {
	group        *group
	member       *member
	old          member // as it was
	leaderBefore string
	generation   int32
}

// replaced answers the static member whose new id is durable, or takes it back.
func (m *Machine) replaced(now model.Now, w *coordinator.Write, t *replacing, code Code, out *coordinator.Out) {
	cl, mem := t.group.classic, t.member
	present := cl.byID[mem.id] == mem
	if code != codeNone {
		if present && mem.joining == nil {
			m.rename(now, cl, mem, t.old.id, out)
			mem.protocols, mem.rebalanceTimeout, mem.sessionTimeout = t.old.protocols, t.old.rebalanceTimeout, t.old.sessionTimeout
			m.armSession(mem, now, mem.sessionTimeout)
		}
		out.Answer(w.Call, joinError(w.Call, "", coordinator.ClientCode(code)))
		return
	}
	if !present {
		out.Answer(w.Call, joinError(w.Call, "", codeUnknownMemberID))
		return
	}
	if cl.state != Stable || cl.generation != t.generation {
		// A rebalance began meanwhile; this member takes part in it.
		if cl.state == PreparingRebalance && mem.joining == nil {
			cl.park(mem, w.Call, out)
			m.maybeComplete(now, t.group, out)
			return
		}
		out.Answer(w.Call, joinError(w.Call, mem.id, codeRebalanceInProgress))
		return
	}
	leads := cl.leader == mem.id
	resp := m.joined(t.group, mem, false)
	switch {
	case w.Call.Version < 9:
		// It must not take itself for the leader: it would assign, and nobody
		// would ask.
		resp.LeaderID = t.leaderBefore
	case leads:
		resp.SkipAssignment = true
		resp.Members = m.memberList(cl)
	}
	out.Answer(w.Call, resp)
}

// updateMember brings what a member says of itself up to date.
func (m *Machine) updateMember(mem *member, c *coordinator.Call, req *kmsg.JoinGroupRequest, protocols []protocol) {
	mem.clientID, mem.clientHost = c.ClientID, c.ClientHost
	mem.protocols = protocols
	mem.sessionTimeout = model.Instant(req.SessionTimeoutMillis) * nanosPerMilli
	mem.rebalanceTimeout = rebalanceTimeout(c, req)
}

// memberOf makes a member out of its join.
func (m *Machine) memberOf(id string, c *coordinator.Call, req *kmsg.JoinGroupRequest, protocols []protocol) *member {
	mem := &member{id: id, instance: req.InstanceID, protocolType: req.ProtocolType}
	m.updateMember(mem, c, req, protocols)
	mem.session = timer{kind: timerSession, group: m.groups[c.Key], member: mem}
	return mem
}

// rebalanceTimeout is the session's in version 0, which has none of its own.
func rebalanceTimeout(c *coordinator.Call, req *kmsg.JoinGroupRequest) model.Instant {
	if c.Version == 0 {
		return model.Instant(req.SessionTimeoutMillis) * nanosPerMilli
	}
	return model.Instant(max(req.RebalanceTimeoutMillis, 0)) * nanosPerMilli
}

func protocolsOf(req *kmsg.JoinGroupRequest) []protocol {
	ps := make([]protocol, len(req.Protocols))
	for i := range req.Protocols {
		ps[i] = protocol{name: req.Protocols[i].Name, metadata: req.Protocols[i].Metadata}
	}
	return ps
}

// newID makes a member id as Kafka does: who it is, and a UUID.
func (m *Machine) newID(who string) string {
	hi, lo := m.rand.Uint64(), m.rand.Uint64()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(3<<62) | 1<<63
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", who, hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
}

// newUUID makes a member id as Kafka does for members that the coordinator
// assigns to.
func (m *Machine) newUUID() string {
	var id model.TopicID
	binary.BigEndian.PutUint64(id[:], m.rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], m.rand.Uint64())
	return id.String()
}

// joinError answers a join that failed, naming the member if there is one.
func joinError(c *coordinator.Call, id string, code Code) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = code, id, -1
	if c.Version < 7 {
		resp.Protocol = new(string)
	}
	return resp
}

// joined answers a member of the present generation.
func (m *Machine) joined(g *group, mem *member, withMembers bool) *kmsg.JoinGroupResponse {
	cl := g.classic
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, name := cl.protocolType, cl.protocol
	resp.MemberID, resp.Generation, resp.LeaderID = mem.id, cl.generation, cl.leader
	resp.ProtocolType, resp.Protocol = &protocolType, &name
	if withMembers {
		resp.Members = m.memberList(cl)
	}
	return resp
}

// memberList is what the leader is told of everybody.
func (m *Machine) memberList(cl *classic) []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, len(cl.members))
	for i, mem := range cl.members {
		list[i] = kmsg.NewJoinGroupResponseMember()
		list[i].MemberID, list[i].InstanceID, list[i].ProtocolMetadata = mem.id, mem.instance, mem.metadata(cl.protocol)
	}
	return list
}
