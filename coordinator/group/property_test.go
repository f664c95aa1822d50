package group

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
)

const propertyPartitions = 6

// reader is a client as the protocol wants it, but for what chance has it do.
type reader struct {
	name       string
	instance   *string
	version    int16
	id         string
	generation int32
	members    []string // what the leader is to assign to
	state      readerState
	turn       int  // numbers its requests: answers to older ones are not read
	waiting    bool // for the answer to the present one
}

type readerState int

const (
	away readerState = iota // not a member, as far as it knows
	joining
	joined
	syncing
	settled
)

// fleet is consumers of one group, the world they are in, and a model of what
// may be seen.
type fleet struct {
	w       *world
	rng     *rand.Rand
	all     []*reader
	pending map[*coordinator.Call]func(c *coordinator.Call)
	// asked is since when a call waits.
	asked map[*coordinator.Call]model.Instant
	// rebalance is the members' rebalance timeout.
	rebalance model.Instant
	// owners is who was given a partition in a generation: a member's instance,
	// or its id.
	owners map[string]string
	// newest is the greatest generation that a join was answered with in this
	// reign.
	newest int32
	reign  uint64 // the loading that newest belongs to
	err    error
}

func newFleet(seed uint64) *fleet {
	cfg := defaultConfig()
	rng := rand.New(rand.NewPCG(seed, 77))
	cfg.InitialDelay = model.Instant(rng.IntN(3)) * 1_000 * ms
	cfg.SizeMax = 3 + rng.IntN(20)
	f := &fleet{
		w: newWorld(cfg), rng: rng, pending: make(map[*coordinator.Call]func(*coordinator.Call)),
		asked: make(map[*coordinator.Call]model.Instant), owners: make(map[string]string), rebalance: someRebalance(rng),
	}
	f.w.seed = seed << 20
	for i := range 2 + rng.IntN(5) {
		c := &reader{name: fmt.Sprint("c", i), version: []int16{3, 4, 5, 8, 9}[rng.IntN(5)]}
		if rng.IntN(3) == 0 && c.version >= 5 {
			c.instance = &c.name
		}
		f.all = append(f.all, c)
	}
	return f
}

// someRebalance is a rebalance timeout, in whose time a member that hangs is
// given up by its session, or in which it is not: consumers' own default is minutes.
func someRebalance(rng *rand.Rand) model.Instant {
	return []model.Instant{15_000 * ms, 300_000 * ms}[rng.IntN(2)]
}

func (f *fleet) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// send hands in a request; done is called with its answer.
func (f *fleet) send(version int16, client string, request any, done func(*coordinator.Call)) {
	c := &coordinator.Call{Key: "g", Version: version, ClientID: client, ClientHost: "/h", Request: request}
	f.pending[c] = done
	f.asked[c] = f.w.now.Mono
	f.w.rt.Call(f.w.now, c, &f.w.out)
	f.settle()
}

// settle carries out what the runtime wants and delivers the answers.
func (f *fleet) settle() {
	for {
		answers := append([]*coordinator.Call(nil), f.w.out.Answers...)
		f.w.out.Answers = f.w.out.Answers[:0]
		for _, c := range answers {
			if _, waits := f.asked[c]; !waits {
				f.fail("an answer that nobody waits for")
				continue
			}
			delete(f.asked, c)
			done := f.pending[c]
			delete(f.pending, c)
			if done != nil {
				done(c)
			}
		}
		if !f.w.stepOnce() && len(f.w.out.Answers) == 0 {
			return
		}
	}
}

// stepOnce does one thing that the runtime wants, and reports whether there was.
func (w *world) stepOnce() bool {
	wr, load := w.out.Append, w.out.Load
	w.out.Append, w.out.Load = nil, false
	switch {
	case load:
		w.load()
	case wr != nil && w.refuse != 0:
		w.rt.Done(w.now, wr, w.refuse, &w.out)
	case wr != nil:
		base := model.Offset(len(w.records))
		w.records = append(w.records, wr.Records...)
		w.open = append(w.open, wr)
		w.rt.Appended(w.now, wr, base, &w.out)
	case !w.held && len(w.open) > 0:
		w.high = model.Offset(len(w.records))
		w.rt.Committed(w.now, w.high, &w.out)
		open := w.open
		w.open = nil
		for _, o := range open {
			w.rt.Done(w.now, o, 0, &w.out)
		}
	default:
		return false
	}
	return true
}

// noteReign forgets what an earlier machine has said: generations that never got
// an assignment are not in the log.
func (f *fleet) noteReign() {
	if f.reign != f.w.rt.Load() {
		f.reign, f.newest = f.w.rt.Load(), 0
	}
}

// begin numbers a request that it waits for.
func (c *reader) begin() int {
	c.turn++
	c.waiting = true
	return c.turn
}

func (c *reader) crash() {
	c.turn++
	c.id, c.state, c.waiting = "", away, false
}

func (f *fleet) join(c *reader) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.MemberID, req.InstanceID = c.id, c.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, int32(f.rebalance/ms), consumerType
	p := kmsg.NewJoinGroupRequestProtocol()
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = []string{"t"}
	p.Name, p.Metadata = "range", m.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	c.state, c.generation = joining, -1
	turn := c.begin()
	f.send(c.version, c.name, req, func(call *coordinator.Call) {
		resp, ok := call.Response.(*kmsg.JoinGroupResponse)
		if c.turn != turn {
			return
		}
		c.waiting = false
		if !ok {
			c.state = away
			return
		}
		f.joined(c, resp)
	})
}

func (f *fleet) joined(c *reader, resp *kmsg.JoinGroupResponse) {
	c.state = away
	switch resp.ErrorCode {
	case codeNone:
		c.id, c.generation, c.state = resp.MemberID, resp.Generation, joined
		f.noteReign()
		f.newest = max(f.newest, resp.Generation)
		c.members = nil
		if resp.LeaderID == c.id && !resp.SkipAssignment {
			for _, m := range resp.Members {
				who := m.MemberID
				c.members = append(c.members, who)
			}
		}
	case codeMemberIDRequired:
		c.id = resp.MemberID
	case codeUnknownMemberID, codeFencedInstanceID, codeGroupMaxSizeReached:
		c.id = ""
	}
}

func (f *fleet) sync(c *reader) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	// An assignor need not come to the same result twice.
	first := f.rng.IntN(max(len(c.members), 1))
	for i, who := range c.members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = who
		for p := (first + i) % len(c.members); p < propertyPartitions; p += len(c.members) {
			a.MemberAssignment = append(a.MemberAssignment, byte(p))
		}
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	c.state = syncing
	turn := c.begin()
	f.send(5, c.name, req, func(call *coordinator.Call) {
		if c.turn != turn {
			return
		}
		c.waiting = false
		resp, ok := call.Response.(*kmsg.SyncGroupResponse)
		if !ok {
			c.state = away
			c.forget(call.Code)
			return
		}
		c.state = settled
		f.own(c, resp.MemberAssignment)
	})
}

// own notes what a member was given: nobody else has it in this generation.
func (f *fleet) own(c *reader, parts []byte) {
	who := c.id
	if c.instance != nil {
		who = *c.instance
	}
	for _, p := range parts {
		key := fmt.Sprintf("%d/%d", c.generation, p)
		if old, ok := f.owners[key]; ok && old != who {
			f.fail("partition %d of generation %d belongs to %s and to %s", p, c.generation, old, who)
		}
		f.owners[key] = who
	}
}

func (c *reader) forget(code Code) {
	switch code {
	case codeUnknownMemberID, codeFencedInstanceID:
		c.id, c.state = "", away
	case codeIllegalGeneration, codeRebalanceInProgress:
		c.state = away
	}
}

func (f *fleet) heartbeat(c *reader) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, c.generation, c.instance
	f.send(4, c.name, req, func(call *coordinator.Call) {
		if call.Response == nil {
			c.forget(call.Code)
		}
	})
}

func (f *fleet) commit(c *reader) {
	generation := c.generation
	if generation > 0 && f.rng.IntN(4) == 0 {
		generation-- // a zombie
	}
	f.noteReign()
	reign, newest := f.reign, f.newest
	req := kmsg.NewPtrOffsetCommitRequest()
	req.MemberID, req.Generation, req.InstanceID = c.id, generation, c.instance
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = int32(f.rng.IntN(propertyPartitions)), f.rng.Int64N(1000)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	f.send(8, c.name, req, func(call *coordinator.Call) {
		resp, ok := call.Response.(*kmsg.OffsetCommitResponse)
		if !ok {
			return
		}
		code := resp.Topics[0].Partitions[0].ErrorCode
		if code != codeNone {
			return
		}
		if f.w.rt.Load() == reign && generation >= 0 && generation < newest {
			f.fail("a commit of generation %d was taken when %d had begun", generation, newest)
		}
		if f.scan(f.w.high)[rp.Partition] < 0 {
			f.fail("an acknowledged commit is not in the log")
		}
	})
}

// scan is what the log below an offset says of each partition.
func (f *fleet) scan(to model.Offset) map[int32]int64 {
	at := make(map[int32]int64)
	for p := range int32(propertyPartitions) {
		at[p] = -1
	}
	for _, r := range f.w.records[:to] {
		p, err := parse(r)
		if err != nil || !p.isOffset {
			continue
		}
		at[p.partition] = -1
		if p.offset != nil {
			at[p.partition] = p.offset.offset
		}
	}
	return at
}

// check compares what is shown with what is committed, and counts.
func (f *fleet) check() {
	if m := f.w.machine(); m != nil {
		want := m.stats
		want.Groups, want.Offsets = [Dead]int64{}, 0
		for _, g := range m.groups {
			want.Groups[g.classic.state]++
			for _, parts := range g.offsets {
				want.Offsets += int64(len(parts))
			}
		}
		if m.stats != want {
			f.fail("counted %+v, there are %+v", m.stats, want)
		}
	}
	req := &FetchOffsets{Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t"}}}
	for p := range int32(propertyPartitions) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	high := f.w.high
	f.send(8, "", req, func(call *coordinator.Call) {
		resp, ok := call.Response.(*kmsg.OffsetFetchResponseGroup)
		if !ok || f.w.high != high {
			return
		}
		want := f.scan(high)
		for _, p := range resp.Topics[0].Partitions {
			if p.Offset != want[p.Partition] {
				f.fail("partition %d is shown at %d, committed is %d", p.Partition, p.Offset, want[p.Partition])
			}
		}
	})
}

// move gives the partition to another broker, which may lack what was not
// committed.
func (f *fleet) move() {
	f.w.rt.Unlead(&f.w.out)
	f.settle()
	if len(f.asked) > 0 {
		f.fail("%d requests are without an answer after the reign", len(f.asked))
	}
	f.w.open = nil
	if f.rng.IntN(2) == 0 {
		f.w.records = f.w.records[:f.w.high]
	}
	f.w.high = model.Offset(len(f.w.records))
	f.w.rt.Lead(f.w.rt.Epoch()+1, &f.w.out)
	f.settle()
}

// step does something.
func (f *fleet) step() {
	c := f.all[f.rng.IntN(len(f.all))]
	switch n := f.rng.IntN(100); {
	case n < 45:
		f.proceed(c)
	case n < 60:
		f.pass(model.Instant(f.rng.Int64N(4_000)) * ms)
	case n < 64: // a crash: it comes back without knowing who it was
		c.crash()
	case n < 67 && c.id != "" && c.instance == nil:
		req := kmsg.NewPtrLeaveGroupRequest()
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = c.id
		req.Members = append(req.Members, m)
		f.send(4, c.name, req, nil)
		c.crash()
	case n < 70:
		f.w.held = !f.w.held
	case n < 72:
		f.w.refuse = []Code{0, 0, 19, 56}[f.rng.IntN(4)]
	case n < 74 && len(f.w.open) > 0: // the oldest waited too long
		wr := f.w.open[0]
		f.w.open = f.w.open[1:]
		f.w.rt.Done(f.w.now, wr, 7, &f.w.out)
	case n < 75:
		f.move()
	case n < 76:
		f.w.records = append(f.w.records, coordinator.Record{Key: []byte{0, 99}})
		if len(f.w.open) == 0 {
			f.w.high = model.Offset(len(f.w.records))
			f.w.rt.Committed(f.w.now, f.w.high, &f.w.out)
		}
	case n < 90 && c.id != "":
		f.commit(c)
	default:
		f.check()
	}
	f.settle()
}

// proceed does what a consumer does next.
func (f *fleet) proceed(c *reader) {
	switch {
	case c.waiting && c.state == syncing && f.rng.IntN(4) == 0:
		f.sync(c) // it lost its connection, and asks again
	case c.waiting:
	case c.state == away:
		f.join(c)
	case c.state == joined, c.state == settled && f.rng.IntN(4) == 0:
		f.sync(c) // who has its assignment is told the same, whoever is asked
	case c.state == settled:
		f.heartbeat(c)
	}
}

// pass lets time go by.
func (f *fleet) pass(d model.Instant) {
	until := f.w.now.Mono + d
	for at := f.w.rt.NextDeadline(); at <= until && f.err == nil; at = f.w.rt.NextDeadline() {
		at = max(at, f.w.now.Mono)
		f.w.now.Wall += model.Timestamp((at - f.w.now.Mono) / ms)
		f.w.now.Mono = at
		f.w.rt.Tick(f.w.now, &f.w.out)
		f.settle()
	}
	f.w.now.Wall += model.Timestamp((until - f.w.now.Mono) / ms)
	f.w.now.Mono = until
	f.prompt()
}

// prompt: nobody waits for longer than a phase of a rebalance may last, and the
// write at its end.
func (f *fleet) prompt() {
	if f.w.held {
		return // who waits for a write waits for its end, which is to come
	}
	for c, since := range f.asked { // order-free: any will do
		if waits := f.w.now.Mono - since; waits > f.rebalance+f.w.cfg.InitialDelay+f.w.cfg.CommitTimeout+5_000*ms {
			f.fail("a %T has waited for %d ms", c.Request, waits/ms)
		}
	}
}

// calm heals everything and lets the consumers go on: they end in one
// generation, which gives every partition to somebody.
func (f *fleet) calm() {
	f.heal()
	for range 120 {
		for _, c := range f.all {
			f.proceed(c)
		}
		f.pass(500 * ms)
		if f.err != nil || f.calmed() {
			return
		}
	}
	f.fail("the group is %s after 60 quiet seconds", strings.TrimSpace(f.w.state()))
}

// heal ends all faults: what is in the log is committed.
func (f *fleet) heal() {
	f.w.held, f.w.refuse = false, 0
	f.settle()
	if end := model.Offset(len(f.w.records)); f.w.high < end {
		f.w.high = end
		f.w.rt.Committed(f.w.now, end, &f.w.out)
		f.settle()
	}
}

func (f *fleet) calmed() bool {
	g := f.w.machine().groups["g"]
	if g == nil || g.classic.state != Stable {
		return false
	}
	for _, c := range f.all {
		if (c.state != settled || c.generation != g.classic.generation) && len(g.classic.members) < f.w.cfg.SizeMax {
			return false
		}
	}
	seen := make(map[byte]bool)
	for _, m := range g.classic.members {
		for _, p := range m.assignment {
			if seen[p] {
				f.fail("partition %d has two owners in the end", p)
			}
			seen[p] = true
		}
	}
	return len(seen) == propertyPartitions
}

// runProperty is one random life of a group.
func runProperty(seed uint64, steps int) error {
	f := newFleet(seed)
	for range steps {
		if f.step(); f.err != nil {
			return f.err
		}
	}
	f.calm()
	if f.err == nil {
		f.move()
	}
	return f.err
}

// TestRandomLives holds invariant 11 against a simple model, with joins, leaves,
// crashes, silence, commits of zombies, failed and lost writes, and coordinators
// that move.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(400) {
		if err := runProperty(seed, 400); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
