package host

import (
	"maps"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// TestFollowing replicates from one broker to the other, both ways: what is
// acknowledged by all is on both, byte for byte, and a change of the leader turns
// the direction round.
func TestFollowing(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	a := p.produce(1, 3)
	a.want(t, 0, 0)
	p.wait(600)
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != 3 || s.HighWatermark != 3 {
		t.Fatalf("the follower has %+v", s.Mark)
	}
	p.produce(1, 2).want(t, 0, 3)
	p.elect(2, 1, 2)
	p.wait(2000)
	p.produce(2, 4).want(t, 0, 5)
	p.wait(600)
	p.same()
	if s := p.hosted(1).State(); s.Role != partition.Follower || s.LogEnd != 9 || s.HighWatermark != 9 || s.EpochFor(5) != 1 {
		t.Errorf("the former leader has %+v", s.Mark)
	}
	stats := p.nodes[0].m.FollowStats()
	if stats.Partitions != 1 || stats.Lagging != 0 || stats.Bytes == 0 || stats.Requests == 0 || stats.Truncations != 0 {
		t.Errorf("%+v", stats)
	}
	// Nobody is followed by a leader: its link is given up.
	if w := p.wires[1]; w.opened != 1 || w.closed != 1 {
		t.Errorf("%d links opened, %d closed", w.opened, w.closed)
	}
}

// TestFollowerTruncates: what only the deposed leader had goes, also at the next
// start; the recovery point was lowered before.
func TestFollowerTruncates(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3).want(t, 0, 0)
	p.wires[1].cut = true
	p.settle()
	p.nodes[0].send(p.hosted(1), 1, batchOf(5, -1, 0)).want(t, 0, 3)
	p.nodes[0].rt.advance(200_000) // flushed, and the recovery point written
	p.nodes[0].flushAll()
	p.nodes[0].rt.advance(200_000)
	if s := p.hosted(1).State(); s.RecoveryPoint != 8 {
		t.Fatalf("recovery point %d, want 8", s.RecoveryPoint)
	}
	p.wires[1].cut = false
	p.elect(2, 2)
	p.nodes[1].send(p.hosted(2), 1, batchOf(2, -1, 0)).want(t, 0, 3)
	p.wires[0].run()
	p.nodes[0].rt.idle()
	// The cut waits for the disk, outside the loop; reads go on as before.
	if s := p.hosted(1).State(); s.LogEnd != 8 || s.RecoveryPoint != 3 || values(t, s) != 8 {
		t.Fatalf("while the cut runs: %+v, recovery point %d", s.Mark, s.RecoveryPoint)
	}
	p.nodes[0].m.checkpointLogs(p.nodes[0].dirs.All()[0])
	p.wait(2000)
	p.same()
	if s := p.hosted(1).State(); s.LogEnd != 5 || s.EpochFor(3) != 1 || s.EpochFor(2) != 0 {
		t.Errorf("%+v", s.Mark)
	}
	n := p.nodes[0]
	points, err := checkpoint.ReadOffsets(n.fs, "/data/"+checkpoint.RecoveryPointFile)
	if err != nil || points[model.TopicPartition{Topic: "t"}] > 3 {
		t.Errorf("recovery points %v, %v", points, err)
	}
	if got := n.m.FollowStats(); got.Truncations != 1 || got.BelowHighWatermark != 0 {
		t.Errorf("%+v", got)
	}
	n.power()
	n.start()
	if s := p.hosted(1).State(); s.LogEnd < 3 || s.LogEnd > 5 {
		t.Errorf("after a power failure: %+v", s.Mark)
	}
}

// TestFollowerCatchesUpFromLater: the leader begins behind the follower's end.
func TestFollowerCatchesUpFromLater(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3)
	p.wires[1].cut = true
	p.settle()
	p.elect(1, 1)
	for range 4 {
		p.nodes[0].send(p.hosted(1), -1, batchOf(5, -1, 0))
	}
	w := &answers{}
	p.hosted(1).DeleteRecords(10, model.Never, w, 0) // inside a batch
	p.settle()
	p.wires[1].cut = false
	p.wait(3000)
	s := p.hosted(2).State()
	if s.LogStart != 10 || s.LogEnd != 23 || s.HighWatermark != 23 || p.wires[1].lists != 2 {
		t.Errorf("the follower has %+v after %d looks for bounds", s.Mark, p.wires[1].lists)
	}
	if len(w.deleted) != 1 || w.deleted[0] != "0 10" {
		t.Errorf("deletion was answered %v", w.deleted)
	}
}

// TestRefillOnAFullDisk: a follower that must begin anew inside its leader's first
// batch, and has no room for that, does not begin below the leader's log start.
func TestRefillOnAFullDisk(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.wires[1].cut = true
	p.settle()
	p.elect(1, 1)
	for range 2 {
		p.nodes[0].send(p.hosted(1), -1, batchOf(200, -1, 0))
	}
	p.hosted(1).DeleteRecords(10, model.Never, &answers{}, 0) // inside a batch
	p.settle()
	n := p.nodes[1]
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable + 2000)
	p.wires[1].cut = false
	for range 8 {
		p.wait(500)
		if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogStart != s.LogEnd || s.LogStart != 0 && s.LogStart != 10 {
			t.Fatalf("on the full disk: %+v", s.Mark)
		}
	}
	if s := p.hosted(2).State(); s.LogStart != 10 {
		t.Errorf("on the full disk: %+v, want to have followed to the leader's log start", s.Mark)
	}
	n.disk.SetCapacity(0)
	p.wait(5000)
	if s := p.hosted(2).State(); s.LogStart != 10 || s.LogEnd != 400 {
		t.Errorf("once there is room: %+v", s.Mark)
	}
}

// TestFollowerFlushes: with flush.messages=1 the follower's fetch waits for its
// fsync, so an acknowledgement means two disks; other partitions go on.
func TestFollowerFlushes(t *testing.T) {
	p := newPair(t, 1, map[string]string{"flush.messages": "1"})
	p.settle()
	a := p.nodes[0].send(p.hosted(1), -1, batchOf(1, -1, 0))
	deliver := func() {
		for range 5 {
			p.nodes[0].rt.idle()
			p.wires[1].run()
		}
		p.nodes[0].rt.advance(510)
	}
	deliver()
	p.nodes[0].flushAll()
	deliver()
	if s := p.hosted(2).State(); s.LogEnd != 1 || s.Durable != 0 {
		t.Fatalf("%+v durable %d", s.Mark, s.Durable)
	}
	if len(a.produced) != 0 {
		t.Fatal("acknowledged before the follower's fsync")
	}
	p.nodes[1].flushAll()
	deliver()
	a.want(t, 0, 0)
	if s := p.hosted(2).State(); s.Durable != 1 {
		t.Errorf("acknowledged, and the follower's durable end is %d", s.Durable)
	}
}

// TestDamagedAnswers: what is damaged on its way is fetched again, over another
// connection.
func TestDamagedAnswers(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.wires[1].damage = 1
	a := p.produce(1, 3)
	if len(a.produced) != 0 {
		t.Fatal("acknowledged though what was fetched was damaged")
	}
	p.wait(100)
	a.want(t, 0, 0)
	p.wait(600)
	p.same()
	if w := p.wires[1]; w.opened != 2 || w.closed != 1 {
		t.Errorf("%d links opened, %d closed", w.opened, w.closed)
	}
	if s := p.nodes[1].m.FollowStats(); s.Corrupt != 1 {
		t.Errorf("%+v", s)
	}
}

// TestManyPartitionsManyFetchers spreads partitions over fetchers and follows
// them all through a cut wire and the end of a topic.
func TestManyPartitionsManyFetchers(t *testing.T) {
	const parts = 40
	p := newPair(t, parts, nil, func(b *config.Broker) { b.Replication.Fetchers = 3 })
	p.settle()
	if p.wires[1].opened != 3 {
		t.Errorf("%d links, want 3", p.wires[1].opened)
	}
	var all []*answers
	send := func() {
		for n := range parts {
			h := p.nodes[0].m.Get("t", int32(n))
			all = append(all, p.nodes[0].send(h, -1, batchOf(1+n%3, -1, 0)))
		}
	}
	send()
	p.settle()
	p.wires[1].cut = true
	p.settle()
	send()
	p.wait(300)
	p.wires[1].cut = false
	p.wait(3000)
	for i, a := range all {
		if len(a.produced) != 1 || a.produced[0].Code != 0 {
			t.Fatalf("produce %d: %+v", i, a.produced)
		}
	}
	if s := p.nodes[1].m.FollowStats(); s.Partitions != parts || s.Lagging != 0 || s.Failures == 0 {
		t.Errorf("%+v", s)
	}
	p.apply(&metadata.RemoveTopic{ID: topicID("t")})
	p.wait(1000)
	if w := p.wires[1]; w.opened-w.closed != 0 || p.nodes[1].m.FollowStats().Partitions != 0 {
		t.Errorf("%d links left, %+v", w.opened-w.closed, p.nodes[1].m.FollowStats())
	}
}

// TestStopDuringACut: a cut that has not begun isn't waited for.
func TestStopDuringACut(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3).want(t, 0, 0)
	p.wires[1].cut = true
	p.settle()
	p.nodes[0].send(p.hosted(1), 1, batchOf(5, -1, 0)).want(t, 0, 3)
	p.elect(2, 2)
	p.nodes[0].rt.idle()
	p.wires[0].run()
	p.nodes[0].rt.idle()
	n := p.nodes[0]
	if p.hosted(1).cut == nil {
		t.Fatal("no cut is under way")
	}
	waiting := n.send(p.hosted(1), 1, batchOf(1, -1, 0))
	if len(waiting.produced) != 0 {
		t.Fatal("a message overtook the cut")
	}
	n.stop()
	waiting.want(t, partition.CodeNotLeaderOrFollower, -1)
	n.start()
	if s := p.hosted(1).State(); s.LogEnd != 8 {
		t.Errorf("%+v, want the log as it was", s.Mark)
	}
}

// TestSelfFencing: a leader that hears nobody for a session takes no writes, and
// takes them again when it hears somebody.
func TestSelfFencing(t *testing.T) {
	p := newPair(t, 1, map[string]string{"min.insync.replicas": "2"})
	p.settle()
	p.wires[1].cut = true
	p.settle()
	n := p.nodes[0]
	session := n.cfg.Quorum.BrokerSessionTimeout.Milliseconds()
	n.rt.advance(session - 100)
	if a := n.send(p.hosted(1), 1, batchOf(1, -1, 0)); a.produced[0].Code != 0 {
		t.Fatalf("within the session: %+v", a.produced)
	}
	n.rt.advance(200)
	n.send(p.hosted(1), 1, batchOf(1, -1, 0)).want(t, partition.CodeNotLeaderOrFollower, -1)
	n.send(p.hosted(1), 0, batchOf(1, -1, 0)).want(t, partition.CodeNotLeaderOrFollower, -1)
	n.m.ControllerHeard(n.rt.Now().Mono)
	n.m.ControllerHeard(1) // an old one changes nothing
	n.send(p.hosted(1), 1, batchOf(1, -1, 0)).want(t, 0, 1)
	n.rt.advance(session + 100)
	n.send(p.hosted(1), 1, batchOf(1, -1, 0)).want(t, partition.CodeNotLeaderOrFollower, -1)
	p.wires[1].cut = false
	p.wait(3000) // the follower is heard again, the controller is not
	n.send(p.hosted(1), 1, batchOf(1, -1, 0)).want(t, 0, 2)
	if s := p.hosted(1).State(); s.LeaderEpoch != 0 {
		t.Errorf("epoch %d, want the same", s.LeaderEpoch)
	}
}

// TestLoweringIsShared: the recovery points of many partitions that are cut at
// once are lowered by one write; one that fails lowers nothing, and the next
// attempt writes.
func TestLoweringIsShared(t *testing.T) {
	n, _ := leading(t, nil)
	d := n.dirs.All()[0]
	tp := func(p int32) model.TopicPartition { return model.TopicPartition{Topic: "t", Partition: p} }
	points := checkpoint.Offsets{tp(0): 10, tp(1): 20, tp(2): 30}
	if err := d.writeRecoveryPoints(finally(points)); err != nil {
		t.Fatal(err)
	}
	file := func() checkpoint.Offsets {
		got, err := checkpoint.ReadOffsets(n.fs, "/data/"+checkpoint.RecoveryPointFile)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable)
	if err := d.lowerRecoveryPoint(tp(0), 4); err == nil {
		t.Fatal("lowered on a full disk")
	}
	n.disk.SetCapacity(0)
	d.willLower(tp(0), 4)
	d.willLower(tp(1), 9)
	d.willLower(tp(1), 7)
	d.willLower(tp(2), 99) // not lower than it is
	d.willLower(tp(3), 1)  // not there
	if err := d.lowerRecoveryPoint(tp(0), 4); err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Offsets{tp(0): 4, tp(1): 7, tp(2): 30}
	if got := file(); !maps.Equal(got, want) {
		t.Errorf("the file says %v, want %v", got, want)
	}
	if err := d.lowerRecoveryPoint(tp(1), 7); err != nil {
		t.Fatal(err)
	}
}
