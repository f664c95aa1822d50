package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// changer is a consumer that changes its protocol, as rolling upgrades and
// downgrades do. It reads what it was told, and stops before it says so.
type changer struct {
	reader
	eager    bool // of the classic protocol: it gives everything up to join again
	consumer bool // speaks the protocol in which the coordinator assigns
	epoch    int32
	reads    map[int32]bool
	lists    []kmsg.JoinGroupResponseMember // of a leader
}

// changers is consumers of one group and their world.
type changers struct {
	*fleet
	all  []*changer
	next int
}

func newChangers(seed uint64) *changers {
	rng := rand.New(rand.NewPCG(seed, 101))
	cfg := defaultConfig()
	s := &changers{fleet: &fleet{
		w: newWorld(cfg), rng: rng, pending: make(map[*coordinator.Call]func(*coordinator.Call)),
		asked: make(map[*coordinator.Call]model.Instant), owners: make(map[string]string), rebalance: someRebalance(rng),
	}}
	s.w.seed = seed << 20
	eager := rng.IntN(2) == 0
	for i := range 2 + rng.IntN(4) {
		c := &changer{reader: reader{name: fmt.Sprint("c", i), version: []int16{3, 4, 5, 9}[rng.IntN(4)]}, eager: eager}
		if rng.IntN(3) == 0 {
			c.instance, c.version = &c.name, 9
		}
		c.consumer = rng.IntN(2) == 0
		s.all = append(s.all, c)
		s.anew(c)
	}
	return s
}

// anew: the client's process begins; it knows nothing.
func (s *changers) anew(c *changer) {
	c.crash()
	c.reads, c.epoch = nil, 0
	if c.consumer {
		s.next++
		c.id = fmt.Sprint("m", s.next)
	}
}

// change has a client come back with the other protocol.
func (s *changers) change(c *changer) {
	c.reads = nil
	switch {
	case c.consumer:
		if c.epoch > 0 {
			r := s.beatRequest(c)
			r.MemberEpoch = consumer.EpochLeave
			if c.instance != nil {
				r.MemberEpoch = consumer.EpochLeaveStatic
			}
			s.send(1, c.name, r, nil)
		}
	case c.id != "" && c.instance == nil:
		req := kmsg.NewPtrLeaveGroupRequest()
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = c.id
		req.Members = append(req.Members, m)
		s.send(4, c.name, req, nil)
	}
	c.consumer = !c.consumer
	s.anew(c)
}

func (s *changers) beatRequest(c *changer) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = "g", c.id, c.epoch, c.instance
	r.RebalanceTimeoutMillis, r.SubscribedTopicNames = int32(s.rebalance/ms), []string{"t"}
	t, _ := s.w.cfg.Topics().Topic("t")
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(c.reads) > 0 {
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.ID, Partitions: slices.Sorted(maps.Keys(c.reads))})
	}
	return r
}

func (s *changers) beat(c *changer) {
	turn := c.begin()
	s.send(1, c.name, s.beatRequest(c), func(call *coordinator.Call) {
		resp, ok := call.Response.(*kmsg.ConsumerGroupHeartbeatResponse)
		if c.turn != turn {
			return
		}
		c.waiting = false
		if !ok {
			return
		}
		switch resp.ErrorCode {
		case codeNone:
			c.epoch = resp.MemberEpoch
			if resp.Assignment != nil {
				c.reads = map[int32]bool{}
				for _, t := range resp.Assignment.Topics {
					for _, p := range t.Partitions {
						c.reads[p] = true
					}
				}
			}
		case codeUnknownMemberID, consumer.CodeFencedMemberEpoch, codeGroupIDNotFound, codeFencedInstanceID:
			s.anew(c)
		case codeCoordinatorNotAvailable, coordinator.CodeNotCoordinator, consumer.CodeUnreleasedInstanceID:
		default:
			s.fail("a heartbeat of %s is answered %d", c.name, resp.ErrorCode)
		}
	})
}

func (s *changers) join(c *changer) {
	if c.eager {
		c.reads = nil
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.MemberID, req.InstanceID = c.id, c.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, int32(s.rebalance/ms), consumerType
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{"t"}
	if len(c.reads) > 0 {
		m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: "t", Partitions: slices.Sorted(maps.Keys(c.reads))})
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "mine", m.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	c.state, c.generation = joining, -1
	turn := c.begin()
	s.send(c.version, c.name, req, func(call *coordinator.Call) {
		resp, ok := call.Response.(*kmsg.JoinGroupResponse)
		if c.turn != turn {
			return
		}
		c.waiting, c.state = false, away
		if ok {
			s.joined(c, resp)
		}
	})
}

func (s *changers) joined(c *changer, resp *kmsg.JoinGroupResponse) {
	switch resp.ErrorCode {
	case codeNone:
		c.id, c.generation, c.state, c.lists = resp.MemberID, resp.Generation, joined, nil
		if resp.LeaderID == c.id && !resp.SkipAssignment {
			c.lists = resp.Members
		}
	case codeMemberIDRequired:
		c.id = resp.MemberID
	case codeUnknownMemberID, codeFencedInstanceID:
		c.id, c.reads = "", nil
	case codeRebalanceInProgress, codeCoordinatorNotAvailable, coordinator.CodeNotCoordinator:
	default:
		s.fail("a join of %s is answered %d", c.name, resp.ErrorCode)
	}
}

// assignment shares the partitions: nobody is given what another has, and who has
// too much is told to give some up first.
func (c *changer) assignment(partitions int32) map[string][]int32 {
	owner := map[int32]string{}
	for _, l := range c.lists {
		sub, _ := subscriptionOf(l.ProtocolMetadata)
		for _, o := range sub.OwnedPartitions {
			for _, p := range o.Partitions {
				owner[p] = l.MemberID
			}
		}
	}
	most := (int(partitions) + len(c.lists) - 1) / len(c.lists)
	out := map[string][]int32{}
	for p := range partitions {
		if who, taken := owner[p]; taken && len(out[who]) < most {
			out[who] = append(out[who], p)
		}
	}
	for p := range partitions {
		if _, taken := owner[p]; taken {
			continue
		}
		least := c.lists[0].MemberID
		for _, l := range c.lists {
			if len(out[l.MemberID]) < len(out[least]) {
				least = l.MemberID
			}
		}
		out[least] = append(out[least], p)
	}
	return out
}

func (s *changers) sync(c *changer) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	t, _ := s.w.cfg.Topics().Topic("t")
	if len(c.lists) > 0 {
		parts := c.assignment(t.Partitions)
		for _, l := range c.lists {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			ca := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: parts[l.MemberID]}}}
			a.MemberID, a.MemberAssignment = l.MemberID, ca.AppendTo(nil)
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	c.state = syncing
	turn := c.begin()
	s.send(4, c.name, req, func(call *coordinator.Call) {
		if c.turn != turn {
			return
		}
		c.waiting = false
		resp, ok := call.Response.(*kmsg.SyncGroupResponse)
		if !ok {
			c.state = away
			s.heard(c, call.Code)
			return
		}
		s.given(c, resp.MemberAssignment)
	})
}

// given has a classic client read what it was assigned; a cooperative one that had
// to give something up joins again.
func (s *changers) given(c *changer, b []byte) {
	c.state = settled
	before := c.reads
	c.reads = map[int32]bool{}
	var a kmsg.ConsumerMemberAssignment
	if len(b) > 0 && a.ReadFrom(b) != nil {
		s.fail("an assignment can't be read")
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			c.reads[p] = true
		}
	}
	for p := range before { // order-free: any will do
		if !c.reads[p] {
			c.state = away
		}
	}
}

// heard is what a classic client makes of an error.
func (s *changers) heard(c *changer, code Code) {
	switch code {
	case codeUnknownMemberID, codeFencedInstanceID:
		c.id, c.state, c.reads = "", away, nil
	case codeIllegalGeneration:
		c.state, c.reads = away, nil
	case codeRebalanceInProgress:
		c.state = away
	}
}

func (s *changers) heartbeat(c *changer) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	s.send(4, c.name, req, func(call *coordinator.Call) {
		if call.Response == nil && c.state == settled {
			s.heard(c, call.Code)
		}
	})
}

func (s *changers) proceed(c *changer) {
	switch {
	case c.waiting:
	case c.consumer:
		s.beat(c)
	case c.state == away:
		s.join(c)
	case c.state == joined:
		s.sync(c)
	case c.state == settled:
		s.heartbeat(c)
	}
}

// exclusive: no partition has two readers.
func (s *changers) exclusive() {
	who := map[int32]string{}
	for _, c := range s.all {
		for p := range c.reads { // order-free: all of them
			if other, taken := who[p]; taken {
				s.fail("partition %d is read by %s and by %s", p, other, c.name)
			}
			who[p] = c.name
		}
	}
}

func (s *changers) step() {
	c := s.all[s.rng.IntN(len(s.all))]
	switch n := s.rng.IntN(100); {
	case n < 75:
		s.proceed(c)
	case n < 80:
		s.change(c)
	case n < 84:
		s.w.held = !s.w.held
	case n < 87:
		s.w.refuse = []Code{0, 0, 19, 56}[s.rng.IntN(4)]
	case n < 89 && len(s.w.open) > 0: // the oldest waited too long
		wr := s.w.open[0]
		s.w.open = s.w.open[1:]
		s.w.rt.Done(s.w.now, wr, 7, &s.w.out)
	case n < 91:
		s.move()
	default:
		s.pass(1 * ms)
	}
	s.settle()
	s.exclusive()
}

// calm lets everybody go on until all partitions are read, in a group of the kind
// that its members make it.
func (s *changers) calm() {
	s.heal()
	for range 120 {
		for _, c := range s.all {
			s.proceed(c)
			s.exclusive()
		}
		s.pass(500 * ms)
		if s.err != nil || s.calmed() {
			return
		}
	}
	said := strings.TrimSpace(s.w.state())
	for _, c := range s.all {
		said += fmt.Sprintf("; %s consumer=%v id=%s state=%d reads=%v", c.name, c.consumer, s.w.name(c.id), c.state, c.reads)
	}
	s.fail("after 60 quiet seconds: %s", said)
}

func (s *changers) calmed() bool {
	g := s.w.machine().groups["g"]
	if g == nil {
		return false
	}
	read, modern := 0, false
	for _, c := range s.all {
		read += len(c.reads)
		modern = modern || c.consumer
		if !c.consumer && c.state != settled {
			return false
		}
	}
	if g.consumer != nil {
		return read == 4 && modern && g.consumer.State() == "Stable" && g.consumer.Len() == len(s.all)
	}
	return read == 4 && !modern && g.classic.state == Stable && len(g.classic.members) == len(s.all)
}

// runChangers is one random life of a group whose members change their protocol;
// in its end all go to one protocol, then all to the other.
func runChangers(seed uint64) error {
	s := newChangers(seed)
	for range 250 {
		if s.step(); s.err != nil {
			return s.err
		}
	}
	for _, to := range []bool{seed%2 == 0, seed%2 != 0} {
		for _, c := range s.all {
			if c.consumer != to {
				s.change(c)
			}
			if s.calm(); s.err != nil {
				return s.err
			}
			s.move()
		}
	}
	return s.err
}

// TestChangeOfProtocol: consumers roll from one protocol to the other and back,
// while writes fail, answers are lost and coordinators move. No partition ever has
// two readers, none is without one in the end, and the group is of the kind that
// its members are.
func TestChangeOfProtocol(t *testing.T) {
	for seed := range uint64(1200) {
		if err := runChangers(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestUpgradeOfManyMembers: the records of a large group come in one batch.
func TestUpgradeOfManyMembers(t *testing.T) {
	w := newWorld(defaultConfig())
	w.cfg.ConsumerSizeMax = 1000
	for i := range 500 {
		w.calls[w.call(fmt.Sprint(i), 3, fmt.Sprint("c", i), w.joinRequest(args{&emptyData}))] = ""
	}
	w.pass(1 * ms)
	before := len(w.records)
	if resp := (&peer{w: w, id: "m"}).beat(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} }); resp.ErrorCode != 0 {
		t.Fatal(resp.ErrorCode)
	}
	g := w.machine().groups["g"]
	if g.consumer == nil || g.consumer.Len() != 501 || len(g.clocks) != 501 || len(w.records)-before < 1500 {
		t.Fatalf("%d members, %d clocks, %d records", g.consumer.Len(), len(g.clocks), len(w.records)-before)
	}
	if got := w.machine().timers.heap.Len(); got != 501 {
		t.Fatalf("%d deadlines, want one for each member", got)
	}
}
