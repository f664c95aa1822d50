package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRestart: after each kind of stop the node comes back with the same image,
// identity and a higher term.
func TestRestart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fs := newDisk()
	n := startNode(t, settings{fs: fs})
	id, cluster := n.Identity()
	if id == (metadata.DirectoryID{}) || len(cluster) != 22 {
		t.Fatalf("identity %s %q", id, cluster)
	}
	n.join()
	for life := range 6 {
		n.mustCreate(fmt.Sprintf("t%d", life), 3)
		n.followed()
		hash, at, epoch := n.Image().Hash(), n.Image().At(), n.Describe().Epoch
		switch life % 3 {
		case 0:
			n.Stop(true)
			fs = fs.KillClone(memfs.Kill{})
		case 1:
			fs = fs.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(rng)})
		case 2:
			fs = fs.CrashClone(memfs.Crash{UnsyncedPct: 30, Torn: true, Rand: rng})
		}
		n = startNode(t, settings{fs: fs, config: func(c *Config) { c.Used, c.ClusterID, c.DirectoryID = true, cluster, id }})
		if n.Image().Hash() != hash || n.Image().At().Offset <= at.Offset || n.Describe().Epoch <= epoch {
			t.Fatalf("life %d: hash %s at %s term %d, was %s at %s term %d", life, n.Image().Hash(), n.Image().At(), n.Describe().Epoch, hash, at, epoch)
		}
		if id2, cluster2 := n.Identity(); id2 != id || cluster2 != cluster {
			t.Fatalf("life %d: identity %s %q", life, id2, cluster2)
		}
	}
	if len(n.receipts) != 0 {
		t.Fatal("a restart made a recovery")
	}
}

// TestIdentity: a disk of another cluster, or another directory under this
// node's name, is refused and not touched.
func TestIdentity(t *testing.T) {
	fs := newDisk()
	startNode(t, settings{fs: fs}).Stop(true)
	for want, change := range map[error]func(c *Config){
		ErrOtherCluster: func(c *Config) { c.ClusterID = "another" },
		ErrStranger:     func(c *Config) { c.DirectoryID, c.Used = metadata.DirectoryID{9}, true },
		ErrVoters:       func(c *Config) { c.Voters = make([]metadata.Voter, 3) },
	} {
		n := newTestNode(t, settings{fs: fs, config: change})
		if err := n.Start(); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
		n.Stop(false)
	}
	n := newTestNode(t, settings{fs: fs, config: func(c *Config) { c.NodeID = 2 }})
	if err := n.Start(); !errors.Is(err, ErrStranger) {
		t.Error(err)
	}
	startNode(t, settings{fs: fs}).Stop(true)
}

// TestGroupCommit: commands that wait together are committed together; a later
// one of the group sees the earlier ones.
func TestGroupCommit(t *testing.T) {
	syncs := faultfs.NewCounter(faultfs.And(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), faultfs.PathMatch("*.log")))
	n := startNode(t, settings{fs: faultfs.Wrap(newDisk(), syncs)})
	n.join()
	before := syncs.Count()
	var all []*outcome
	for i := range 50 {
		all = append(all, n.submit(createRequest(fmt.Sprintf("t%d", i%40), 1)))
	}
	n.rt.run()
	for i, o := range all {
		if err := o.created(); (err == nil) != (i < 40) || o.calls != 1 {
			t.Errorf("create %d: %v, %d calls", i, err, o.calls)
		}
		if o.at != all[0].at {
			t.Errorf("create %d at %s, the first at %s", i, o.at, all[0].at)
		}
	}
	if used := syncs.Count() - before; used > 2 {
		t.Errorf("%d fsyncs for one group", used)
	}
	n.followed()
}

// TestLargeCommand: a command of more than one entry is answered once all of
// them are committed, and epochs of registrations are those of their entry.
func TestLargeCommand(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	for i := range 3 {
		n.mustCreate(fmt.Sprintf("big%d", i), 9000)
	}
	before := n.Image().At()
	n.join() // a new incarnation: 27,000 partitions change hands
	if d := n.Image().At().Offset - before.Offset; d < 4 {
		t.Errorf("%d entries", d)
	}
	for topic := range n.Image().Topics() {
		for _, p := range topic.Partitions {
			if p.Leader != 1 || p.LeaderEpoch != 2 {
				t.Fatalf("%s: %s", topic.Name, p)
			}
		}
	}
}

// TestSnapshots: snapshots bound the log, two are kept, and the state survives.
func TestSnapshots(t *testing.T) {
	fs := newDisk()
	small := func(c *Config) { c.SnapshotBytes, c.SegmentBytes = 1000, 4000 }
	n := startNode(t, settings{fs: fs, config: small})
	n.join()
	for i := range 120 {
		n.mustCreate(fmt.Sprintf("t%d", i), 2)
		if i%5 == 4 {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TopicNames = 5, []string{fmt.Sprintf("t%d", i-2)}
			n.do(req)
		}
		names, err := fs.List("data/__cluster_metadata-0")
		if err != nil {
			t.Fatal(err)
		}
		snapshots, segments := 0, 0
		for _, name := range names {
			if strings.HasSuffix(name, metadata.SnapshotSuffix) {
				snapshots++
			}
			if strings.HasSuffix(name, ".log") {
				segments++
			}
		}
		if snapshots > 2 || snapshots < 1 || segments > 3 {
			t.Fatalf("after %d creates: %v", i, names)
		}
	}
	if n.store.snapshot.At.Offset < 100 {
		t.Fatalf("newest snapshot at %s", n.store.snapshot.At)
	}
	hash := n.Image().Hash()
	n = startNode(t, settings{fs: fs.KillClone(memfs.Kill{}), config: small})
	if n.Image().Hash() != hash {
		t.Fatal("another image after the restart")
	}
}

// TestDescribe reports what DescribeQuorum needs.
func TestDescribe(t *testing.T) {
	n := startNode(t, settings{fs: newDisk(), config: func(c *Config) {
		c.Listeners = []metadata.Listener{{Name: "CONTROLLER", Host: "h", Port: 9093}}
	}})
	n.join()
	n.rt.advance(5e9)
	id, _ := n.Identity()
	d := n.Describe()
	if d.Leader != 1 || d.Epoch != 2 || d.HighWatermark != n.Image().At().Offset.Next() || !d.Active || len(d.Voters) != 1 || len(d.Observers) != 0 {
		t.Fatalf("%+v", d)
	}
	v := d.Voters[0]
	if v.Node != 1 || v.Directory != id || v.LogEndOffset != d.HighWatermark || v.LastFetch != n.rt.now.Wall ||
		v.LastCaughtUp != n.rt.now.Wall || len(v.Listeners) != 1 {
		t.Fatalf("%+v", v)
	}
	n.Stop(true)
	if d := n.Describe(); d.Active || d.Leader != model.NoLeader {
		t.Fatalf("after stop: %+v", d)
	}
}

// TestSessionExpiry: a broker that falls silent is fenced by time alone; one
// that reports is not, even if its report waits behind the deadline.
func TestSessionExpiry(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	n.mustCreate("t", 1)
	for range 10 {
		n.rt.advance(3e9)
		n.heartbeat()
	}
	if !n.Image().Broker(1).Active() {
		t.Fatal("a broker that reports was fenced")
	}
	for range 8 {
		n.rt.advance(1e9)
	}
	o := n.submit(n.heartbeatRequest())
	n.rt.now.Mono += 15e8 // beyond the end of the session, within a heartbeat interval
	n.rt.advance(0)
	if o.calls != 1 || !n.Image().Broker(1).Active() {
		t.Fatal("the deadline came before the heartbeat that was waiting")
	}
	for range 12 {
		n.rt.advance(1e9)
	}
	if n.Image().Broker(1).Active() || n.Image().Partition("t", 0).Leader != model.NoLeader {
		t.Fatal("a silent broker was not fenced")
	}
	if n.heartbeat(); !n.Image().Broker(1).Active() || n.Image().Partition("t", 0).Leader != 1 {
		t.Fatal("it did not come back")
	}
}

// TestPauseEndsNoSession: a stop of the whole process is not the brokers' fault.
func TestPauseEndsNoSession(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	n.rt.now.Mono += 600e9
	n.rt.advance(5e9)
	if !n.Image().Broker(1).Active() {
		t.Fatal("fenced after a pause of the controller")
	}
}

// TestFailedFsync: the node stops taking part, says so once, keeps its image,
// and the command is not acknowledged. A restart on a good disk goes on.
func TestFailedFsync(t *testing.T) {
	mem := newDisk()
	bad := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), faultfs.PathMatch("*.log")), faultfs.FsyncFails()))
	n := startNode(t, settings{fs: faultfs.Wrap(mem, bad)})
	n.join()
	n.mustCreate("kept", 1)
	image := n.Image()
	bad.On()
	o := n.do(createRequest("lost", 1))
	if !errors.Is(o.err, ErrNotActive) || o.created() == nil || o.resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != codeNotController {
		t.Fatalf("%v", o.err)
	}
	bad.Off()
	for range 2 {
		if o := n.do(createRequest("later", 1)); !errors.Is(o.err, ErrNotActive) {
			t.Fatalf("a failed node took a command: %v", o.err)
		}
	}
	if n.Image() != image || len(n.failures) != 1 || n.Describe().Active {
		t.Fatalf("image at %s, failures %v", n.Image().At(), n.failures)
	}
	n.Stop(true)
	n = startNode(t, settings{fs: mem.CrashClone(memfs.Crash{})})
	if got := topicNames(n.Image()); !slices.Equal(got, []string{"kept"}) {
		t.Fatalf("topics %v", got)
	}
}

// TestDroppedProposal: what the library refuses is an error to the caller and
// has no effect.
func TestDroppedProposal(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	image := n.Image()
	propose := n.propose
	n.propose = func([]byte) error { return errTest }
	a, b := n.submit(createRequest("a", 1)), n.submit(createRequest("a", 1))
	n.rt.run()
	for _, o := range []*outcome{a, b} {
		if !errors.Is(o.err, ErrNotActive) || !errors.Is(o.err, errTest) || o.calls != 1 {
			t.Errorf("%v, %d calls", o.err, o.calls)
		}
	}
	if n.Image() != image {
		t.Errorf("the image moved")
	}
	n.propose = propose
	n.mustCreate("a", 1)
}

// TestStop: what waits gets an answer; a second Stop returns at once.
func TestStop(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	o := n.submit(createRequest("a", 1))
	n.Stop(true)
	n.Stop(true)
	n.rt.run()
	late := n.do(createRequest("b", 1))
	for _, o := range []*outcome{o, late} {
		if o.calls != 1 || o.err == nil && o.resp == nil {
			t.Errorf("%d calls, %v", o.calls, o.err)
		}
	}
	if !errors.Is(late.err, ErrStopped) {
		t.Error(late.err)
	}
}

// TestUnknownRequest is answered with an error, without a response.
func TestUnknownRequest(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	if o := n.do(kmsg.NewPtrFetchRequest()); o.resp != nil || o.err == nil {
		t.Errorf("%v %v", o.resp, o.err)
	}
}

// done is a Completion for real goroutines.
type done chan error

func (d done) Done(_ kmsg.Response, _ model.OffsetAndEpoch, err error) { d <- err }

// TestRealTime runs a node with real goroutines, clock and disk.
func TestRealTime(t *testing.T) {
	var group lifecycle.Group
	rt := realtime.New(&group)
	fs, dir := vfs.FS(osfs.New()), t.TempDir()
	began := time.Now()
	n := newTestNode(t, settings{fs: fs, config: func(c *Config) { c.RT, c.Dir = rt, dir }})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	first := time.Since(began)
	d := make(done, 100)
	for i := range 100 {
		n.Submit(controller.Command{Request: createRequest(fmt.Sprintf("t%d", i), 1)}, d)
	}
	for range 100 {
		if err := <-d; err != nil {
			t.Error(err)
		}
	}
	touched := make(chan struct{}, 2)
	n.Touch(func() { touched <- struct{}{} })
	<-touched
	if f := n.Flushes(); f.Count == 0 || f.Sum <= 0 || f.Sum > time.Since(began) {
		t.Errorf("%d flushes took %s", f.Count, f.Sum)
	}
	n.Stop(true)
	n.Touch(func() { touched <- struct{}{} }) // also after the end
	<-touched
	began = time.Now()
	again := newTestNode(t, settings{fs: fs, config: func(c *Config) { c.RT, c.Dir = rt, dir }})
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("first start %s, restart %s", first, time.Since(began))
	again.Stop(true)
	rt.Stop()
	group.Wait()
}

// TestNoSpinningBeforeACommit: a session that ends while a proposal waits for its
// commit is looked at after that; until then there is nothing to wake for.
func TestNoSpinningBeforeACommit(t *testing.T) {
	n := startNode(t, settings{fs: newDisk()})
	n.join()
	n.waiting.propose([]*job{})
	n.rt.now.Mono += 10_000_000_000
	if at := n.NextDeadline(); at <= n.rt.now.Mono {
		t.Errorf("the next deadline is %d ms ago", (n.rt.now.Mono-at)/1e6)
	}
	n.waiting.drop()
	if at := n.NextDeadline(); at > n.rt.now.Mono {
		t.Error("the session's end is not due")
	}
}
