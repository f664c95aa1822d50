package group

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// clock holds the deadlines of a member of a consumer group.
type clock struct {
	session  timer
	deadline model.Instant // of the session; the timer may be earlier
	revoke   timer
	epoch    int32 // in which revoke was armed
	// join and sync are of members that speak the classic protocol: by when they
	// have to join again, and to sync.
	join, sync timer
}

// assigns reports whether a group has members that the coordinator assigns to.
func (m *Machine) assigns(id string) bool {
	g := m.groups[id]
	return g != nil && g.consumer != nil && g.consumer.Len() > 0
}

// becomeClassic takes a consumer group without members out of a classic one's
// way.
func (m *Machine) becomeClassic(g *group, out *coordinator.Out) {
	if g.consumer != nil {
		g.consumer = nil
		out.Write(&coordinator.Write{Records: consumer.Tombstones(g.id), Timeout: m.cfg.CommitTimeout})
	}
}

// consumerHeartbeat handles a ConsumerGroupHeartbeat. The order of the checks is
// Kafka's. Source: KIP-848.
func (m *Machine) consumerHeartbeat(now model.Now, c *coordinator.Call, req *kmsg.ConsumerGroupHeartbeatRequest, out *coordinator.Out) {
	if code, why := checkHeartbeat(c, req); code != codeNone {
		out.Answer(c, heartbeatError(code, why))
		return
	}
	g, before, made, why := m.consumerGroup(now, c.Key, req.MemberEpoch, out)
	if why != "" {
		out.Answer(c, heartbeatError(codeGroupIDNotFound, why))
		return
	}
	t := &beating{group: c.Key, member: req.MemberID, upgrades: g.consumer == nil}
	var o consumer.Outcome
	if req.MemberEpoch < 0 {
		o = before.Leave(req.MemberID, req.InstanceID, req.MemberEpoch, m.cfg.Topics())
		if o.Code == codeNone && req.MemberEpoch == consumer.EpochLeave {
			o.Records, t.reverts = m.removal(g, req.MemberID)
		}
	} else {
		if t.member == "" {
			t.member = m.newUUID()
		}
		o = before.Heartbeat(m.beat(c, req, t.member), m.cfg.Topics(), m.cfg.ConsumerSizeMax)
	}
	if o.Code != codeNone {
		m.maybeForget(g)
		out.Answer(c, heartbeatError(o.Code, o.Why))
		return
	}
	t.answer = m.heartbeatResponse(c.Key, t.member, &o)
	o.Records = append(made, o.Records...)
	if req.MemberEpoch >= 0 {
		m.armPeer(now, g, t.member)
	}
	if len(o.Records) == 0 {
		out.Answer(c, t.answer)
		return
	}
	out.Write(&coordinator.Write{Records: o.Records, Call: c, Timeout: m.cfg.CommitTimeout, Token: t})
}

// consumerGroup returns the group that a heartbeat is for, as it is or as it would
// come to be: made are the records for that. why says why there is none.
func (m *Machine) consumerGroup(now model.Now, id string, epoch int32, out *coordinator.Out) (g *group, cg *consumer.Group, made []coordinator.Record, why string) {
	g = m.groups[id]
	switch {
	case g != nil && g.consumer != nil:
		return g, g.consumer, nil, ""
	case g == nil && epoch != consumer.EpochJoin:
		return nil, nil, nil, "Consumer group " + id + " not found."
	case epoch != consumer.EpochJoin:
		return nil, nil, nil, "Group " + id + " is not a consumer group."
	}
	g = m.get(id)
	if len(g.classic.members) > 0 {
		if why = m.refusesUpgrade(g); why == "" {
			cg, made, why = m.upgraded(now, g, out)
		}
		if why != "" {
			return nil, nil, nil, why
		}
	} else {
		cg = consumer.New(id) // it comes to be with its records
		if g.classic.typed {
			made = append(made, groupTombstone(id))
		}
	}
	m.dropIDs(g)
	return g, cg, made, ""
}

// checkHeartbeat validates what needs no group.
func checkHeartbeat(c *coordinator.Call, req *kmsg.ConsumerGroupHeartbeatRequest) (Code, string) {
	joins := req.MemberEpoch == consumer.EpochJoin
	empty := func(s *string) bool { return s != nil && *s == "" }
	switch {
	case c.Key == "":
		return codeInvalidRequest, "GroupId can't be empty."
	case empty(req.InstanceID):
		return codeInvalidRequest, "InstanceId can't be empty."
	case empty(req.RackID):
		return codeInvalidRequest, "RackId can't be empty."
	case req.MemberID == "" && (c.Version >= 1 || !joins):
		return codeInvalidRequest, "MemberId can't be empty."
	case req.MemberEpoch < consumer.EpochLeaveStatic:
		return codeInvalidRequest, "MemberEpoch is invalid."
	case req.MemberEpoch == consumer.EpochLeaveStatic && req.InstanceID == nil:
		return codeInvalidRequest, "InstanceId can't be null."
	case joins && req.RebalanceTimeoutMillis < 0:
		return codeInvalidRequest, "RebalanceTimeoutMs must be provided in first request."
	case joins && (req.Topics == nil || len(req.Topics) > 0):
		return codeInvalidRequest, "TopicPartitions must be empty when (re-)joining."
	case joins && len(req.SubscribedTopicNames) == 0 && (req.SubscribedTopicRegex == nil || *req.SubscribedTopicRegex == ""):
		return codeInvalidRequest, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-empty when (re-)joining."
	case req.ServerAssignor != nil && assign.ByName(*req.ServerAssignor) == nil:
		return codeUnsupportedAssignor, fmt.Sprintf("ServerAssignor %s is not supported. Supported assignors: %s.", *req.ServerAssignor, strings.Join(assign.Names(), ", "))
	}
	if req.SubscribedTopicRegex != nil && *req.SubscribedTopicRegex != "" {
		if _, err := consumer.Compile(*req.SubscribedTopicRegex); err != nil {
			return codeInvalidRegularExpression, "SubscribedTopicRegex is not valid: " + err.Error()
		}
	}
	return codeNone, ""
}

// beat is a heartbeat as the group understands it.
func (m *Machine) beat(c *coordinator.Call, req *kmsg.ConsumerGroupHeartbeatRequest, member string) *consumer.Request {
	r := &consumer.Request{
		Member: member, Epoch: req.MemberEpoch, Instance: req.InstanceID, Rack: req.RackID, ClientID: c.ClientID, ClientHost: c.ClientHost,
		RebalanceTimeoutMs: req.RebalanceTimeoutMillis, Names: req.SubscribedTopicNames, Regex: req.SubscribedTopicRegex, Assignor: req.ServerAssignor,
	}
	if req.Topics != nil {
		var ps []assign.Partition
		for _, t := range req.Topics {
			for _, n := range t.Partitions {
				ps = append(ps, assign.Partition{Topic: t.TopicID, Number: n})
			}
		}
		owned := assign.SetOf(ps)
		r.Owned = &owned
	}
	return r
}

// beating is the write of what a heartbeat has changed, or members that leave.
// Without a call it is that of a member that was not heard of.
type beating struct {
	group, member string
	answer        any
	// upgrades: the group comes to be with it; reverts: it becomes a classic one.
	upgrades, reverts bool
}

// beaten answers a heartbeat. The clocks run from here, whatever became of the
// write: the member may be in the log.
func (m *Machine) beaten(now model.Now, w *coordinator.Write, t *beating, code Code, out *coordinator.Out) {
	if t.reverts {
		m.reverted(now, t.group, true, out)
	}
	if g := m.groups[t.group]; g != nil {
		if t.upgrades {
			m.armPeers(now, g)
		}
		m.armPeer(now, g, t.member)
		m.maybeForget(g)
	}
	switch _, leaves := t.answer.(*kmsg.LeaveGroupResponse); {
	case w.Call == nil:
	case code == codeNone:
		out.Answer(w.Call, t.answer)
	case leaves:
		out.Fail(w.Call, coordinator.ClientCode(code))
	default:
		out.Answer(w.Call, heartbeatError(coordinator.ClientCode(code), ""))
	}
}

func (m *Machine) heartbeatResponse(group, member string, o *consumer.Outcome) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &member, o.Epoch
	_, interval := m.cfg.settings(group)
	resp.HeartbeatIntervalMillis = int32(interval / nanosPerMilli)
	if o.Epoch >= 0 && o.Tell {
		a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
		for _, t := range byTopic(o.Assigned) {
			at := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			at.TopicID, at.Partitions = t.id, t.partitions
			a.Topics = append(a.Topics, at)
		}
		resp.Assignment = &a
	}
	return resp
}

func heartbeatError(code Code, why string) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.ErrorCode = code
	if why != "" {
		resp.ErrorMessage = &why
	}
	return resp
}

// topicPart is what of one topic is in a set.
type topicPart struct {
	id         model.TopicID
	partitions []int32
}

func byTopic(s assign.Set) []topicPart {
	var out []topicPart
	for _, p := range s {
		if len(out) == 0 || out[len(out)-1].id != p.Topic {
			out = append(out, topicPart{id: p.Topic})
		}
		last := &out[len(out)-1]
		last.partitions = append(last.partitions, p.Number)
	}
	return out
}

// armPeers begins the clocks of every member: this coordinator has just come to
// serve.
func (m *Machine) armPeers(now model.Now, g *group) {
	if g.consumer != nil {
		for _, id := range g.consumer.Members() {
			m.armPeer(now, g, id)
		}
	}
}

// armPeer prolongs a member's session, and watches that it gives up what it has
// to in time. Clocks of members that are gone are stopped.
func (m *Machine) armPeer(now model.Now, g *group, id string) {
	var mem *consumer.Member
	if g.consumer != nil {
		mem = g.consumer.Member(id)
	}
	if mem == nil {
		m.stopPeer(g, id)
		return
	}
	k := g.clocks[id]
	if k == nil {
		k = &clock{
			session: timer{kind: timerPeer, group: g, peer: id}, revoke: timer{kind: timerRevoke, group: g, peer: id},
			join: timer{kind: timerRejoin, group: g, peer: id}, sync: timer{kind: timerResync, group: g, peer: id},
		}
		if g.clocks == nil {
			g.clocks = make(map[string]*clock)
		}
		g.clocks[id] = k
	}
	if mem.Epoch != consumer.EpochLeaveStatic || k.session.place == 0 {
		// One that is away lives on from when it left.
		k.deadline = now.Mono + m.peerSession(g, mem)
	}
	if k.session.place == 0 || k.deadline < k.session.at {
		m.timers.set(&k.session, k.deadline)
	}
	switch {
	case mem.State != consumer.Unrevoked || mem.Classic != nil:
		m.timers.cancel(&k.revoke)
	case k.revoke.place == 0 || k.epoch != mem.Epoch:
		k.epoch = mem.Epoch
		m.timers.set(&k.revoke, now.Mono+model.Instant(mem.RebalanceTimeoutMs)*nanosPerMilli)
	}
}

// peerSession is how long a member may not be heard of.
func (m *Machine) peerSession(g *group, mem *consumer.Member) model.Instant {
	if mem.Classic != nil {
		return model.Instant(mem.Classic.SessionTimeoutMs) * nanosPerMilli
	}
	session, _ := m.cfg.settings(g.id)
	return session
}

func (m *Machine) stopPeer(g *group, id string) {
	if k := g.clocks[id]; k != nil {
		m.timers.cancel(&k.session)
		m.timers.cancel(&k.revoke)
		m.timers.cancel(&k.join)
		m.timers.cancel(&k.sync)
		delete(g.clocks, id)
	}
}

// peerOver: a member was not heard of, or keeps what it has to give up. It is
// out.
func (m *Machine) peerOver(now model.Now, t *timer, out *coordinator.Out) {
	g, k := t.group, t.group.clocks[t.peer]
	switch {
	case k == nil || g.consumer == nil || g.consumer.Member(t.peer) == nil:
		return
	case t.kind == timerPeer && now.Mono < k.deadline:
		m.timers.set(t, k.deadline)
		return
	}
	m.stats.Evicted++
	records, reverts := m.removal(g, t.peer)
	out.Write(&coordinator.Write{Records: records, Timeout: m.cfg.CommitTimeout, Token: &beating{group: g.id, member: t.peer, reverts: reverts}})
}

// replayConsumer takes a record of a group whose coordinator assigns.
func (m *Machine) replayConsumer(r coordinator.Record) {
	p, err := consumer.Parse(r)
	if err != nil {
		m.stats.Unreadable++
		return
	}
	g := m.groups[p.Group]
	if p.Ends() {
		if g != nil && g.consumer != nil {
			for _, id := range g.consumer.Members() {
				m.stopPeer(g, id)
			}
			g.consumer = nil
			if g.reverting == nil {
				m.maybeForget(g)
			}
		}
		return
	}
	if g == nil || g.consumer == nil {
		if p.Gone() {
			return
		}
		g = m.get(p.Group)
		g.consumer = consumer.New(p.Group)
	}
	g.consumer.Replay(p)
	if m.serving {
		for id := range g.clocks { // order-free: each is looked at alone
			if g.consumer.Member(id) == nil {
				m.stopPeer(g, id)
			}
		}
	}
}

// keyVersion is the version before a key, which says what it is a key of.
func keyVersion(key []byte) (int16, bool) {
	if len(key) < 2 {
		return 0, false
	}
	return int16(binary.BigEndian.Uint16(key)), true
}

// mayCommitAsPeer checks a commit to a group whose coordinator assigns.
func (m *Machine) mayCommitAsPeer(g *group, c *coordinator.Call, req *kmsg.OffsetCommitRequest) Code {
	if req.Generation < 0 && g.consumer.Len() == 0 {
		return codeNone
	}
	code := g.consumer.MayCommit(req.MemberID, req.InstanceID, req.Generation)
	if mem := g.consumer.Member(req.MemberID); mem != nil && mem.Classic != nil {
		return code
	}
	if c.Version < 9 && (code == codeNone || code == consumer.CodeStaleMemberEpoch) {
		return codeUnsupportedVersion // its client can't know what a stale epoch is
	}
	return code
}
