package quorum

import (
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
)

// fill leaves n room bytes on the disk of a node.
func (n *simNode) fill(t testing.TB, room int64) {
	free, total, err := n.disk.Free("data")
	must(t, err)
	n.c.note("%d has %d bytes of room", n.id, room)
	n.disk.SetCapacity(total - free + room)
}

// empty takes the bound away.
func (n *simNode) empty() {
	n.c.note("%d has room", n.id)
	n.disk.SetCapacity(0)
}

// commit has a registration committed by whoever leads, and returns where.
func (c *cluster) commit() model.Offset {
	c.t.Helper()
	for range 20 {
		l := c.leader()
		if l == nil {
			c.until(5_000*ms, func() bool { return c.leader() != nil })
			continue
		}
		if o := c.register(l); c.until(2_000*ms, func() bool { return o.calls > 0 }) && o.err == nil {
			return o.at.Offset
		}
	}
	c.t.Fatal("nothing can be committed")
	return 0
}

func (n *simNode) aside() bool { return n.up && n.node.phase == phaseAside }

// TestFullDiskOfAMember: a voter whose disk is full stays up, says nothing in the
// quorum, follows what the others commit, and is a voter again when there is room.
func TestFullDiskOfAMember(t *testing.T) {
	for room := int64(0); room < 700; room += 61 {
		c := seeded(t, uint64(room), 3)
		c.startAll()
		var follower *simNode
		for _, n := range c.all {
			if n != c.leader() {
				follower = n
			}
		}
		for _, full := range []*simNode{follower, c.leader()} {
			life := full.life
			full.fill(t, room)
			for range 10 {
				c.commit()
			}
			at := c.commit()
			if !full.aside() || full.failed != nil || full.node.Describe().Active {
				t.Fatalf("room for %d bytes: phase %d, failed %v", room, full.node.phase, full.failed)
			}
			if !c.until(2_000*ms, func() bool { return full.image().At().Offset >= at }) {
				t.Fatalf("room for %d bytes: it stays at %s, committed is %d", room, full.image().At(), at)
			}
			if d := full.node.Describe(); d.Leader != c.leader().id {
				t.Errorf("it takes %d for the leader, which is %d", d.Leader, c.leader().id)
			}
			full.empty()
			if !c.until(3_000*ms, func() bool { return full.node.phase == phaseMember && full.image().At().Offset >= at }) || full.life != life {
				t.Fatalf("room for %d bytes: not a voter again: phase %d", room, full.node.phase)
			}
			// Its vote counts: without one of the others it makes the majority.
			for _, n := range c.all {
				if n != full {
					n.crash(false)
					c.commit()
					n.start()
					c.until(10_000*ms, func() bool { return n.started })
					break
				}
			}
		}
		c.settle()
		c.check()
	}
}

// TestStartOnAFullDisk: a voter that starts on a full disk follows until there is
// room, and shows nothing older than what was committed when it began.
func TestStartOnAFullDisk(t *testing.T) {
	for seed := range uint64(12) {
		c := seeded(t, seed, 3)
		rng := rand.New(rand.NewPCG(seed, 3))
		c.startAll()
		full := c.all[rng.IntN(3)]
		full.adjust = tinyLog
		c.commit()
		full.crash(seed%2 == 0)
		full.fill(t, rng.Int64N(300))
		at := c.commit()
		full.start()
		if !c.until(20_000*ms, func() bool { return full.started }) || full.failed != nil {
			t.Fatalf("seed %d: started %v, failed %v", seed, full.started, full.failed)
		}
		for range 10 {
			at = c.commit()
		}
		if !c.until(2_000*ms, func() bool { return full.image().At().Offset >= at }) || !full.aside() {
			t.Fatalf("seed %d: at %s of %d, phase %d, failed %v", seed, full.image().At(), at, full.node.phase, full.failed)
		}
		full.empty()
		c.settle()
		c.check()
	}
}

// TestAllDisksFull: voters whose disks are all full refuse changes, keep what they
// show, and go on by themselves.
func TestAllDisksFull(t *testing.T) {
	c := seeded(t, 5, 3)
	c.startAll()
	at := c.commit()
	for _, n := range c.all {
		n.fill(t, 100)
	}
	for c.leader() != nil { // what little room there is is soon used up
		o := c.register(c.leader())
		if c.run(3_000 * ms); o.calls != 1 {
			t.Fatalf("%d answers, %v", o.calls, o.err)
		}
	}
	aside := 0
	for _, n := range c.all {
		if n.failed != nil || n.image().At().Offset < at {
			t.Fatalf("node %d failed: %v, shows %s", n.id, n.failed, n.image().At())
		}
		if n.aside() {
			aside++
		}
	}
	if aside < 2 || c.leader() != nil {
		t.Fatalf("%d stand aside, leader %v", aside, c.leader())
	}
	for _, n := range c.all {
		n.empty()
	}
	c.settle()
	c.check()
}

// TestObserverOnAFullDisk: a broker without a vote follows on, and a later life
// shows nothing older than an earlier one did.
func TestObserverOnAFullDisk(t *testing.T) {
	c := seeded(t, 6, 3)
	o := c.addObserver(10)
	o.adjust = func(o *Config) { o.SnapshotBytes = 500 }
	c.startAll()
	o.fill(t, 50)
	for range 30 {
		c.commit()
	}
	at := c.commit()
	if !c.until(2_000*ms, func() bool { return o.image().At().Offset >= at }) || o.failed != nil {
		t.Fatalf("at %s of %d: %v", o.image().At(), at, o.failed)
	}
	o.crash(false)
	o.start()
	if !c.until(5_000*ms, func() bool { return o.started }) {
		t.Fatalf("no start on the full disk: %v", o.failed)
	}
	o.empty()
	c.settle()
	c.check()
}

// TestVoteOnAFullDisk: a vote that could not be stored is not given, and what was
// stored of it is not forgotten when there is room.
func TestVoteOnAFullDisk(t *testing.T) {
	n, p, other := twoVoters(t)
	disk := n.config.FS.(*memfs.FS)
	free, total, err := disk.Free("data")
	must(t, err)
	disk.SetCapacity(total - free + 1)
	n.Receive(voteRequest(n.Node, other, 7))
	n.rt.run()
	if n.phase != phaseAside || len(p.sent) != 0 || len(n.failures) != 0 {
		t.Fatalf("phase %d, sent %v, failures %v", n.phase, p.sent, n.failures)
	}
	if o := n.do(createRequest("t", 1)); o.resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != codeNotController {
		t.Errorf("a command was answered %+v", o)
	}
	disk.SetCapacity(0)
	n.rt.advance(2 * roomAgain)
	if n.phase != phaseMember {
		t.Fatalf("phase %d", n.phase)
	}
	n.Receive(voteRequest(n.Node, other, 8))
	n.rt.run()
	if h, err := readHardState(disk, n.dir); err != nil || h.Term != 8 || h.Vote != other {
		t.Errorf("stored %+v, %v", h, err)
	}
}

// voteRequest asks n for its vote as another member would.
func voteRequest(n *Node, from uint64, term uint64) *raftpb.Message {
	return &raftpb.Message{
		Type: raftpb.MsgVote.Enum(), From: new(from), To: new(n.raftID()), Term: new(term), LogTerm: new(uint64(5)), Index: new(uint64(100)),
	}
}
