package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// history is what a client of the controller knows.
type history struct {
	acked   []string // topics whose creation was acknowledged
	unknown string   // one that got an error and may exist
	epochs  []int64  // broker epochs that were given out
	ids     int64    // end of the producer ids that were given out
}

// tinyLog makes snapshots and segments frequent.
func tinyLog(c *Config) { c.SnapshotBytes, c.SegmentBytes = 700, 2000 }

// work goes through a node's life until the disk fails it; it returns whether it
// came to the end.
func (h *history) work(n *testNode, life int) bool {
	if n.Start() != nil {
		return false
	}
	reg := kmsg.NewPtrBrokerRegistrationRequest()
	reg.BrokerID, reg.ClusterID, reg.PreviousBrokerEpoch = 1, n.Image().ClusterID(), -1
	reg.IncarnationID[0] = byte(life)
	o := n.do(reg)
	if o.err != nil {
		return false
	}
	h.epochs = append(h.epochs, o.resp.(*kmsg.BrokerRegistrationResponse).BrokerEpoch)
	if n.heartbeat().err != nil {
		return false
	}
	for i := range 12 {
		name := fmt.Sprintf("t%d-%d", life, i)
		h.unknown = name
		if n.do(createRequest(name, 2)).created() != nil {
			return false
		}
		h.acked, h.unknown = append(h.acked, name), ""
		ids := kmsg.NewPtrAllocateProducerIDsRequest()
		ids.BrokerID, ids.BrokerEpoch = 1, h.epochs[len(h.epochs)-1]
		o := n.do(ids)
		if o.err != nil {
			return false
		}
		resp := o.resp.(*kmsg.AllocateProducerIDsResponse)
		h.ids = resp.ProducerIDStart + int64(resp.ProducerIDLen)
	}
	return true
}

// holds says what of the history the image contradicts, or "".
func (h *history) holds(m *metadata.Image) string {
	for _, name := range h.acked {
		t := m.Topic(name)
		if t == nil || len(t.Partitions) != 2 {
			return fmt.Sprintf("topic %s was acknowledged and is gone", name)
		}
	}
	if extra := m.NumTopics() - len(h.acked); extra > 1 || extra == 1 && m.Topic(h.unknown) == nil {
		return fmt.Sprintf("topics %v, acknowledged %v, unknown %q", topicNames(m), h.acked, h.unknown)
	}
	if int64(m.NextProducerID()) < h.ids {
		return fmt.Sprintf("producer ids up to %d were given out, the next is %d", h.ids, m.NextProducerID())
	}
	if n := len(h.epochs); n > 0 && int64(m.Broker(1).Epoch) < h.epochs[n-1] {
		return fmt.Sprintf("broker epochs %v were given out, registered is %d", h.epochs, m.Broker(1).Epoch)
	}
	return ""
}

// TestCrashAtEveryOperation lets the disk die at each of its operations, during
// bootstrap, commands and snapshots, and looks at what is found after a power
// loss or a kill: the node starts without help, everything acknowledged is
// there, and goes on. The second life may be cut short in the same way.
func TestCrashAtEveryOperation(t *testing.T) {
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	crashes, snapshots := 0, 0
	for k := int64(1); ; k += step {
		rng := rand.New(rand.NewPCG(uint64(k), 3))
		mem := newDisk()
		h := &history{}
		done := false
		for life := 0; life < 3; life++ {
			at := k
			if life > 0 {
				at = 1 + rng.Int64N(60)
			}
			if life == 2 {
				at = 1 << 40
			}
			fault := []*faultfs.Fault{faultfs.EIO(), faultfs.ShortWriteAnywhere(rng)}[rng.IntN(2)]
			n := newTestNode(t, settings{fs: faultfs.Wrap(mem, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(at)), fault)), config: tinyLog})
			finished := h.work(n, life)
			if life == 0 {
				done = finished
			}
			if len(n.failures) == 0 && n.store != nil && !finished && n.Describe().Active {
				t.Fatalf("operation %d life %d: stopped without a failure", k, life)
			}
			if n.store != nil && n.store.snapshot.At.Offset > 0 {
				snapshots++
			}
			crashes++
			switch rng.IntN(3) {
			case 0:
				mem = mem.CrashClone(memfs.Crash{UnsyncedPct: []int{0, 50, 100}[rng.IntN(3)], Torn: rng.IntN(2) == 0, Rand: rng})
			case 1:
				mem = mem.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(rng)})
			default:
				mem = mem.CrashClone(memfs.Crash{UnsyncedPct: rng.IntN(101), Rand: rng})
			}
			// What stands on the disk now, seen by a start that is not disturbed.
			look := newTestNode(t, settings{fs: mem.Fork(), config: tinyLog})
			if err := look.Start(); err != nil {
				t.Fatalf("operation %d life %d: does not start again: %v", k, life, err)
			}
			if why := h.holds(look.Image()); why != "" {
				t.Fatalf("operation %d life %d: %s", k, life, why)
			}
			if h.unknown != "" && look.Image().Topic(h.unknown) != nil {
				h.acked = append(h.acked, h.unknown) // it was committed after all
			}
			h.unknown = ""
			hash := look.Image().Hash()
			look.Stop(rng.IntN(2) == 0)
			again := startNode(t, settings{fs: look.config.FS, config: tinyLog})
			if again.Image().Hash() != hash {
				t.Fatalf("operation %d life %d: a second start finds another image", k, life)
			}
		}
		if done {
			t.Logf("%d operations, %d crashes, %d lives with snapshots", k, crashes, snapshots)
			if snapshots == 0 {
				t.Fatal("no snapshot was taken")
			}
			return
		}
	}
}

// damage flips one byte of a file whose name ends so.
func damage(t *testing.T, fs *memfs.FS, suffix string, newest bool, back int64) string {
	t.Helper()
	names, err := fs.List("data/__cluster_metadata-0")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, n := range names {
		if strings.HasSuffix(n, suffix) && (found == "" || newest) {
			found = n
		}
	}
	if found == "" {
		t.Fatalf("no %s in %v", suffix, names)
	}
	flip(t, fs, "data/__cluster_metadata-0/"+found, back)
	return found
}

// TestDamage: what no crash explains stops the node, with its files untouched,
// unless recovery is allowed; then the newest readable state and the partition
// directories make up the rest, with a receipt.
func TestDamage(t *testing.T) {
	build := func() (*memfs.FS, *metadata.Image) {
		fs := newDisk()
		n := startNode(t, settings{fs: fs, config: tinyLog})
		n.join()
		for i := range 20 {
			n.mustCreate(fmt.Sprintf("t%d", i), 2)
		}
		n.Stop(true)
		// A restart makes the end of the log count as durable.
		n = startNode(t, settings{fs: fs, config: tinyLog})
		n.Stop(true)
		return fs, n.Image()
	}
	_, whole := build()
	var disk []RecoveredTopic
	for topic := range whole.Topics() {
		disk = append(disk, RecoveredTopic{Name: topic.Name, ID: topic.ID, Partitions: []int32{0, 1}, LeaderEpochs: []model.LeaderEpoch{7, 3}})
	}
	disk = append(disk, RecoveredTopic{Name: "lost", ID: [16]byte{1, 2}, Partitions: []int32{1}, LeaderEpochs: []model.LeaderEpoch{9}},
		RecoveredTopic{Name: "t1", ID: [16]byte{8}, Partitions: []int32{0}})
	for name, hurt := range map[string]func(fs *memfs.FS){
		"newest snapshot": func(fs *memfs.FS) { damage(t, fs, ".checkpoint", true, 40) },
		"log":             func(fs *memfs.FS) { damage(t, fs, ".log", false, 30) },
		"hard state":      func(fs *memfs.FS) { damage(t, fs, "quorum-state", true, 8) },
		"hard state gone": func(fs *memfs.FS) { must(t, fs.Remove("data/__cluster_metadata-0/quorum-state")) },
		"everything":      func(fs *memfs.FS) { must(t, fs.RemoveAll("data/__cluster_metadata-0")) },
	} {
		fs, before := build()
		id := before.Voters()[0].Directory
		used := func(c *Config) {
			tinyLog(c)
			c.Used, c.ClusterID, c.DirectoryID = true, before.ClusterID(), id
		}
		hurt(fs)
		names, _ := fs.List("data/__cluster_metadata-0")
		n := newTestNode(t, settings{fs: fs, config: used})
		err := n.Start()
		var d *damageError
		if !errors.As(err, &d) || name == "everything" && !errors.Is(err, ErrWiped) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := fs.List("data/__cluster_metadata-0"); fmt.Sprint(after) != fmt.Sprint(names) {
			t.Errorf("%s: a refused start changed %v to %v", name, names, after)
		}
		n = startNode(t, settings{fs: fs, config: used, recovers: disk})
		if len(n.receipts) != 1 {
			t.Fatalf("%s: %d receipts", name, len(n.receipts))
		}
		r, m := n.receipts[0], n.Image()
		t.Logf("%s: base %s at %s topics %d partitions %d kept %s", name, r.Base, r.At, len(r.Topics), r.Partitions, r.Kept)
		for topic := range before.Topics() {
			if got := m.Topic(topic.Name); got == nil || got.ID != topic.ID || len(got.Partitions) != 2 || got.Partitions[0].LeaderEpoch < 7 {
				t.Errorf("%s: %s is %+v", name, topic.Name, got)
			}
		}
		if lost := m.Topic("lost"); lost == nil || len(lost.Partitions) != 2 || lost.Partitions[1].LeaderEpoch != 9 {
			t.Errorf("%s: topic lost is %+v", name, lost)
		}
		if m.At().Offset <= before.At().Offset || m.NextProducerID() <= before.NextProducerID() || m.ClusterID() != before.ClusterID() {
			t.Errorf("%s: at %s, producer ids from %d, cluster %q", name, m.At(), m.NextProducerID(), m.ClusterID())
		}
		if r.Kept != "" {
			if kept, err := fs.List(r.Kept); err != nil || fmt.Sprint(kept) != fmt.Sprint(names) {
				t.Errorf("%s: kept %v %v", name, kept, err)
			}
		}
		// The recovered state is an ordinary one.
		n.join()
		for topic := range n.Image().Topics() {
			for i, p := range topic.Partitions {
				if p.Leader != 1 {
					t.Errorf("%s: %s-%d %s", name, topic.Name, i, p)
				}
			}
		}
		n.mustCreate("after", 1)
		hash := n.Image().Hash()
		n.Stop(false)
		if n = startNode(t, settings{fs: fs, config: used}); n.Image().Hash() != hash {
			t.Errorf("%s: another image after a restart", name)
		}
	}
}

// TestCrashDuringRecovery: a recovery that is cut short anywhere is finished or
// begun again by the next start, and nothing of the base gets lost.
func TestCrashDuringRecovery(t *testing.T) {
	origin := newDisk()
	n := startNode(t, settings{fs: origin})
	n.join()
	n.mustCreate("a", 1)
	n.Stop(true)
	startNode(t, settings{fs: origin}).Stop(true)
	must(t, origin.Remove("data/__cluster_metadata-0/quorum-state"))
	must(t, origin.SyncDir("data/__cluster_metadata-0"))
	disk := []RecoveredTopic{{Name: "b", ID: [16]byte{1, 2}, Partitions: []int32{0}}}
	id, cluster := n.Identity()
	used := func(c *Config) { c.Used, c.ClusterID, c.DirectoryID = true, cluster, id }
	for k := int64(1); ; k++ {
		rng := rand.New(rand.NewPCG(uint64(k), 8))
		fs := origin.Fork()
		n := newTestNode(t, settings{fs: faultfs.Wrap(fs, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(k)), faultfs.EIO())), config: used, recovers: disk})
		err := n.Start()
		fs = fs.CrashClone(memfs.Crash{UnsyncedPct: rng.IntN(101), Rand: rng})
		n2 := startNode(t, settings{fs: fs, config: used, recovers: disk})
		if n2.Image().Topic("a") == nil || n2.Image().Topic("b") == nil {
			t.Fatalf("operation %d: topics %v", k, topicNames(n2.Image()))
		}
		if err == nil {
			return
		}
	}
}

// TestUnfinishedBootstrap: whatever a bootstrap left behind is begun anew, but
// never by a node that has a past.
func TestUnfinishedBootstrap(t *testing.T) {
	fs := newDisk()
	startNode(t, settings{fs: fs}).Stop(true)
	must(t, fs.RemoveAll("data/__cluster_metadata-0"))
	n := newTestNode(t, settings{fs: fs, config: func(c *Config) { c.Used = true }})
	if err := n.Start(); !errors.Is(err, ErrWiped) {
		t.Fatal(err)
	}
	startNode(t, settings{fs: fs})
}
