package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// A guest is a member of a consumer group that speaks the classic protocol. Its
// generation is its epoch, its assignment what the coordinator has given it, and
// a change of that is told as a rebalance: it joins again, gives up what it has
// to, and syncs. Nothing of it waits for other members.

// guestJoin handles a JoinGroup to a consumer group with members. The order of
// the checks is Kafka's.
func (m *Machine) guestJoin(now model.Now, g *group, c *coordinator.Call, req *kmsg.JoinGroupRequest, out *coordinator.Out) {
	cg := g.consumer
	r := &consumer.JoinRequest{
		Member: req.MemberID, New: req.MemberID == "", Instance: req.InstanceID, ClientID: c.ClientID, ClientHost: c.ClientHost,
		RebalanceTimeoutMs: int32(rebalanceTimeout(c, req) / nanosPerMilli),
		Classic:            consumer.Classic{SessionTimeoutMs: req.SessionTimeoutMillis, Protocols: keptProtocols(protocolsOf(req))},
	}
	if r.New {
		r.Member = m.newUUID()
	}
	names := make([]string, len(req.Protocols))
	for i := range req.Protocols {
		names[i] = req.Protocols[i].Name
	}
	code := codeNone
	var sub kmsg.ConsumerMemberMetadata
	switch ok := false; {
	case m.cfg.Migration == Migration{}:
		code = codeInconsistentGroupProtocol
	case cg.Len() >= m.cfg.ConsumerSizeMax && cg.Member(r.Member) == nil:
		code = codeGroupMaxSizeReached
	case !cg.Supports(req.ProtocolType, names):
		code = codeInconsistentGroupProtocol
	case r.New && r.Instance == nil && c.Version >= 4:
		out.Answer(c, joinError(c, r.Member, codeMemberIDRequired))
		return
	default:
		if sub, ok = subscriptionOf(req.Protocols[0].Metadata); !ok {
			code = codeInconsistentGroupProtocol
		}
	}
	if code != codeNone {
		out.Answer(c, joinError(c, "", code))
		return
	}
	r.Names, r.Rack, r.Owned = sub.Topics, sub.Rack, m.ownedSet(&sub)
	m.guestJoined(now, g, c, req, r, out)
}

// guestJoined decides a join that is well formed.
func (m *Machine) guestJoined(now model.Now, g *group, c *coordinator.Call, req *kmsg.JoinGroupRequest, r *consumer.JoinRequest, out *coordinator.Out) {
	cg := g.consumer
	o := cg.Join(r, m.cfg.Topics())
	if o.Code != codeNone {
		out.Answer(c, joinError(c, "", o.Code))
		return
	}
	t := &guesting{group: g.id, member: r.Member, rebalance: model.Instant(max(r.RebalanceTimeoutMs, 0)) * nanosPerMilli}
	if r.New && r.Instance != nil {
		if old := cg.Static(*r.Instance); old != nil && old.Classic == nil && m.mayDowngrade(g, 1, old.ID) {
			// The last member of the consumer protocol comes back with the classic one.
			// If all had what they were to have, that goes on.
			t.reverts, t.rebalances = true, o.Stale || !cg.Settled(old.ID)
			mem := m.memberOf(r.Member, c, req, protocolsOf(req))
			o.Records = m.downgrade(g, mem, old.ID, t.rebalances, old.ID)
			if t.rebalances {
				o.Epoch = consumer.EpochJoin // it joins once more
			}
		}
	}
	protocolType, name := consumerType, req.Protocols[0].Name
	t.resp = kmsg.NewPtrJoinGroupResponse()
	t.resp.MemberID, t.resp.Generation, t.resp.ProtocolType, t.resp.Protocol = r.Member, o.Epoch, &protocolType, &name
	out.Write(&coordinator.Write{Records: o.Records, Call: c, Timeout: m.cfg.CommitTimeout, Token: t})
}

// ownedSet is what a consumer says that it has. Topics that are gone are left out.
func (m *Machine) ownedSet(sub *kmsg.ConsumerMemberMetadata) assign.Set {
	ids := m.topicIDs()
	owned := []assign.Partition{}
	for i := range sub.OwnedPartitions {
		if id, ok := ids(sub.OwnedPartitions[i].Topic); ok {
			for _, n := range sub.OwnedPartitions[i].Partitions {
				owned = append(owned, assign.Partition{Topic: id, Number: n})
			}
		}
	}
	return assign.SetOf(owned)
}

// guesting is the write of a guest's join.
type guesting struct {
	group, member       string
	rebalance           model.Instant
	resp                *kmsg.JoinGroupResponse
	reverts, rebalances bool
}

// guestWritten answers a join; the member is to sync within its rebalance timeout.
func (m *Machine) guestWritten(now model.Now, w *coordinator.Write, t *guesting, code Code, out *coordinator.Out) {
	if t.reverts {
		m.reverted(now, t.group, t.rebalances, out)
	}
	if g := m.groups[t.group]; g != nil && g.consumer != nil {
		m.armPeer(now, g, t.member)
		if k := g.clocks[t.member]; k != nil && code == codeNone {
			m.timers.cancel(&k.join)
			m.timers.set(&k.sync, now.Mono+t.rebalance)
		}
	}
	if code != codeNone {
		out.Answer(w.Call, joinError(w.Call, "", coordinator.ClientCode(code)))
		return
	}
	out.Answer(w.Call, t.resp)
}

// guest validates who asks with a classic request.
func (m *Machine) guest(g *group, id string, instance *string, generation int32) (*consumer.Member, Code) {
	mem := g.consumer.Member(id)
	if instance != nil {
		switch mem = g.consumer.Static(*instance); {
		case mem == nil:
			return nil, codeUnknownMemberID
		case mem.ID != id:
			return nil, codeFencedInstanceID
		}
	}
	switch {
	case mem == nil, mem.Classic == nil:
		return nil, codeUnknownMemberID
	case generation != mem.Epoch:
		return nil, codeIllegalGeneration
	}
	return mem, codeNone
}

// guestSync handles a SyncGroup to a consumer group.
func (m *Machine) guestSync(now model.Now, g *group, c *coordinator.Call, req *kmsg.SyncGroupRequest, out *coordinator.Out) {
	mem, code := m.guest(g, req.MemberID, req.InstanceID, req.Generation)
	switch epoch, _ := g.consumer.Epochs(); {
	case code != codeNone:
	case req.ProtocolType != nil && *req.ProtocolType != consumerType, req.Protocol != nil && *req.Protocol != mem.Classic.Protocols[0].Name:
		code = codeInconsistentGroupProtocol
	case epoch > mem.Epoch && mem.State != consumer.Unrevoked:
		m.expectJoin(now, g, mem)
		code = codeRebalanceInProgress
	}
	if code != codeNone {
		out.Fail(c, code)
		return
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
	resp.MemberAssignment = assignmentBytes(mem.Assigned, m.topicNames(), mem.Classic.Protocols[0].Metadata)
	// What it is told has to be committed.
	out.Write(&coordinator.Write{Call: c, Timeout: m.cfg.CommitTimeout, Token: &guestSyncing{group: g.id, member: mem.ID, resp: resp}})
}

// guestSyncing is the barrier before a guest's assignment is told.
type guestSyncing struct {
	group, member string
	resp          *kmsg.SyncGroupResponse
}

func (m *Machine) guestSynced(now model.Now, w *coordinator.Write, t *guestSyncing, code Code, out *coordinator.Out) {
	if code != codeNone {
		out.Fail(w.Call, coordinator.ClientCode(code))
		return
	}
	if g := m.groups[t.group]; g != nil && g.consumer != nil && g.clocks[t.member] != nil {
		m.timers.cancel(&g.clocks[t.member].sync)
		m.armPeer(now, g, t.member)
	}
	out.Answer(w.Call, t.resp)
}

// guestHeartbeat handles a Heartbeat to a consumer group.
func (m *Machine) guestHeartbeat(now model.Now, g *group, c *coordinator.Call, req *kmsg.HeartbeatRequest, out *coordinator.Out) {
	mem, code := m.guest(g, req.MemberID, req.InstanceID, req.Generation)
	if code != codeNone {
		out.Fail(c, code)
		return
	}
	m.armPeer(now, g, mem.ID)
	if g.consumer.MustRejoin(mem) {
		m.expectJoin(now, g, mem)
		out.Fail(c, codeRebalanceInProgress)
		return
	}
	out.Answer(c, kmsg.NewPtrHeartbeatResponse())
}

// expectJoin: a guest was told to join again. It has its rebalance timeout for it,
// from when it was told first.
func (m *Machine) expectJoin(now model.Now, g *group, mem *consumer.Member) {
	if k := g.clocks[mem.ID]; k != nil && k.join.place == 0 {
		m.timers.set(&k.join, now.Mono+model.Instant(max(mem.RebalanceTimeoutMs, 0))*nanosPerMilli)
	}
}

// guestLeave handles a LeaveGroup to a consumer group. An administrator may name
// members of either protocol. Source: Kafka 4's GroupMetadataManager.
func (m *Machine) guestLeave(g *group, c *coordinator.Call, leaving []kmsg.LeaveGroupRequestMember, out *coordinator.Out) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	var gone []string
	for i := range leaving {
		who := &leaving[i]
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID = who.MemberID, who.InstanceID
		mem := g.consumer.Member(who.MemberID)
		if who.InstanceID != nil {
			mem = g.consumer.Static(*who.InstanceID)
		}
		switch {
		case mem == nil:
			rm.ErrorCode = codeUnknownMemberID
		case who.InstanceID != nil && who.MemberID != "" && who.MemberID != mem.ID:
			rm.ErrorCode = codeFencedInstanceID
		default:
			gone = append(gone, mem.ID)
		}
		resp.Members = append(resp.Members, rm)
	}
	if c.Version <= 2 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	if len(gone) == 0 {
		out.Answer(c, resp)
		return
	}
	t := &beating{group: g.id, answer: resp}
	var records []coordinator.Record
	records, t.reverts = m.removal(g, gone...)
	out.Write(&coordinator.Write{Records: records, Call: c, Timeout: m.cfg.CommitTimeout, Token: t})
}
