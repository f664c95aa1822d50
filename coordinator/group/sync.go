package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// sync handles a SyncGroup. The order of the checks is Kafka's.
func (m *Machine) sync(now model.Now, c *coordinator.Call, req *kmsg.SyncGroupRequest, out *coordinator.Out) {
	g := m.groups[c.Key]
	switch {
	case c.Key == "":
		out.Fail(c, codeInvalidGroupID)
		return
	case g == nil:
		out.Fail(c, codeUnknownMemberID)
		return
	case g.consumer != nil:
		m.guestSync(now, g, c, req, out)
		return
	}
	cl := g.classic
	mem, code := cl.checkMember(req.MemberID, req.InstanceID)
	switch {
	case code != codeNone:
	case req.Generation != cl.generation:
		code = codeIllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != cl.protocolType, req.Protocol != nil && *req.Protocol != cl.protocol:
		code = codeInconsistentGroupProtocol
	case cl.state == Empty:
		code = codeUnknownMemberID
	case cl.state == PreparingRebalance:
		code = codeRebalanceInProgress
	}
	if code != codeNone {
		out.Fail(c, code)
		return
	}
	mem.owesSync = false
	if cl.state == Stable {
		mem.syncing = c
		answerSync(mem, codeNone, &cl.protocolType, &cl.protocol, mem.assignment, out)
		m.armSession(mem, now, mem.sessionTimeout)
		return
	}
	answerSync(mem, codeRebalanceInProgress, nil, nil, nil, out) // an older one that was overtaken
	mem.syncing = c
	if cl.leader != mem.id || cl.assigned == cl.generation && !mutant.On("group-assigned-twice") {
		return
	}
	cl.assigned = cl.generation
	t := &assigning{group: g, generation: cl.generation, parts: make(map[string][]byte, len(req.GroupAssignment))}
	for i := range req.GroupAssignment {
		t.parts[req.GroupAssignment[i].MemberID] = req.GroupAssignment[i].MemberAssignment
	}
	out.Write(&coordinator.Write{Records: []coordinator.Record{groupRecord(g, t.parts)}, Timeout: m.cfg.CommitTimeout, Token: t})
}

// assigning is the write of a generation's assignments.
type assigning struct {
	group      *group
	generation int32
	parts      map[string][]byte // by member id
}

// assigned ends the rebalance once the assignments are durable, or begins
// another if they could not be made so.
func (m *Machine) assigned(now model.Now, t *assigning, code Code, out *coordinator.Out) {
	g, cl := t.group, t.group.classic
	if m.groups[g.id] != g || cl.state != CompletingRebalance || cl.generation != t.generation {
		return // the group has moved on
	}
	if code != codeNone {
		m.giveAssignments(now, g, nil, coordinator.ClientCode(code), out)
		m.prepareRebalance(now, g, out)
		return
	}
	m.enter(now, cl, Stable)
	m.giveAssignments(now, g, t.parts, codeNone, out)
}

// giveAssignments answers every parked sync. Who is not among parts has nothing.
func (m *Machine) giveAssignments(now model.Now, g *group, parts map[string][]byte, code Code, out *coordinator.Out) {
	cl := g.classic
	for _, mem := range cl.members {
		mem.assignment = parts[mem.id]
		if mem.syncing == nil {
			continue
		}
		answerSync(mem, code, &cl.protocolType, &cl.protocol, mem.assignment, out)
		m.armSession(mem, now, mem.sessionTimeout)
	}
}

// answerSync answers a member's parked sync, if there is one.
func answerSync(mem *member, code Code, protocolType, name *string, assignment []byte, out *coordinator.Out) {
	c := mem.syncing
	if c == nil {
		return
	}
	mem.syncing = nil
	if code != codeNone {
		out.Fail(c, code)
		return
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment = assignment
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	t, p := *protocolType, *name
	resp.ProtocolType, resp.Protocol = &t, &p
	out.Answer(c, resp)
}

// heartbeat handles a Heartbeat.
func (m *Machine) heartbeat(now model.Now, c *coordinator.Call, req *kmsg.HeartbeatRequest, out *coordinator.Out) {
	g := m.groups[c.Key]
	switch {
	case c.Key == "":
		out.Fail(c, codeInvalidGroupID)
		return
	case g == nil:
		out.Fail(c, codeUnknownMemberID)
		return
	case g.consumer != nil:
		m.guestHeartbeat(now, g, c, req, out)
		return
	}
	mem, code := g.classic.checkMember(req.MemberID, req.InstanceID)
	switch {
	case code != codeNone:
	case req.Generation != g.classic.generation:
		code = codeIllegalGeneration
	case g.classic.state == Empty:
		code = codeUnknownMemberID
	default:
		m.armSession(mem, now, mem.sessionTimeout)
		if g.classic.state == PreparingRebalance {
			code = codeRebalanceInProgress
		}
	}
	if code != codeNone {
		out.Fail(c, code)
		return
	}
	out.Answer(c, kmsg.NewPtrHeartbeatResponse())
}

// leave handles a LeaveGroup. Up to version 2 it is about one member, and its
// error is the request's.
func (m *Machine) leave(now model.Now, c *coordinator.Call, req *kmsg.LeaveGroupRequest, out *coordinator.Out) {
	g := m.groups[c.Key]
	switch {
	case c.Key == "":
		out.Fail(c, codeInvalidGroupID)
		return
	case g == nil:
		out.Fail(c, codeUnknownMemberID)
		return
	}
	leaving := req.Members
	if c.Version <= 2 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		leaving = []kmsg.LeaveGroupRequestMember{one}
	}
	if g.consumer != nil {
		m.guestLeave(g, c, leaving, out)
		return
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	left := false
	for i := range leaving {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID = leaving[i].MemberID, leaving[i].InstanceID
		rm.ErrorCode = m.leaveOne(g, &leaving[i], out)
		left = left || rm.ErrorCode == codeNone
		resp.Members = append(resp.Members, rm)
	}
	if c.Version <= 2 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	out.Answer(c, resp)
	if left {
		m.rebalanceAfterLeave(now, g, out)
	}
	m.maybeForget(g)
}

// leaveOne takes one member out. An administrator may name a static member by
// its instance alone. Source: KIP-345.
func (m *Machine) leaveOne(g *group, who *kmsg.LeaveGroupRequestMember, out *coordinator.Out) Code {
	cl := g.classic
	if who.MemberID == "" {
		if who.InstanceID == nil || cl.static[*who.InstanceID] == nil {
			return codeUnknownMemberID
		}
		m.remove(g, cl.static[*who.InstanceID], codeUnknownMemberID, out)
		return codeNone
	}
	if mem := cl.unused[who.MemberID]; mem != nil {
		m.dropID(g, mem)
		return codeNone
	}
	mem, code := cl.checkMember(who.MemberID, who.InstanceID)
	if code == codeNone {
		m.remove(g, mem, codeUnknownMemberID, out)
	}
	return code
}
