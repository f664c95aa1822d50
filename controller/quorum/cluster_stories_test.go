package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
)

// seeded returns a cluster whose every draw comes from the seed.
func seeded(t testing.TB, seed uint64, voters int) *cluster {
	if tt, ok := t.(*testing.T); ok {
		cryptotest.SetGlobalRandom(tt, seed)
	}
	return newCluster(t, seed, voters)
}

// TestBootstrapTogether: three virgin voters find each other and begin with the
// same bytes, however they are started.
func TestBootstrapTogether(t *testing.T) {
	for seed := range uint64(40) {
		c := seeded(t, seed, 3)
		c.delayMax = 50 * ms
		for _, n := range c.all {
			d := model.Instant(c.rng.Int64N(int64(2000 * ms)))
			c.after(d, n.start)
			if seed%2 == 1 {
				c.after(d+model.Instant(c.rng.Int64N(int64(800*ms))), func() {
					n.crash(c.rng.IntN(2) == 0)
					c.after(model.Instant(c.rng.Int64N(int64(500*ms))), n.start)
				})
			}
		}
		c.run(5000 * ms)
		c.settle()
		c.check()
		if len(c.all[0].node.Image().Voters()) != 3 || c.all[0].node.Image().ClusterID() == "" {
			t.Fatalf("seed %d: %+v", seed, c.all[0].node.Image().Voters())
		}
		for _, n := range c.all {
			if n.node.store.snapshot.BootstrapHash != c.all[0].node.store.snapshot.BootstrapHash {
				t.Fatalf("seed %d: bootstrapped apart", seed)
			}
		}
	}
}

// TestBootstrapNeedsAll: two of three listed voters do not begin alone.
func TestBootstrapNeedsAll(t *testing.T) {
	if err := storyBootstrapMajority(t); err != nil {
		t.Fatal(err)
	}
}

func storyBootstrapMajority(t testing.TB) error {
	c := seeded(t, 1, 3)
	c.at(1).start()
	c.at(2).start()
	c.run(10_000 * ms)
	if c.at(1).node.Image().At().Offset != model.NoOffset || c.at(1).started || c.at(2).started {
		return fmt.Errorf("two of three bootstrapped: %v", c.at(1).node.Image().Voters())
	}
	c.at(3).start()
	if !c.until(5000*ms, func() bool { return c.leader() != nil && c.at(3).started }) {
		return fmt.Errorf("did not begin with all three")
	}
	return c.first
}

// TestClusterIDs: a configured id counts for all; two different ones begin
// nothing.
func TestClusterIDs(t *testing.T) {
	c := seeded(t, 1, 3)
	c.at(2).adjust = func(o *Config) { o.ClusterID = "given" }
	c.startAll()
	c.check()
	if id := c.at(1).node.Image().ClusterID(); id != "given" {
		t.Fatalf("cluster id %q", id)
	}
	c = seeded(t, 1, 3)
	c.at(2).adjust = func(o *Config) { o.ClusterID = "given" }
	c.at(3).adjust = func(o *Config) { o.ClusterID = "other" }
	for _, n := range c.all {
		n.start()
	}
	c.run(5000 * ms)
	if c.at(1).started || c.at(2).started || c.at(3).started {
		t.Fatal("two cluster ids made a cluster")
	}
}

// TestListsDiffer: voters that list different sets do not begin.
func TestListsDiffer(t *testing.T) {
	c := seeded(t, 1, 3)
	c.at(3).adjust = func(o *Config) { o.Voters = append(o.Voters[:3:3], voterAt(4)) }
	for _, n := range c.all {
		n.start()
	}
	c.run(5000 * ms)
	if c.at(1).started || c.at(3).started {
		t.Fatal("different lists made a cluster")
	}
}

// storyWipedMember: a voter that lost its disk comes back under another name and
// without a vote; the other two go on, and without one of them nobody leads.
func storyWipedMember(t testing.TB, used bool) error {
	c := seeded(t, 3, 3)
	c.startAll()
	if c.first != nil {
		return c.first
	}
	victim := c.leader()
	id, _ := victim.node.Identity()
	victim.crash(true)
	victim.disk, victim.used, victim.seen = newDisk(), used, model.NoOffset
	victim.start()
	if !c.until(10_000*ms, func() bool { return c.leader() != nil && victim.started }) {
		return fmt.Errorf("the wiped node does not follow: %v", victim.failed)
	}
	if now, _ := victim.node.Identity(); now == id || victim.node.phase != phaseObserving {
		return fmt.Errorf("a wiped voter is member again: phase %d, directory %s", victim.node.phase, now)
	}
	o := c.register(c.leader())
	if !c.until(3000*ms, func() bool { return o.calls > 0 && victim.image().At().Offset >= o.at.Offset }) || o.err != nil {
		return fmt.Errorf("the wiped node does not see a commit: %v", o.err)
	}
	other := c.leader()
	for _, n := range c.all {
		if n != victim && n != other {
			n.crash(false)
		}
	}
	before := c.elected
	c.run(5000 * ms)
	if c.leader() != nil || c.elected != before {
		return fmt.Errorf("the wiped node's voice counted")
	}
	return c.first
}

func TestWipedMember(t *testing.T) {
	for _, used := range []bool{true, false} {
		if err := storyWipedMember(t, used); err != nil {
			t.Errorf("used=%v: %v", used, err)
		}
	}
}

// TestDamagedMember: a voter whose log can't be believed follows without a vote,
// keeps the old files, and becomes a voter again when it is removed and added.
func TestDamagedMember(t *testing.T) {
	c := seeded(t, 5, 3)
	c.startAll()
	c.check()
	victim := c.at(3)
	for range 5 {
		c.register(c.leader())
		c.run(100 * ms)
	}
	old, _ := victim.node.Identity()
	victim.stop()
	damage(t, victim.disk, ".log", false, 30)
	victim.start()
	if !c.until(10_000*ms, func() bool { return victim.started && c.leader() != nil }) {
		t.Fatalf("does not follow: %v", victim.failed)
	}
	fresh, _ := victim.node.Identity()
	if victim.node.phase != phaseObserving || fresh == old {
		t.Fatalf("phase %d directory %s", victim.node.phase, fresh)
	}
	if kept, err := victim.disk.List("data/.kept"); err != nil || len(kept) != 1 {
		t.Fatalf("kept %v %v", kept, err)
	}
	c.run(1000 * ms)
	if d := c.leader().node.Describe(); len(d.Observers) != 1 || d.Observers[0].Node != 3 || d.Observers[0].Directory != fresh {
		t.Fatalf("observers %+v", d.Observers)
	}
	if code := c.member(removeVoter(3, old)); code != 0 {
		t.Fatalf("remove: %d", code)
	}
	if code := c.member(addVoter(3, fresh)); code != 0 {
		t.Fatalf("add: %d", code)
	}
	if !c.until(5000*ms, func() bool { return victim.node.phase == phaseMember }) {
		t.Fatal("not a member")
	}
	c.settle()
	c.check()
	victim.crash(true)
	victim.start()
	c.settle()
	c.check()
	if victim.node.phase != phaseMember {
		t.Fatal("not a member after a restart")
	}
}

// member submits a change of the voter set to the leader and returns its code.
func (c *cluster) member(req kmsg.Request) int16 {
	o := &outcome{}
	c.until(5000*ms, func() bool { return c.leader() != nil })
	c.leader().node.Submit(controller.Command{Request: req}, completed(o.Done))
	c.until(40_000*ms, func() bool { return o.calls > 0 })
	switch r := o.resp.(type) {
	case *kmsg.AddRaftVoterResponse:
		if r.ErrorMessage != nil {
			c.note("add voter: %s", *r.ErrorMessage)
		}
		return r.ErrorCode
	case *kmsg.RemoveRaftVoterResponse:
		return r.ErrorCode
	}
	return -2
}

func addVoter(id model.BrokerID, dir metadata.DirectoryID) *kmsg.AddRaftVoterRequest {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = int32(id), dir, 10_000
	l := voterAt(id).Listeners[0]
	rl := kmsg.NewAddRaftVoterRequestListener()
	rl.Name, rl.Host, rl.Port = l.Name, l.Host, l.Port
	req.Listeners = append(req.Listeners, rl)
	return req
}

func removeVoter(id model.BrokerID, dir metadata.DirectoryID) *kmsg.RemoveRaftVoterRequest {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = int32(id), dir
	return req
}

// TestFailover: a leader whose process is dead is replaced within 300 ms where
// connections are refused, and within the election timeouts where nothing tells;
// one that stops for 200 ms is not replaced.
func TestFailover(t *testing.T) {
	worst, worstDeaf := model.Instant(0), model.Instant(0)
	for seed := range uint64(40) {
		for _, deaf := range []bool{false, true} {
			c := seeded(t, seed, 3)
			c.startAll()
			c.run(model.Instant(c.rng.Int64N(int64(1000 * ms))))
			c.deaf = deaf
			old := c.leader()
			old.stall()
			c.run(200 * ms)
			old.resume()
			c.run(1000 * ms)
			if c.leader() != old || c.elected != 1 {
				t.Fatalf("seed %d: a stop of 200 ms made %d elections", seed, c.elected)
			}
			old.crash(true)
			died := c.sim.Now()
			if !c.until(5000*ms, func() bool { return c.leader() != nil }) {
				c.check()
				t.Fatalf("seed %d: no leader", seed)
			}
			took := c.sim.Now() - died
			if deaf {
				worstDeaf = max(worstDeaf, took)
			} else {
				worst = max(worst, took)
			}
			c.settle()
			c.check()
		}
	}
	t.Logf("worst: refused %s, silent %s", millis(worst), millis(worstDeaf))
	if worst > 300*ms || worstDeaf > 2500*ms {
		t.Errorf("took %s and %s", millis(worst), millis(worstDeaf))
	}
}

// TestProbeOnActivation: the new active controller has every unfenced broker
// looked at, and only those.
func TestProbeOnActivation(t *testing.T) {
	c := seeded(t, 1, 3)
	c.startAll()
	for range 3 {
		c.register(c.leader())
	}
	c.run(200 * ms)
	first := c.nextID - 2
	l := c.leader()
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch = int32(first), int64(l.image().Broker(first).Epoch)
	beat.CurrentMetadataOffset = int64(l.image().At().Offset)
	l.node.Submit(controller.Command{Request: beat}, &outcome{})
	c.run(200 * ms)
	l.crash(false)
	c.until(5000*ms, func() bool { return c.leader() != nil })
	c.run(100 * ms)
	if p := c.leader().probes; fmt.Sprint(p) != fmt.Sprint([]model.BrokerID{first}) {
		t.Fatalf("probed %v, unfenced is %d", p, first)
	}
	c.check()
}

// TestResign: an orderly stop hands the leadership over at once.
func TestResign(t *testing.T) {
	for seed := range uint64(10) {
		c := seeded(t, seed, 3)
		c.startAll()
		c.run(500 * ms)
		old, began, done := c.leader(), c.sim.Now(), false
		old.node.Resign(func() { done = true })
		if !c.until(1000*ms, func() bool { return done && c.leader() != nil && c.leader() != old }) {
			t.Fatalf("seed %d: done=%v", seed, done)
		}
		if took := c.sim.Now() - began; took > 100*ms {
			t.Errorf("seed %d: %s", seed, millis(took))
		}
		old.stop()
		c.run(200 * ms)
		if c.elected != 2 {
			t.Errorf("seed %d: %d elections", seed, c.elected)
		}
		c.settle()
		c.check()
	}
}

// TestResignAlone: nobody to hand over to is no reason to wait.
func TestResignAlone(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	done := false
	n.Resign(func() { done = true })
	n.rt.run()
	if !done {
		t.Fatal("waits")
	}
}

// storyConfirm: a leader that is cut off does not confirm itself, however sure
// it is; one that is not does, many at a time.
func storyConfirm(t testing.TB) error {
	c := seeded(t, 2, 3)
	c.startAll()
	l := c.leader()
	yes, no := 0, 0
	count := func(ok bool) {
		if ok {
			yes++
		} else {
			no++
		}
	}
	for range 1000 {
		l.node.Confirm(count)
	}
	c.run(50 * ms)
	if yes != 1000 || l.node.reads.seq > 20 {
		return fmt.Errorf("%d of 1000 confirmed, with %d questions", yes, l.node.reads.seq)
	}
	for _, n := range c.all {
		c.cut[[2]model.BrokerID{l.id, n.id}], c.cut[[2]model.BrokerID{n.id, l.id}] = true, true
	}
	l.node.Confirm(count)
	c.run(300 * ms)
	if yes != 1000 || !l.node.Describe().Active {
		return fmt.Errorf("confirmed without a quorum, active=%v", l.node.Describe().Active)
	}
	c.run(3000 * ms)
	if yes != 1000 || no != 1 || l.node.Describe().Active {
		return fmt.Errorf("cut off: %d yes, %d no, active=%v", yes, no, l.node.Describe().Active)
	}
	return c.first
}

func TestConfirm(t *testing.T) {
	if err := storyConfirm(t); err != nil {
		t.Fatal(err)
	}
	n, count := startNode(t, settings{fs: newDisk()}), 0
	for range 3 {
		n.Confirm(func(ok bool) {
			if ok {
				count++
			}
		})
	}
	n.rt.run()
	if count != 3 {
		t.Fatalf("a single voter confirmed %d of 3", count)
	}
}

// TestObserver: a broker without a vote follows, over restarts of itself and of
// the controllers, and leaves nothing out.
func TestObserver(t *testing.T) {
	c := seeded(t, 4, 3)
	o := c.addObserver(10)
	o.adjust = func(o *Config) { o.SnapshotBytes = 2000 }
	for _, n := range c.all[:3] {
		n.adjust = tinyLog
	}
	c.startAll()
	c.check()
	for i := range 60 {
		r := c.register(c.leader())
		c.until(3000*ms, func() bool { return r.calls > 0 })
		if r.err != nil {
			t.Fatal(r.err)
		}
		if !c.until(50*ms, func() bool { return o.image().At().Offset >= r.at.Offset }) {
			t.Fatalf("commit %d is not seen within 50 ms", i)
		}
		switch i % 20 {
		case 5:
			o.crash(true)
			c.run(100 * ms)
			o.start()
		case 10:
			o.stop()
			c.run(2000 * ms)
			o.start()
		case 15:
			c.leader().crash(true)
		}
		if i%20 == 5 || i%20 == 10 || i%20 == 15 {
			if !c.until(5000*ms, func() bool { return c.leader() != nil && o.started }) {
				t.Fatalf("commit %d: started=%v leader=%v", i, o.started, c.leader())
			}
			for _, n := range c.all {
				if !n.up {
					n.start()
				}
			}
		}
	}
	c.settle()
	c.check()
	d := o.obs.Describe()
	if d.Leader != c.leader().id || d.Active || len(d.Voters) != 3 {
		t.Fatalf("%+v", d)
	}
	l := c.leader().node.Describe()
	if len(l.Observers) != 1 || l.Observers[0].Node != 10 || l.Observers[0].LogEndOffset != l.HighWatermark {
		t.Fatalf("%+v", l.Observers)
	}
}

// TestDescribeMembers: values of voters as Kafka's leader reports them.
func TestDescribeMembers(t *testing.T) {
	c := seeded(t, 6, 3)
	c.startAll()
	c.register(c.leader())
	c.run(1000 * ms)
	l := c.leader()
	d, now := l.node.Describe(), l.rt.Now().Wall
	if len(d.Voters) != 3 || d.Epoch != model.LeaderEpoch(l.node.term) {
		t.Fatalf("%+v", d)
	}
	for _, v := range d.Voters {
		if v.LogEndOffset != d.HighWatermark || now-v.LastFetch > 200 || now-v.LastCaughtUp > 200 {
			t.Errorf("%+v, high watermark %d, now %d", v, d.HighWatermark, now)
		}
	}
	var other *simNode
	for _, n := range c.all {
		if n != l {
			other = n
		}
	}
	c.deaf = true
	other.crash(false)
	died := l.rt.Now().Wall
	c.run(1000 * ms)
	c.register(l)
	c.run(500 * ms)
	d = l.node.Describe()
	for _, v := range d.Voters {
		if v.Node == other.id && (v.LogEndOffset >= d.HighWatermark || v.LastFetch > died+5 || v.LastCaughtUp > died+5) {
			t.Errorf("a dead voter: %+v, died at %d", v, died)
		}
	}
	if f := c.at(other.id%3 + 1); f != l && f != other {
		for _, v := range f.node.Describe().Voters {
			if v.Node != f.id && v.LogEndOffset != model.NoOffset {
				t.Errorf("a follower knows %+v", v)
			}
		}
	}
	c.check()
}

// TestDynamicMembership: one node bootstraps alone, two others come as observers
// and are made voters; then one is removed, the leader itself.
func TestDynamicMembership(t *testing.T) {
	for seed := range uint64(10) {
		c := seeded(t, seed, 0)
		for id := model.BrokerID(1); id <= 3; id++ {
			n := c.add(id)
			n.adjust = func(o *Config) {
				tinyLog(o)
				if n.id != 1 {
					o.Join = []metadata.Voter{{Node: model.NoLeader, Listeners: voterAt(1).Listeners}}
				}
			}
		}
		c.startAll()
		c.check()
		for range 20 {
			c.register(c.leader())
			c.run(20 * ms)
		}
		for id := model.BrokerID(2); id <= 3; id++ {
			dir, _ := c.at(id).node.Identity()
			if code := c.member(addVoter(id, dir)); code != 0 {
				c.check()
				t.Fatalf("seed %d: add %d: code %d", seed, id, code)
			}
			if !c.until(5000*ms, func() bool { return c.at(id).node.phase == phaseMember && len(c.at(id).image().Voters()) == int(id) }) {
				t.Fatalf("seed %d: %d is no member", seed, id)
			}
			if code := c.member(addVoter(id, dir)); code != codeDuplicateVoter {
				t.Fatalf("seed %d: again: code %d", seed, code)
			}
		}
		c.settle()
		c.check()
		c.leader().crash(true)
		c.settle()
		c.check()
		gone := c.leader()
		dir, _ := gone.node.Identity()
		if code := c.member(removeVoter(gone.id, metadata.DirectoryID{1})); code != codeVoterNotFound {
			t.Fatalf("seed %d: remove a stranger: code %d", seed, code)
		}
		if code := c.member(removeVoter(gone.id, dir)); code != 0 {
			c.check()
			t.Fatalf("seed %d: remove: code %d", seed, code)
		}
		c.settle()
		c.check()
		if gone.node.phase != phaseObserving || len(gone.image().Voters()) != 2 {
			t.Fatalf("seed %d: phase %d voters %v", seed, gone.node.phase, gone.image().Voters())
		}
		for _, n := range c.all {
			if n != gone && len(n.node.conf.GetVoters()) != 2 {
				t.Fatalf("seed %d: %v", seed, n.node.conf)
			}
		}
	}
}

// TestAddVoterTimesOut: a voter that can't be reached does not get a vote, and
// the next change is not in its way.
func TestAddVoterTimesOut(t *testing.T) {
	c := seeded(t, 1, 3)
	c.startAll()
	req := addVoter(9, metadata.DirectoryID{9})
	req.TimeoutMillis = 1500
	if code := c.member(req); code != codeRequestTimedOut {
		t.Fatalf("code %d", code)
	}
	c.run(1000 * ms)
	l := c.leader()
	if len(l.node.conf.GetLearners()) != 0 || len(l.node.conf.GetVoters()) != 3 || len(l.image().Voters()) != 3 {
		t.Fatalf("%v", l.node.conf)
	}
	c.settle()
	c.check()
}

// TestSnapshotToFollower: a follower that missed more than the log still has is
// sent a snapshot, in pieces.
func TestSnapshotToFollower(t *testing.T) {
	c := seeded(t, 8, 3)
	for _, n := range c.all {
		n.adjust = tinyLog
	}
	c.startAll()
	var behind *simNode
	for _, n := range c.all {
		if n != c.leader() {
			behind = n
		}
	}
	behind.crash(true)
	for range 80 {
		c.register(c.leader())
		c.run(30 * ms)
	}
	behind.start()
	c.settle()
	c.check()
	if behind.node.store.snapshot.At.Offset < 40 {
		t.Fatalf("no snapshot was taken over: %s", behind.node.store.snapshot.At)
	}
}

// TestForeignQuorum: messages of a cluster that was bootstrapped apart are
// refused.
func TestForeignQuorum(t *testing.T) {
	a, b := seeded(t, 1, 3), seeded(t, 2, 3)
	a.startAll()
	b.startAll()
	answer := []byte(nil)
	node, from := a.at(1).node, b.leader().node
	body, err := encodeRaft(from.store.snapshot.BootstrapHash, node.raftHeartbeat(from))
	must(t, err)
	node.AnswerPrivate(KeyRaft, body, func(b []byte) { answer = b })
	a.run(50 * ms)
	if len(answer) != 2 || answer[1] != raftOtherSet || node.term > 10 {
		t.Fatalf("answer %v term %d", answer, node.term)
	}
	a.check()
}

// TestStalledLeaderIsReplaced: while the disk or the process stands still
// nothing is sent, so the others elect; afterwards there is one leader.
func TestStalledLeaderIsReplaced(t *testing.T) {
	for seed := range uint64(10) {
		c := seeded(t, seed, 3)
		c.startAll()
		old := c.leader()
		old.stall()
		if !c.until(3000*ms, func() bool { return c.elected == 2 }) {
			t.Fatalf("seed %d: nobody else was elected", seed)
		}
		c.run(500 * ms)
		old.resume()
		c.run(1000 * ms)
		if old.node.Describe().Active {
			t.Fatalf("seed %d: still active", seed)
		}
		c.settle()
		c.check()
	}
}

// TestFailedFsyncInQuorum: a leader whose disk fails is out, and the others go
// on without it.
func TestFailedFsyncInQuorum(t *testing.T) {
	c := seeded(t, 1, 3)
	for _, n := range c.all {
		n.inject = failingSync()
	}
	c.startAll()
	old := c.leader()
	old.inject.On()
	o := c.register(old)
	if !c.until(5000*ms, func() bool { return o.calls == 1 && c.leader() != nil && c.leader() != old }) {
		t.Fatalf("%d calls, failed %v", o.calls, old.failed)
	}
	if o.err == nil || old.failed == nil || !strings.Contains(o.err.Error(), "not the active controller") {
		t.Fatalf("%v, failed %v", o.err, old.failed)
	}
	c.settle()
	c.check()
}

// storyObserverFallsBack: an observer that is killed shows nothing older than
// what it has shown, although its snapshot is.
func storyObserverFallsBack(t testing.TB) error {
	c := seeded(t, 4, 3)
	o := c.addObserver(10)
	c.startAll()
	for range 20 {
		c.register(c.leader())
		c.run(30 * ms)
	}
	o.crash(true)
	o.start()
	if !c.until(5000*ms, func() bool { return o.started }) && c.first == nil {
		return fmt.Errorf("does not come back: %v", o.failed)
	}
	return c.first
}

// storyVoteLost: a voter that has given its vote does not give another one in
// the same term, whatever happened in between.
func storyVoteLost(t testing.TB) error {
	fs, p := newDisk(), &peers{}
	var set metadata.Voters
	var ids []uint64
	for i := byte(1); i <= 3; i++ {
		v := metadata.Voter{Node: model.BrokerID(i), Directory: metadata.DirectoryID{i}}
		set.Voters, ids = append(set.Voters, v), append(ids, metadata.RaftID(v.Node, v.Directory))
	}
	m, _, err := metadata.Apply(metadata.Empty(), bootstrapAt, []metadata.Record{&metadata.Cluster{ID: "c"}, &set})
	must(t, err)
	with := func(c *Config) { c.Peers, c.DirectoryID = p, metadata.DirectoryID{1} }
	n := newTestNode(t, settings{fs: fs, config: with})
	must(t, writeFirst(n.config, n.dir, n.rt.now, m))
	must(t, n.Start())
	ask := func(from uint64) (bool, error) {
		n.Receive(&raftpb.Message{
			Type: raftpb.MsgVote.Enum(), From: new(from), To: new(ids[0]), Term: new(uint64(7)), LogTerm: new(uint64(1)), Index: new(uint64(9)),
		})
		n.rt.run()
		answer := p.take(raftpb.MsgVoteResp)
		if answer == nil {
			return false, fmt.Errorf("no answer to a candidate")
		}
		return !answer.GetReject(), nil
	}
	if yes, err := ask(ids[1]); err != nil || !yes {
		return fmt.Errorf("first candidate: %v %v", yes, err)
	}
	n = newTestNode(t, settings{fs: fs.CrashClone(memfs.Crash{}), config: with})
	must(t, n.Start())
	if yes, err := ask(ids[2]); err != nil || yes {
		return fmt.Errorf("second candidate of the term after a crash: %v %v", yes, err)
	}
	if yes, err := ask(ids[1]); err != nil || !yes {
		return fmt.Errorf("the first one again: %v %v", yes, err)
	}
	return nil
}

// storyVotersApart: the voters of the image are those of the consensus library,
// on every node, before and after a change.
func storyVotersApart(t testing.TB) error {
	c := seeded(t, 1, 3)
	n := c.add(4)
	n.adjust = func(o *Config) { o.Voters, o.Join = nil, c.static }
	c.startAll()
	dir, _ := n.node.Identity()
	if code := c.member(addVoter(4, dir)); code != 0 {
		return fmt.Errorf("add: code %d", code)
	}
	c.settle()
	for _, n := range c.all {
		if v := n.node.conf.GetVoters(); len(v) != 4 || len(n.image().Voters()) != 4 {
			return fmt.Errorf("node %d: %d voters, the image has %d", n.id, len(v), len(n.image().Voters()))
		}
	}
	return c.first
}

// TestObserverDiverges: an image that is not the controllers' is mended by a
// snapshot once; the second time the observer gives up, and says so.
func TestObserverDiverges(t *testing.T) {
	c := seeded(t, 9, 3)
	o := c.addObserver(10)
	c.startAll()
	for range 5 {
		c.register(c.leader())
		c.run(100 * ms)
	}
	spoil := func() {
		w := o.obs.watch
		m, _, err := metadata.Apply(w.image, w.image.At(), []metadata.Record{&metadata.FeatureLevel{Feature: metadata.Feature{Name: "rot", Level: 1}}})
		must(t, err)
		w.image = m
	}
	spoil()
	c.run(1000 * ms)
	r := c.register(c.leader())
	if !c.until(3000*ms, func() bool { return r.calls > 0 && o.image().At().Offset >= r.at.Offset }) || o.failed != nil {
		t.Fatalf("was not mended: %v", o.failed)
	}
	c.check()
	if o.image().Feature("rot") != 0 || o.image().Hash() != c.hashes[o.image().At()] {
		t.Fatal("the image is still another one")
	}
	spoil()
	if !c.until(3000*ms, func() bool { return o.failed != nil }) || !errors.Is(o.failed, ErrDiverged) {
		t.Fatalf("second time: %v", o.failed)
	}
}

// TestFalseAlarm: one voter that is told that the leader refuses connections,
// while it does not, changes nothing.
func TestFalseAlarm(t *testing.T) {
	for seed := range uint64(10) {
		c := seeded(t, seed, 3)
		c.startAll()
		l := c.leader()
		for _, n := range c.all {
			if n != l {
				n.node.PeerLost(l.id, true)
				break
			}
		}
		c.run(2000 * ms)
		if c.leader() != l || c.elected != 1 {
			t.Fatalf("seed %d: %d elections", seed, c.elected)
		}
		c.check()
	}
}

// TestRemovedWhileAway: a voter that is down when it is removed finds out when
// it comes back, and follows without a vote.
func TestRemovedWhileAway(t *testing.T) {
	c := seeded(t, 3, 3)
	c.startAll()
	gone := c.at(3)
	dir, _ := gone.node.Identity()
	gone.crash(false)
	if code := c.member(removeVoter(3, dir)); code != 0 {
		t.Fatalf("code %d", code)
	}
	gone.start()
	r := c.register(c.leader())
	if !c.until(10_000*ms, func() bool {
		return gone.started && gone.node.phase == phaseObserving && gone.image().At().Offset >= r.at.Offset
	}) {
		t.Fatalf("phase %d, started=%v", gone.node.phase, gone.started)
	}
	if c.elected > 2 {
		t.Errorf("%d elections", c.elected)
	}
	c.check()
}

// TestForgottenLearner: a node that is left behind as a learner, since the leader
// that was adding it is gone and the next has taken that back, finds out and
// follows on, and can be added again.
func TestForgottenLearner(t *testing.T) {
	c := seeded(t, 72, 3)
	c.startAll()
	if c.leader().id == 3 {
		c.leader().crash(false)
		c.settle()
	}
	left := c.at(3)
	dir, _ := left.node.Identity()
	if code := c.member(removeVoter(3, dir)); code != 0 {
		t.Fatalf("code %d", code)
	}
	c.until(5000*ms, func() bool { return left.node.phase == phaseObserving })
	dir, _ = left.node.Identity()
	old := c.leader()
	old.node.Submit(controller.Command{Request: addVoter(3, dir)}, &outcome{})
	if !c.until(5000*ms, func() bool { return left.node.phase == phaseMember }) || len(left.node.conf.GetLearners()) != 1 {
		t.Fatalf("phase %d", left.node.phase)
	}
	for _, n := range c.all[:2] {
		c.cut[[2]model.BrokerID{3, n.id}], c.cut[[2]model.BrokerID{n.id, 3}] = true, true
	}
	old.crash(false)
	old.start()
	if !c.until(10_000*ms, func() bool { return c.leader() != nil && len(c.leader().node.conf.GetLearners()) == 0 }) {
		t.Fatal("the addition was not taken back")
	}
	c.settle()
	c.check()
	if left.node.phase != phaseObserving {
		t.Fatalf("phase %d", left.node.phase)
	}
	dir, _ = left.node.Identity()
	if code := c.member(addVoter(3, dir)); code != 0 {
		t.Fatalf("code %d", code)
	}
	c.settle()
	c.check()
}

// TestLargeSnapshot: a snapshot of more than one piece reaches an observer and a
// voter.
func TestLargeSnapshot(t *testing.T) {
	c := seeded(t, 2, 3)
	o := c.addObserver(10)
	for _, n := range c.all[:3] {
		n.adjust = func(o *Config) { o.SnapshotBytes = 200_000 }
		n.start()
	}
	c.until(5000*ms, func() bool { return c.leader() != nil })
	var behind *simNode
	for _, n := range c.all[:3] {
		if n != c.leader() {
			behind = n
		}
	}
	c.run(1000 * ms)
	behind.crash(true)
	l := c.leader()
	r := c.register(l)
	c.until(3000*ms, func() bool { return r.calls > 0 })
	id := c.nextID
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = int32(id), int64(r.at.Offset), int64(r.at.Offset)
	l.node.Submit(controller.Command{Request: beat}, &outcome{})
	for i := range 5 {
		made := &outcome{}
		l.node.Submit(controller.Command{Request: createRequest(fmt.Sprintf("big%d", i), 9000)}, made)
		if !c.until(5000*ms, func() bool { return made.calls > 0 }) || made.created() != nil {
			t.Fatalf("create: %v", made.created())
		}
	}
	size, _, err := l.node.store.readPiece(l.node.store.snapshot.At, 0)
	must(t, err)
	if size <= pullBytesMax {
		t.Fatalf("snapshot of %d bytes", size)
	}
	behind.start()
	o.start()
	c.settle()
	c.check()
	if o.image().NumPartitions() != 45_000 || behind.image().NumPartitions() != 45_000 {
		t.Fatalf("%d and %d partitions", o.image().NumPartitions(), behind.image().NumPartitions())
	}
}
