package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// groupsTopic is what the coordinators keep their groups in: one partition here,
// so that all groups meet the same faults.
const groupsTopic = "__consumer_offsets"

// drawMembers draws the groups of a world. Most seeds have none, and are the
// worlds that they would be without this.
func (o *Options) drawMembers(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	o.members = 2 + r.IntN(4)
	o.segmentBytes = max(o.segmentBytes, 8000) // the record of a generation must fit
}

// groups makes a broker's settings of groups those of a short life.
func (o *Options) groups(b *config.Broker) {
	g := &b.Groups
	g.TopicPartitions, g.TopicReplicationFactor = 1, int32(o.replicas)
	g.SessionMin, g.InitialRebalanceDelay = time.Millisecond, 20*time.Millisecond
	g.CommitTimeout = o.session
	// The checkers take a hole in a log for a loss.
	b.Storage.Cleaner.Enable = false
}

// groupHistory is what the world was told of one group.
type groupHistory struct {
	// owners is who was given a partition in a generation.
	owners map[ownership]string
	// acked is, for each partition, what was committed and acknowledged.
	acked map[model.TopicPartition]acknowledged
}

type ownership struct {
	generation int32
	tp         model.TopicPartition
}

// group returns what is known of a group.
func (w *World) group(name string) *groupHistory {
	g := w.groups[name]
	if g == nil {
		g = &groupHistory{owners: make(map[ownership]string), acked: make(map[model.TopicPartition]acknowledged)}
		if w.groups == nil {
			w.groups = make(map[string]*groupHistory)
		}
		w.groups[name] = g
	}
	return g
}

// groupsVoid reports whether the log of the groups may honestly have lost its
// end, so that nothing is known of them any more: an election said so or, where
// there is one replica, a disk.
func (w *World) groupsVoid() bool {
	for _, p := range w.h.order {
		if p.tp.Topic == groupsTopic && (p.lost || p.pending || p.uncleanEpoch >= 0) {
			return true
		}
	}
	if w.o.replicas > 1 {
		return false
	}
	for _, k := range []Kind{KindPower, KindPowerMid, KindBlackout, KindEIO, KindFsync, KindStory, KindReflex} {
		if w.counts.kind[k] > 0 {
			return true
		}
	}
	return false
}

type memberState uint8

const (
	memberAway    memberState = iota // has to join
	memberJoined                     // has to ask for its assignment
	memberSettled                    // has it
)

// member is a consumer of a group, as the classic protocol has it. What it
// commits are numbers of its own: the generation, and a count that never falls,
// so that what was committed later is greater.
type member struct {
	link
	name, group string
	instance    *string // of a static member

	id          string
	state       memberState
	generation  int32
	coordinator model.BrokerID // 0: to be asked for
	others      []string       // what the leader is to assign to
	parts       []model.TopicPartition
	position    int64 // counts its commits; a static member keeps its place in a generation
	// known: the committed offsets have been fetched in this generation.
	known bool

	turn    int // numbers requests; answers to older ones are not read
	waiting bool
	ending  bool
	settled bool // since the world was healed: it has committed in a generation
}

func newMember(w *World, i int) *member {
	m := &member{name: fmt.Sprintf("member %d", i), group: fmt.Sprintf("group%d", i%2)}
	if w.clientRand.IntN(3) == 0 {
		m.instance = &m.name
	}
	m.link = link{world: w, stale: true, lost: m.reset, hasty: true}
	return m
}

// reset is called when a connection broke.
func (m *member) reset(b model.BrokerID) {
	if b == m.coordinator {
		m.turn++
		m.waiting, m.coordinator = false, 0
	}
}

func (m *member) finish() { m.ending, m.settled = true, false }

func (m *member) unfinished() string {
	w := m.world
	if m.settled || w.image() == nil {
		return ""
	}
	for _, r := range w.machines {
		for _, rep := range r.replicas {
			if rep.tp.Topic == groupsTopic && (rep.hurt || rep.holed) {
				return "" // nothing is promised of a log that is honestly damaged
			}
		}
	}
	return fmt.Sprintf("%s of %s is in state %d, generation %d, coordinator %d, waiting %v", m.name, m.group, m.state, m.generation, m.coordinator, m.waiting)
}

// act implements client.
func (m *member) act() {
	w := m.world
	w.think(m.act)
	if !m.refresh() || m.waiting || w.image() == nil {
		return
	}
	r := w.clientRand
	switch {
	case m.coordinator == 0:
		m.find()
	case m.state == memberAway:
		m.join()
	case m.state == memberJoined:
		m.sync()
	case !m.known:
		m.fetch()
	case m.ending && m.settled: // what it writes, followers must catch up with
		m.heartbeat()
	case !m.ending && r.IntN(100) == 0: // it begins anew without a word
		m.forget()
	case !m.ending && r.IntN(100) == 0 && m.instance == nil:
		m.leave()
	case len(m.parts) > 0 && r.IntN(3) == 0:
		m.commit()
	case r.IntN(10) == 0:
		m.fetch()
	default:
		m.heartbeat()
	}
}

// forget is what a client does that starts again.
func (m *member) forget() {
	m.id, m.state, m.parts = "", memberAway, nil
}

// ask sends a request to the coordinator, or to anybody, and reads the answer if
// nothing has overtaken it.
func (m *member) ask(c *conn, req kmsg.Request, version int16, done func(resp kmsg.Response)) {
	if c == nil {
		m.coordinator = 0
		return
	}
	m.turn++
	turn := m.turn
	m.waiting = true
	answered := false
	m.watch(c, &answered)
	c.send(req, version, nil, func(resp kmsg.Response, err error) {
		answered = true
		if m.turn != turn {
			return
		}
		m.waiting = false
		if err == nil {
			done(resp)
		}
	})
}

func (m *member) find() {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = m.group, []string{m.group}
	m.ask(m.any(), req, pick(m.world.clientRand, []int16{3, 4, 6}), func(resp kmsg.Response) {
		f := resp.(*kmsg.FindCoordinatorResponse)
		code, node := f.ErrorCode, f.NodeID
		if f.Version >= 4 {
			code, node = f.Coordinators[0].ErrorCode, f.Coordinators[0].NodeID
		}
		if code == protocol.CodeNone {
			m.coordinator = model.BrokerID(node)
		}
	})
}

// failed takes in a code that is not about one of the partitions.
func (m *member) failed(code int16) bool {
	switch code {
	case protocol.CodeNone:
		return false
	case protocol.CodeCoordinatorNotAvailable, protocol.CodeNotCoordinator:
		m.coordinator = 0
	case protocol.CodeCoordinatorLoadInProgress:
	case protocol.CodeUnknownMemberID, protocol.CodeFencedInstanceID:
		m.forget()
	case protocol.CodeIllegalGeneration, protocol.CodeRebalanceInProgress:
		m.state = memberAway
	case protocol.CodeUnknownServerError, protocol.CodeUnknownTopicOrPartition, protocol.CodeGroupIDNotFound:
		m.state = memberAway
	default:
		m.world.fail(11, "%s is answered %s", m.name, protocol.CodeName(code))
	}
	return true
}

func (m *member) join() {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 400, 400
	p := kmsg.NewJoinGroupRequestProtocol()
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = []string{m.world.o.topics[0]}
	p.Name, p.Metadata = "range", sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	m.ask(m.to(m.coordinator), req, pick(m.world.clientRand, []int16{5, 7, 9}), func(resp kmsg.Response) {
		j := resp.(*kmsg.JoinGroupResponse)
		if j.ErrorCode == protocol.CodeMemberIDRequired {
			m.id = j.MemberID
			return
		}
		if m.failed(j.ErrorCode) {
			return
		}
		m.id, m.generation, m.state, m.others = j.MemberID, j.Generation, memberJoined, nil
		m.parts, m.known = nil, false
		if j.LeaderID == j.MemberID && !j.SkipAssignment {
			for i := range j.Members {
				m.others = append(m.others, j.Members[i].MemberID)
			}
		}
	})
}

// assignable is what the members of a group share: partitions of topics that
// stay.
func (w *World) assignable() []model.TopicPartition {
	var all []model.TopicPartition
	for _, t := range w.targets() {
		if !isChurn(t.topic) {
			all = append(all, model.TopicPartition{Topic: t.topic, Partition: t.partition})
		}
	}
	return all
}

func (m *member) sync() {
	w := m.world
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	kind, name := "consumer", "range"
	req.ProtocolType, req.Protocol = &kind, &name
	for i, who := range m.others {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = who
		for k, tp := range w.assignable() {
			if k%len(m.others) == i {
				a.MemberAssignment = append(a.MemberAssignment, byte(len(tp.Topic)))
				a.MemberAssignment = append(a.MemberAssignment, tp.Topic...)
				a.MemberAssignment = binary.BigEndian.AppendUint32(a.MemberAssignment, uint32(tp.Partition))
			}
		}
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	generation := m.generation
	m.ask(m.to(m.coordinator), req, 5, func(resp kmsg.Response) {
		s := resp.(*kmsg.SyncGroupResponse)
		if m.failed(s.ErrorCode) {
			return
		}
		m.state, m.parts = memberSettled, nil
		for b := s.MemberAssignment; len(b) > 0; {
			n := int(b[0])
			tp := model.TopicPartition{Topic: string(b[1 : 1+n]), Partition: int32(binary.BigEndian.Uint32(b[1+n:]))}
			b = b[5+n:]
			m.parts = append(m.parts, tp)
			m.owns(generation, tp)
		}
	})
}

// owns notes that the member was given a partition: nobody else is in that
// generation.
func (m *member) owns(generation int32, tp model.TopicPartition) {
	w := m.world
	who := m.id
	if m.instance != nil {
		who = *m.instance
	}
	g, key := w.group(m.group), ownership{generation, tp}
	if other, taken := g.owners[key]; taken && other != who && !w.groupsVoid() {
		w.fail(11, "%v of generation %d of %s belongs to %s and to %s", tp, generation, m.group, other, who)
	}
	g.owners[key] = who
	w.trace.line("owns       %s generation %d %v: %s", m.group, generation, tp, m.name)
}

func (m *member) heartbeat() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.generation
	m.ask(m.to(m.coordinator), req, 4, func(resp kmsg.Response) { m.failed(resp.(*kmsg.HeartbeatResponse).ErrorCode) })
	if len(m.parts) == 0 && m.ending {
		m.settled = true
	}
}

func (m *member) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.group
	who := kmsg.NewLeaveGroupRequestMember()
	who.MemberID = m.id
	req.Members = append(req.Members, who)
	m.ask(m.to(m.coordinator), req, 4, func(kmsg.Response) {})
	m.forget()
}

// generationStep is by how much offsets that are committed rise from one
// generation to the next.
const generationStep = 1_000_000

func (m *member) commit() {
	w := m.world
	m.position++
	at := int64(m.generation)*generationStep + m.position
	tp := pick(w.clientRand, m.parts)
	req := m.committing(m.generation, tp, at)
	m.ask(m.to(m.coordinator), req, pick(w.clientRand, []int16{7, 9}), func(resp kmsg.Response) {
		if m.failed(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode) {
			return
		}
		w.group(m.group).ack(tp, w.groupsEpoch(), at)
		m.settled = m.settled || m.ending
		w.trace.line("committed  %s %v at %d: %s", m.group, tp, at, m.name)
	})
}

// committing is the request that commits an offset in a generation.
func (m *member) committing(generation int32, tp model.TopicPartition, at int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = tp.Partition, at
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// ack notes a commit that was acknowledged.
func (g *groupHistory) ack(tp model.TopicPartition, epoch int32, at int64) {
	if g.acked[tp] == nil {
		g.acked[tp] = make(acknowledged)
	}
	g.acked[tp].note(epoch, at)
}

// fetch asks for what is committed: nothing that was acknowledged before may be
// missing, by the coordinator that is asked or one before it.
func (m *member) fetch() {
	w := m.world
	req := kmsg.NewPtrOffsetFetchRequest()
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = m.group
	req.RequireStable = w.clientRand.IntN(2) == 0
	g, epoch := w.group(m.group), w.groupsEpochOn(m.coordinator)
	floor := make(map[model.TopicPartition]int64)
	for _, tp := range w.assignable() {
		i := slices.IndexFunc(rg.Topics, func(t kmsg.OffsetFetchRequestGroupTopic) bool { return t.Topic == tp.Topic })
		if i < 0 {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic = tp.Topic
			rg.Topics, i = append(rg.Topics, t), len(rg.Topics)
		}
		rg.Topics[i].Partitions = append(rg.Topics[i].Partitions, tp.Partition)
		floor[tp] = g.acked[tp].by(epoch)
	}
	req.Groups = append(req.Groups, rg)
	m.ask(m.to(m.coordinator), req, 8, func(resp kmsg.Response) {
		got := &resp.(*kmsg.OffsetFetchResponse).Groups[0]
		if m.failed(got.ErrorCode) {
			return
		}
		m.known = true
		for i := range got.Topics {
			for j := range got.Topics[i].Partitions {
				p := &got.Topics[i].Partitions[j]
				tp := model.TopicPartition{Topic: got.Topics[i].Topic, Partition: p.Partition}
				if p.Offset < floor[tp] && !w.groupsVoid() {
					w.fail(11, "%s: %v is committed at %d, %d was acknowledged", m.group, tp, p.Offset, floor[tp])
				}
			}
		}
	})
}
