package group

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// someTopics are topics by name with so many partitions.
type someTopics map[string]int32

func (ts someTopics) Version() int64 { return int64(len(ts)) }

func (ts someTopics) Topic(name string) (assign.Topic, bool) {
	n, ok := ts[name]
	t := assign.Topic{Partitions: n}
	copy(t.ID[:], name)
	return t, ok
}

func (ts someTopics) Name(id model.TopicID) (string, bool) {
	for name := range ts {
		if t, _ := ts.Topic(name); t.ID == id {
			return name, true
		}
	}
	return "", false
}

func (ts someTopics) Names() iter.Seq[string] { return slices.Values(slices.Sorted(maps.Keys(ts))) }

func consumerWorld(ts someTopics) *world {
	cfg := defaultConfig()
	cfg.Topics = func() consumer.Topics { return ts }
	return newWorld(cfg)
}

// peer is a client of the protocol in which the coordinator assigns.
type peer struct {
	w     *world
	id    string
	epoch int32
	has   map[model.TopicID][]int32
}

// beat sends a heartbeat; change edits it.
func (p *peer) beat(change func(r *kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = p.w.group, p.id, p.epoch
	if p.epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 30_000, []string{"a"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if change != nil {
		change(r)
	}
	resp := p.w.call("beat", 1, "client", r).Response.(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode == 0 {
		p.epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			p.has = map[model.TopicID][]int32{}
			for _, t := range resp.Assignment.Topics {
				p.has[t.TopicID] = t.Partitions
			}
		}
	}
	return resp
}

// owns tells the coordinator what the peer has.
func (p *peer) owns(r *kmsg.ConsumerGroupHeartbeatRequest) {
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for id, ps := range p.has { // order-free: one topic
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: ps})
	}
}

func (p *peer) count() int {
	n := 0
	for _, ps := range p.has { // order-free: a sum
		n += len(ps)
	}
	return n
}

// TestHeartbeatChecks: what is refused before any group is looked at.
func TestHeartbeatChecks(t *testing.T) {
	text := func(s string) *string { return &s }
	w := consumerWorld(someTopics{"a": 2})
	for _, tt := range []struct {
		name   string
		change func(r *kmsg.ConsumerGroupHeartbeatRequest)
		want   Code
	}{
		{"no member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, 42},
		{"empty instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("") }, 42},
		{"empty rack", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = text("") }, 42},
		{"an epoch that means nothing", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }, 42},
		{"static leave without instance", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }, 42},
		{"join without rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, 42},
		{"join with partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{Partitions: []int32{1}}}
		}, 42},
		{"join without the list of partitions", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }, 42},
		{"join without subscription", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, 42},
		{"unknown assignor", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("best") }, 112},
		{"bad pattern", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("(") }, 128},
		{"a group that isn't", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 3 }, 69},
		{"leaving a group that isn't", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }, 69},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &peer{w: w, id: "m"}
			if resp := p.beat(tt.change); resp.ErrorCode != tt.want || resp.ErrorMessage == nil {
				t.Errorf("%d, want %d", resp.ErrorCode, tt.want)
			}
			if len(w.machine().groups) != 0 || len(w.records) != 0 {
				t.Error("something is left of a heartbeat that was refused")
			}
		})
	}
}

// TestPeers: two members share, one dies, the other gets all; a new coordinator
// knows them from the log.
func TestPeers(t *testing.T) {
	w := consumerWorld(someTopics{"a": 4})
	one, two := &peer{w: w, id: "m1"}, &peer{w: w, id: "m2"}
	if resp := one.beat(nil); resp.ErrorCode != 0 || one.count() != 4 || resp.HeartbeatIntervalMillis != 5000 || *resp.MemberID != "m1" {
		t.Fatalf("%+v", resp)
	}
	two.beat(nil)
	one.beat(nil)
	if one.count() != 2 || two.count() != 0 {
		t.Fatalf("%d and %d", one.count(), two.count())
	}
	w.lead() // the coordinator moves
	one.beat(one.owns)
	two.beat(nil)
	if one.count() != 2 || two.count() != 2 || w.machine().groups["g"].consumer.State() != "Stable" {
		t.Fatalf("%d and %d", one.count(), two.count())
	}
	for range 4 {
		w.pass(12_000 * ms)
		two.beat(nil)
	}
	if resp := one.beat(nil); resp.ErrorCode != consumer.CodeUnknownMemberID {
		t.Fatalf("a member that was not heard of: %d", resp.ErrorCode)
	}
	two.beat(nil)
	if two.count() != 4 || w.machine().Stats().Evicted != 1 {
		t.Fatalf("%d", two.count())
	}
	if got := w.machine().timers.heap.Len(); got != 1 {
		t.Fatalf("%d clocks run, want that of the one member", got)
	}
	two.epoch = -1
	two.beat(nil)
	if g := w.machine().groups["g"]; g.consumer.State() != "Empty" || len(g.clocks) != 0 {
		t.Fatalf("%s, %d clocks", g.consumer.State(), len(g.clocks))
	}
}

// TestRevocationTimeout: a member that goes on and on without giving up what it
// has to is out.
func TestRevocationTimeout(t *testing.T) {
	w := consumerWorld(someTopics{"a": 4})
	one, two := &peer{w: w, id: "m1"}, &peer{w: w, id: "m2"}
	one.beat(nil)
	two.beat(nil)
	for range 3 {
		if resp := one.beat(nil); resp.ErrorCode != 0 {
			t.Fatal(resp.ErrorCode)
		}
		two.beat(nil)
		w.pass(9_000 * ms)
	}
	w.pass(4_000 * ms)
	if resp := one.beat(nil); resp.ErrorCode != consumer.CodeUnknownMemberID {
		t.Fatal(resp.ErrorCode)
	}
	if two.beat(nil); two.count() != 4 {
		t.Fatal(two.count())
	}
}

// TestPeerCommits: commits of members are checked by their epoch; an older client
// can't be told, and one that is no member may commit only to an empty group.
func TestPeerCommits(t *testing.T) {
	w := consumerWorld(someTopics{"a": 1})
	one := &peer{w: w, id: "m1"}
	one.beat(nil)
	commit := func(version int16, member string, epoch int32) Code {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.MemberID, r.Generation = "g", member, epoch
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = 7
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		return w.call("commit", version, "client", r).Response.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	for _, tt := range []struct {
		version int16
		member  string
		epoch   int32
		want    Code
	}{
		{9, "m1", 1, 0}, {9, "m1", 0, 113}, {9, "m1", 2, 113}, {9, "m2", 1, 25}, {8, "m1", 1, 35}, {8, "m1", 5, 35}, {8, "m2", 1, 25}, {9, "", -1, 25},
	} {
		if got := commit(tt.version, tt.member, tt.epoch); got != tt.want {
			t.Errorf("version %d, member %q, epoch %d: %d, want %d", tt.version, tt.member, tt.epoch, got, tt.want)
		}
	}
	fetch := func(member string, epoch int32) Code {
		return w.call("fetch", 9, "client", &FetchOffsets{Member: member, Epoch: epoch, All: true}).Code
	}
	if a, b, c := fetch("", -1), fetch("m1", 1), fetch("m1", 3); a != 0 || b != 0 || c != 113 {
		t.Errorf("fetches: %d %d %d", a, b, c)
	}
	one.epoch = -1
	one.beat(nil)
	if got := commit(8, "", -1); got != 0 {
		t.Errorf("an empty group: %d", got)
	}
}

// TestKinds: a group without members may become one of the other kind; one with
// members may not.
func TestKinds(t *testing.T) {
	w := consumerWorld(someTopics{"a": 1})
	one := &peer{w: w, id: "m1"}
	one.beat(nil)
	join := func() *kmsg.JoinGroupResponse {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = "g", "consumer", 10_000, 10_000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("x")}}
		resp, _ := w.call("join", 3, "client", r).Response.(*kmsg.JoinGroupResponse)
		return resp
	}
	if resp := join(); resp.ErrorCode != 23 {
		t.Fatalf("a classic member of a consumer group: %d", resp.ErrorCode)
	}
	if resp := w.call("describe", 6, "", &Describe{}).Response.(*kmsg.DescribeGroupsResponseGroup); resp.ErrorCode != 69 || resp.State != "Dead" {
		t.Fatalf("%+v", resp)
	}
	list := func() string {
		return fmt.Sprint(w.answer(w.call("list", 5, "", &List{})))
	}
	if got := list(); got != `ok [g "consumer" Stable consumer]` {
		t.Fatal(got)
	}
	dc := w.call("describe", 1, "", &DescribeConsumer{}).Response.(*kmsg.ConsumerGroupDescribeResponseGroup)
	if dc.State != "Stable" || dc.AssignorName != "uniform" || len(dc.Members) != 1 || dc.Members[0].Assignment.TopicPartitions[0].Topic != "a" || dc.Epoch != 1 {
		t.Fatalf("%+v", dc)
	}
	if c := w.call("delete", 2, "", &Delete{}); c.Code != codeNonEmptyGroup {
		t.Fatal(c.Code)
	}
	one.epoch = -1
	one.beat(nil)
	join()
	w.pass(1 * ms)
	if got := list(); got != `ok [g "consumer" CompletingRebalance classic]` {
		t.Fatal(got)
	}
	if resp := (&peer{w: w, id: "m2"}).beat(nil); resp.ErrorCode != 69 {
		t.Fatalf("a peer in a classic group: %d", resp.ErrorCode)
	}
	w.pass(100_000 * ms) // it dies
	two := &peer{w: w, id: "m3"}
	if resp := two.beat(nil); resp.ErrorCode != 0 {
		t.Fatal(resp.ErrorCode)
	}
	w.lead()
	if got := list(); got != `ok [g "consumer" Stable consumer]` {
		t.Fatal(got)
	}
	two.epoch = -1
	two.beat(nil)
	if c := w.call("delete", 2, "", &Delete{}); c.Code != 0 || w.machine().groups["g"] != nil {
		t.Fatal(c.Code)
	}
	w.lead()
	if w.machine().groups["g"] != nil {
		t.Fatal("a deleted group is back")
	}
}

// TestPeersByChance: coordinators move, appends fail or hang, and still no two
// members that are alive have one partition.
func TestPeersByChance(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := consumerWorld(someTopics{"a": 6})
		peers := []*peer{{w: w, id: "m1"}, {w: w, id: "m2"}, {w: w, id: "m3"}}
		for range 200 {
			switch p := peers[r.IntN(3)]; r.IntN(12) {
			case 0:
				w.lead()
			case 1:
				w.refuse = []Code{0, 19}[r.IntN(2)]
			case 2:
				if p.epoch != 0 {
					p.epoch = -1
					p.beat(nil)
				}
				p.epoch, p.has = 0, nil
			default:
				change := p.owns
				if p.epoch == 0 {
					change = nil
				}
				switch resp := p.beat(change); resp.ErrorCode {
				case 0, 15, 14, 16:
				case consumer.CodeUnknownMemberID, consumer.CodeFencedMemberEpoch, codeGroupIDNotFound:
					p.epoch, p.has = 0, nil
				default:
					t.Fatalf("seed %d: %d", seed, resp.ErrorCode)
				}
			}
			taken := map[string]string{}
			for _, p := range peers {
				for id, ps := range p.has { // order-free: all are looked at
					for _, n := range ps {
						k := fmt.Sprint(id, n)
						if other, ok := taken[k]; ok {
							t.Fatalf("seed %d: %s has %d, and so has %s", seed, p.id, n, other)
						}
						taken[k] = p.id
					}
				}
			}
		}
	}
}
