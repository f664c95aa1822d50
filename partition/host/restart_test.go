package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
	"go.uber.org/zap"
)

func TestKindsOfStop(t *testing.T) {
	fresh := func() *node {
		n := newNode(t)
		n.start()
		n.register()
		n.create("t", 1)
		n.send(n.m.Get("t", 0), 1, batchOf(3, -1, 0)).want(t, 0, 0)
		return n
	}
	report := func(n *node) StopReport {
		n.start()
		return n.dirs.Report()
	}
	t.Run("first start", func(t *testing.T) {
		n := newNode(t)
		if r := report(n); r.Stop != log.StopPower || r.BrokerEpoch != -1 {
			t.Errorf("%+v, want power: nothing is known", r)
		}
	})
	t.Run("clean", func(t *testing.T) {
		n := fresh()
		n.stop()
		if r := report(n); r.Stop != log.StopClean || r.BrokerEpoch != n.epoch {
			t.Errorf("%+v, want clean under epoch %d", r, n.epoch)
		}
		if s := n.m.Get("t", 0).State(); s.LogEnd != 3 || s.HighWatermark != 3 || s.RecoveryPoint != 3 {
			t.Errorf("after a clean stop %+v, recovery point %d, want 3 everywhere", s.Mark, s.RecoveryPoint)
		}
		if _, err := n.fs.Stat("/data/" + checkpoint.CleanShutdownFile); err == nil {
			t.Error("the marker is still there while the broker runs")
		}
	})
	t.Run("process", func(t *testing.T) {
		n := fresh()
		n.kill()
		if r := report(n); r.Stop != log.StopProcess || r.BrokerEpoch != n.epoch {
			t.Errorf("%+v, want process under epoch %d", r, n.epoch)
		}
		if s := n.m.Get("t", 0).State(); s.LogEnd != 3 {
			t.Errorf("log end %d after the kill, want 3", s.LogEnd)
		}
	})
	t.Run("power", func(t *testing.T) {
		n := fresh()
		n.power()
		if r := report(n); r.Stop != log.StopPower || r.BrokerEpoch != n.epoch {
			t.Errorf("%+v, want power under epoch %d", r, n.epoch)
		}
	})
	t.Run("a kill before the registration doesn't hide a power failure", func(t *testing.T) {
		n := fresh()
		n.power()
		n.start()
		n.kill()
		if r := report(n); r.Stop != log.StopPower {
			t.Errorf("%+v, want power: the controller wasn't told", r)
		}
		n.register()
		n.kill()
		if r := report(n); r.Stop != log.StopProcess {
			t.Errorf("%+v, want process: the controller was told", r)
		}
	})
	t.Run("another mount", func(t *testing.T) {
		n := fresh()
		n.kill()
		r, _ := readRun(n.fs, "/data/"+runFile)
		r.Mount = "elsewhere"
		if err := writeRun(n.fs, "/data/"+runFile, r); err != nil {
			t.Fatal(err)
		}
		if r := report(n); r.Stop != log.StopPower {
			t.Errorf("%+v, want power", r)
		}
	})
	t.Run("a marker of another registration", func(t *testing.T) {
		n := fresh()
		n.kill()
		err := checkpoint.WriteCleanShutdown(n.fs, "/data/"+checkpoint.CleanShutdownFile, checkpoint.CleanShutdown{BrokerEpoch: n.epoch + 5})
		if err != nil {
			t.Fatal(err)
		}
		if r := report(n); r.Stop != log.StopPower {
			t.Errorf("%+v, want power: the marker was copied here", r)
		}
	})
	t.Run("heartbeats", func(t *testing.T) {
		n := fresh()
		n.dirs.Heartbeat(41)
		n.kill()
		if r := report(n); r.Heartbeat != 41 {
			t.Errorf("%+v, want heartbeat 41", r)
		}
	})
}

func TestDirectoriesAreChecked(t *testing.T) {
	n := newNode(t)
	n.start()
	open := func(node model.BrokerID, cluster string, paths ...string) error {
		d, err := OpenDirs(DirOptions{
			FS: n.fs, Paths: paths, NodeID: node, ClusterID: cluster,
			Rand: rand.New(rand.NewPCG(9, 9)), Logger: n.m.logger,
		})
		if err == nil {
			err = d.Claim(testCluster)
			d.Close()
		}
		return err
	}
	if err := open(1, ""); err == nil {
		t.Error("no directories, no error")
	}
	if err := open(1, "", "/data"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second process: %v, want locked", err)
	}
	n.stop()
	if err := open(2, "", "/data"); !errors.Is(err, ErrForeignDir) {
		t.Errorf("another node: %v, want foreign", err)
	}
	if err := open(1, "other", "/data"); !errors.Is(err, ErrForeignDir) {
		t.Errorf("another cluster: %v, want foreign", err)
	}
	if _, err := n.fs.Stat("/data/" + checkpoint.CleanShutdownFile); err != nil {
		t.Errorf("a refused start took the marker away: %v", err)
	}
	text, _ := vfs.ReadFile(n.fs, "/data/meta.properties")
	_ = n.fs.MkdirAll("/copy", 0o755)
	if err := vfs.WriteFileAtomic(n.fs, "/copy/meta.properties", text); err != nil {
		t.Fatal(err)
	}
	if err := open(1, "", "/data", "/copy"); !errors.Is(err, ErrForeignDir) || !strings.Contains(err.Error(), "same directory id") {
		t.Errorf("a copied directory: %v, want a refusal", err)
	}
	if err := vfs.WriteFileAtomic(n.fs, "/copy/meta.properties", []byte("version=1\n")); err != nil {
		t.Fatal(err)
	}
	if err := open(1, "", "/copy"); !errors.Is(err, ErrForeignDir) {
		t.Errorf("unreadable meta.properties: %v, want a refusal", err)
	}
	if err := open(1, testCluster, "/data"); err != nil {
		t.Errorf("its own directory: %v", err)
	}
}

func TestVirginDirectories(t *testing.T) {
	n := newNode(t, "/a", "/b")
	n.start()
	if !n.dirs.Virgin() {
		t.Error("new directories are not virgin")
	}
	if n.dirs.All()[0].ID() == n.dirs.All()[1].ID() {
		t.Error("two directories got the same id")
	}
	id := n.dirs.All()[0].ID()
	n.stop()
	n.start()
	if n.dirs.Virgin() || n.dirs.ClusterID() != testCluster {
		t.Errorf("virgin %v, cluster %q after a first life", n.dirs.Virgin(), n.dirs.ClusterID())
	}
	if n.dirs.All()[0].ID() != id {
		t.Error("the directory id changed")
	}
}

// TestDirectoryIDIsDurableBeforeTheCluster: a first start that dies before it
// wrote meta.properties is taken up under the same ids, of which others may know;
// what is left of a used directory that was wiped with care for its dotfiles only
// gives no name away.
func TestDirectoryIDIsDurableBeforeTheCluster(t *testing.T) {
	fs := memfs.New()
	open := func(fs vfs.FS, seed uint64) (*Dirs, error) {
		return OpenDirs(DirOptions{FS: fs, Paths: []string{"/a", "/b"}, NodeID: 1, Rand: rand.New(rand.NewPCG(seed, 9)), Logger: zap.NewNop()})
	}
	ids := func(d *Dirs) [2]checkpoint.DirectoryID {
		return [2]checkpoint.DirectoryID{d.All()[0].ID(), d.All()[1].ID()}
	}
	first, err := open(fs, 1)
	if err != nil {
		t.Fatal(err)
	}
	fs = fs.CrashClone(memfs.Crash{})
	second, err := open(fs, 2)
	if err != nil {
		t.Fatal(err)
	}
	if ids(second) != ids(first) || !second.Virgin() {
		t.Errorf("ids %v, then %v; virgin %v", ids(first), ids(second), second.Virgin())
	}
	if err := second.Claim(testCluster); err != nil {
		t.Fatal(err)
	}
	second.Close()
	for _, path := range []string{"/a/", "/b/"} {
		if err := fs.Remove(path + checkpoint.MetaPropertiesFile); err != nil {
			t.Fatal(err)
		}
	}
	third, err := open(fs, 3)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := ids(second), ids(third); a[0] == b[0] || a[1] == b[1] {
		t.Errorf("wiped directories keep their ids %v", b)
	}
	full := faultfs.Wrap(memfs.New(), faultfs.When(faultfs.OpIn(faultfs.OpWrite), faultfs.ENOSPC(0)))
	if _, err := open(full, 4); err == nil {
		t.Error("directories whose ids could not be written are used")
	}
}

func TestImageOlderThanTheDirectoriesIsRefused(t *testing.T) {
	n, _ := leading(t, nil)
	n.kill()
	n.img = metadata.Empty()
	if _, err := n.tryStart(); !errors.Is(err, ErrOldImage) {
		t.Fatalf("an empty image: %v, want a refusal", err)
	}
	if _, err := n.fs.Stat("/data/t-0"); err != nil {
		t.Errorf("the partition was touched: %v", err)
	}
}

func TestDamagedPartitionGoesOfflineAlone(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 2)
	for p := range int32(2) {
		n.send(n.m.Get("t", p), 1, batchOf(5, -1, 0)).want(t, 0, 0)
	}
	n.stop()
	file := "/data/t-0/" + fmt.Sprintf("%020d.log", 0)
	before, err := vfs.ReadFile(n.fs, file)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), before...)
	bad[70] ^= 1
	if err := vfs.WriteFileAtomic(n.fs, file, bad); err != nil {
		t.Fatal(err)
	}
	// The recovery point says that all of it was durable.
	_ = checkpoint.RemoveCleanShutdown(n.fs, "/data/"+checkpoint.CleanShutdownFile)
	if err := checkpoint.WriteOffsets(n.fs, "/data/"+checkpoint.RecoveryPointFile, checkpoint.Offsets{
		{Topic: "t", Partition: 0}: 3, {Topic: "t", Partition: 1}: 3}); err != nil {
		t.Fatal(err)
	}
	// The bad batch is followed by a good one: no stop of a process explains that.
	if err := vfs.WriteFileAtomic(n.fs, file, append(bad, shifted(before, 5)...)); err != nil {
		t.Fatal(err)
	}
	sum := n.start()
	if sum.Offline != 1 || sum.Loaded != 1 {
		t.Fatalf("%+v, want one offline and one loaded", sum)
	}
	n.register()
	bad0, good := n.m.Get("t", 0), n.m.Get("t", 1)
	n.send(bad0, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	n.send(good, 1, batchOf(1, -1, 0)).want(t, 0, 5)
	if c := bad0.State().FetchBounds(0, -1, -1, ReadUncommitted, true).Code; c != partition.CodeStorageError {
		t.Errorf("fetch: code %d, want %d", c, partition.CodeStorageError)
	}
	if f := n.m.FailedReplicas(); len(f) != 1 || f[0].Reason == "" {
		t.Errorf("failed replicas %+v, want t-0 with a reason", f)
	}
	n.stop()
	after, _ := vfs.ReadFile(n.fs, file)
	if len(after) != len(bad)+len(before) {
		t.Errorf("the damaged file has %d bytes now, want %d", len(after), len(bad)+len(before))
	}
	// The marker speaks for the other log only: the damage is found again, and what
	// is known of the damaged one is kept.
	if sum := n.start(); sum.Offline != 1 || sum.Loaded != 1 || n.dirs.Report().Stop != log.StopClean {
		t.Errorf("%+v after a stop of kind %v, want clean, one offline and one loaded", sum, n.dirs.Report().Stop)
	}
	n.rt.advance(61_000)
	points, err := checkpoint.ReadOffsets(n.fs, "/data/"+checkpoint.RecoveryPointFile)
	if points[model.TopicPartition{Topic: "t"}] != 3 || err != nil {
		t.Errorf("recovery points %v, %v: the damaged partition's is missing", points, err)
	}
}

// shifted returns the batch with a later base offset, which the CRC doesn't
// cover.
func shifted(batch []byte, base byte) []byte {
	c := append([]byte(nil), batch...)
	c[7] = base
	return c
}

func TestLostReplicaIsNotMadeAnew(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	if err := n.fs.RemoveAll("/data/t-0"); err != nil {
		t.Fatal(err)
	}
	sum := n.start()
	if sum.Offline != 1 || sum.Created != 0 {
		t.Fatalf("%+v, want the lost replica offline", sum)
	}
	if _, err := n.fs.Stat("/data/t-0"); err == nil {
		t.Error("an empty directory was made for it")
	}
	n.stop()
	if sum := n.start(); sum.Offline != 1 {
		t.Errorf("%+v at the next start, want it still offline", sum)
	}
	t.Run("the whole directory", func(t *testing.T) {
		n, _ := leading(t, nil)
		n.stop()
		if err := n.fs.RemoveAll("/data"); err != nil {
			t.Fatal(err)
		}
		if sum := n.start(); sum.Offline != 1 {
			t.Errorf("%+v, want the lost replica offline", sum)
		}
		n.stop()
		if sum := n.start(); sum.Offline != 1 {
			t.Errorf("%+v at the next start, want it still offline", sum)
		}
	})
	t.Run("last known", func(t *testing.T) {
		n, _ := leading(t, nil)
		n.stop()
		if err := n.fs.RemoveAll("/data/t-0"); err != nil {
			t.Fatal(err)
		}
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.ISR, c.ELR, c.LastKnown, c.Leader = []model.BrokerID{}, []model.BrokerID{}, []model.BrokerID{1}, model.NoLeader
		n.commit(c)
		if sum := n.start(); sum.Offline != 1 || sum.Created != 0 {
			t.Errorf("%+v, want the lost replica offline", sum)
		}
		n.register()
		n.rt.advance(5_000)
		if s := n.m.Get("t", 0).State(); s.Role != partition.Offline {
			t.Errorf("made anew while it may be asked for what it had: %+v", s.Mark)
		}
		c = metadata.NewPartitionChange(topicID("t"), 0)
		c.LastKnown = []model.BrokerID{}
		n.apply(c)
		n.rt.advance(2_000)
		if s := n.m.Get("t", 0).State(); s.Role != partition.Follower {
			t.Errorf("nobody counts on it any more, and it is not made anew: %+v", s.Mark)
		}
	})
	t.Run("created while the broker was down", func(t *testing.T) {
		n := newNode(t)
		n.start()
		n.register()
		n.kill()
		n.commit(topicRecords("late", 2)...)
		if sum := n.start(); sum.Created != 2 {
			t.Errorf("%+v, want two new partitions created", sum)
		}
	})
}

func TestStrayDirectoriesAreKeptAside(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	// Removed and made again under its name while the broker was down: the bytes
	// are another topic's.
	n.commit(&metadata.RemoveTopic{ID: topicID("t")})
	recs := topicRecords("t", 1)
	other := topicID("u")
	recs[0].(*metadata.TopicRecord).ID, recs[1].(*metadata.PartitionRecord).TopicID = other, other
	n.commit(recs...)
	sum := n.start()
	if sum.Stray != 1 || sum.Created != 1 {
		t.Fatalf("%+v, want one stray and one created", sum)
	}
	if s := n.m.Get("t", 0).State(); s.LogEnd != 0 {
		t.Errorf("the new topic shows %d of the old one's records", s.LogEnd)
	}
	if names := dirNames(t, n, "-stray"); len(names) != 1 {
		t.Errorf("stray directories %v, want one", names)
	}
	n.rt.advance(600_000)
	if names := dirNames(t, n, "-stray"); len(names) != 1 {
		t.Error("the stray directory was removed")
	}
}

func dirNames(t *testing.T, n *node, suffix string) (found []string) {
	t.Helper()
	names, err := n.fs.List("/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	return found
}

func TestTopicDeletion(t *testing.T) {
	n, h := leading(t, map[string]string{"file.delete.delay.ms": "60000"})
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.flushAll()
	a := &answers{}
	h.Wait(&FetchWait{Waiter: a, From: 3, Bound: partition.BoundHighWatermark, Seen: h.State()})
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	if n.m.Get("t", 0) != nil || n.m.GetByID(h.ID()) != nil || len(n.m.All()) != 0 {
		t.Error("the partition is still found")
	}
	if len(a.ready) != 1 {
		t.Error("the waiting fetch was not woken")
	}
	n.send2(h).want(t, partition.CodeUnknownTopicOrPartition, -1)
	if names := dirNames(t, n, "-delete"); len(names) != 1 {
		t.Fatalf("%v, want one directory that waits for its removal", names)
	}
	n.rt.advance(59_000)
	if names := dirNames(t, n, "-delete"); len(names) != 1 {
		t.Error("removed too early")
	}
	n.rt.advance(3_000)
	if names := dirNames(t, n, "-delete"); len(names) != 0 {
		t.Errorf("%v are still there", names)
	}
	n.create("t", 1)
	if s := n.m.Get("t", 0).State(); s.Role != partition.Leader || s.LogEnd != 0 {
		t.Errorf("a topic of the same name: %+v", s.Mark)
	}
	// One that a crash left is removed after the restart.
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	n.kill()
	n.start()
	n.rt.advance(2_000)
	if names := dirNames(t, n, "-delete"); len(names) != 0 {
		t.Errorf("%v are still there after a restart", names)
	}
}

func (n *node) send2(h *Hosted) *answers {
	a := &answers{}
	h.Produce(ProduceMsg{Prepared: prepare(n.t, n, batchOf(1, -1, 0)), Acks: 1, Waiter: a, Deadline: model.Never})
	return a
}

// TestCreationAtEveryCrash cuts the power after each operation of creating a
// topic: the partition is served after the restart, never lost.
func TestCreationAtEveryCrash(t *testing.T) {
	for k := 0; ; k++ {
		n := newNode(t)
		n.start()
		n.register()
		crash := &crashAfter{left: k}
		n.fs = nil
		img, delta := n.commit(topicRecords("t", 2)...)
		snapshot := crash.run(n, func() { n.m.Apply(img, delta) })
		n.disk, n.fs, n.boot = snapshot, snapshot, n.boot+"+"
		sum := n.start()
		if sum.Offline != 0 || sum.Loaded+sum.Created != 2 {
			t.Fatalf("power cut after operation %d: %+v, want two partitions served", k, sum)
		}
		n.register()
		n.send(n.m.Get("t", 0), 1, batchOf(1, -1, 0)).want(t, 0, 0)
		if crash.left > 0 {
			if k < 10 {
				t.Fatalf("only %d operations were counted", k)
			}
			return
		}
	}
}

// TestAcknowledgedSurvivesKills runs rounds of produce, kill and restart, with
// every acknowledged record counted.
func TestAcknowledgedSurvivesKills(t *testing.T) {
	for seed := uint64(0); seed < 30; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := newNode(t)
		n.topic["t"] = map[string]string{"segment.bytes": "1048576", "flush.messages": []string{"1", "3", "1000000"}[rng.IntN(3)]}
		n.start()
		n.register()
		n.create("t", 1)
		acked := model.Offset(0)
		for round := range 6 {
			h := n.m.Get("t", 0)
			if s := h.State(); s.LogEnd < acked {
				t.Fatalf("seed %d round %d: log end %d, %d was acknowledged", seed, round, s.LogEnd, acked)
			}
			for range rng.IntN(8) {
				a := n.send(h, int16([]int{1, -1}[rng.IntN(2)]), batchOf(1+rng.IntN(3), -1, 0))
				if rng.IntN(2) == 0 {
					n.flushAll()
				}
				for _, r := range a.produced {
					if r.Code == 0 {
						acked = max(acked, r.BaseOffset+1)
					}
				}
			}
			if rng.IntN(3) == 0 {
				n.rt.advance(61_000)
			}
			if rng.IntN(4) == 0 {
				n.stop()
			} else {
				n.disk = n.disk.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(rng)})
				n.fs = n.disk
				// A write cut short was not acknowledged: the write call had not
				// returned. Only the very last one can be.
				acked = 0
				probe := n.start()
				if probe.Offline != 0 {
					t.Fatalf("seed %d round %d: %+v", seed, round, probe)
				}
				acked = n.m.Get("t", 0).State().LogEnd
				n.register()
				continue
			}
			n.start()
			n.register()
		}
	}
}

// TestFlushedSurvivesPower is the promise of flush.messages=1: whatever the
// disk had not synced is lost or torn, and nothing acknowledged is.
func TestFlushedSurvivesPower(t *testing.T) {
	for seed := uint64(0); seed < 40; seed++ {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := newNode(t)
		n.topic["t"] = map[string]string{"flush.messages": "1", "segment.bytes": "1048576"}
		n.start()
		n.register()
		n.create("t", 1)
		acked := model.Offset(0)
		for round := range 5 {
			h := n.m.Get("t", 0)
			if s := h.State(); s.Role != partition.Leader || s.LogEnd < acked {
				t.Fatalf("seed %d round %d: %+v %s, %d was acknowledged", seed, round, s.Mark, s.Reason, acked)
			}
			var waiting []*answers
			for range rng.IntN(8) {
				waiting = append(waiting, n.send(h, int16([]int{1, -1}[rng.IntN(2)]), batchOf(1+rng.IntN(3), -1, 0)))
				if rng.IntN(2) == 0 {
					n.flush["/data"].run()
					n.rt.idle()
				}
			}
			if rng.IntN(3) == 0 {
				n.rt.advance(61_000)
			}
			for _, a := range waiting {
				for _, r := range a.produced {
					if r.Code == 0 {
						acked = max(acked, r.BaseOffset+1)
					}
				}
			}
			n.disk = n.disk.CrashClone(memfs.Crash{UnsyncedPct: rng.IntN(101), Torn: rng.IntN(2) == 0, Rand: rng})
			n.fs, n.boot = n.disk, n.boot+"+"
			n.start()
			n.register()
		}
	}
}

func TestIdempotenceSurvivesAKill(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, -1, batchOf(3, 7, 0)).want(t, 0, 0)
	n.send(h, -1, batchOf(2, 7, 3)).want(t, 0, 3)
	n.kill()
	n.start()
	n.register()
	h = n.m.Get("t", 0)
	n.send(h, -1, batchOf(2, 7, 3)).want(t, 0, 3)
	n.send(h, -1, batchOf(1, 7, 9)).want(t, partition.CodeOutOfOrderSequence, -1)
	n.send(h, -1, batchOf(1, 7, 5)).want(t, 0, 5)
	a := &answers{}
	h.DescribeProducers(a, 0)
	if len(a.found) != 1 || a.found[0].ID != 7 || a.found[0].LastSequence != 5 || a.found[0].TxnStart != -1 {
		t.Errorf("producers %+v, want id 7 with sequence 5", a.found)
	}
}

func TestNothingLeadsBeforeTheRegistration(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	n.kill()
	n.start()
	h = n.m.Get("t", 0)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeNotLeaderOrFollower, -1)
	n.apply(&metadata.NoOp{}) // an image of the former life still says that 1 leads
	if h.State().Role == partition.Leader {
		t.Fatal("it leads by metadata older than its registration")
	}
	n.register()
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 1)
	if s := h.State(); s.LeaderEpoch < 1 {
		t.Errorf("leader epoch %d, want a new one", s.LeaderEpoch)
	}
}

func TestTwoDirectories(t *testing.T) {
	n := newNode(t, "/a", "/b")
	n.start()
	n.register()
	n.create("t", 4)
	count := map[string]int{}
	for _, h := range n.m.All() {
		count[h.Dir()]++
		n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	}
	if count["/a"] != 2 || count["/b"] != 2 {
		t.Errorf("placed %v, want two in each", count)
	}
	n.kill()
	if sum := n.start(); sum.Loaded != 4 {
		t.Fatalf("%+v, want four loaded", sum)
	}
	for _, info := range n.m.DescribeDirs(nil) {
		if info.Code != 0 || len(info.Replicas) != 2 || info.Replicas[0].Size == 0 {
			t.Errorf("%+v, want two replicas with bytes", info)
		}
	}
	// The same partition in both: nobody can tell which is right.
	n.kill()
	h := n.m.Get("t", 0)
	other := map[string]string{"/a": "/b", "/b": "/a"}[h.Dir()]
	text, _ := vfs.ReadFile(n.fs, filepath.Join(h.Dir(), "t-0", checkpoint.PartitionMetadataFile))
	_ = n.fs.MkdirAll(filepath.Join(other, "t-0"), 0o755)
	if err := vfs.WriteFileAtomic(n.fs, filepath.Join(other, "t-0", checkpoint.PartitionMetadataFile), text); err != nil {
		t.Fatal(err)
	}
	if sum := n.start(); sum.Offline != 1 || sum.Loaded != 3 {
		t.Errorf("%+v, want the doubled partition offline", sum)
	}
}
