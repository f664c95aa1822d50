package host

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// crashAfter takes a picture of the disk, as a power failure leaves it, after a
// number of changes.
type crashAfter struct {
	left  int
	taken *memfs.FS
}

// run runs fn with the node's disk under watch and returns what a power failure
// at that moment leaves.
func (c *crashAfter) run(n *node, fn func()) *memfs.FS {
	watch := faultfs.When(predicateFunc(func(op faultfs.Op) bool {
		if c.taken == nil && op.Kind.Mutates() {
			if c.left == 0 {
				c.taken = n.disk.Fork().CrashClone(memfs.Crash{})
			} else {
				c.left--
			}
		}
		return false
	}), faultfs.EIO())
	wrapped := faultfs.Wrap(n.disk, watch)
	for _, d := range n.dirs.All() {
		d.fs = wrapped
	}
	fn()
	if c.taken == nil {
		c.left++
		c.taken = n.disk.CrashClone(memfs.Crash{})
	} else {
		c.left = 0
	}
	return c.taken
}

type predicateFunc func(faultfs.Op) bool

func (f predicateFunc) Match(op faultfs.Op) bool { return f(op) }
func (predicateFunc) String() string             { return "(watch)" }

func TestFullDisk(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(2, -1, 0)).want(t, 0, 0)
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable + 50)
	a := n.send(h, 1, batchOf(100, -1, 0))
	a.want(t, partition.CodeStorageError, -1)
	if s := h.State(); s.Role != partition.Leader || values(t, s) != 2 {
		t.Errorf("%+v, want it to lead and to serve reads", s.Mark)
	}
	n.rt.advance(70_000) // checkpoints can't be written, and that is no reason to stop
	n.flushAll()
	if n.dirs.Online() != 1 || h.State().Role != partition.Leader {
		t.Fatalf("a full disk took it offline: %v, %s", n.dirs.All()[0].Failure(), h.State().Reason)
	}
	n.disk.SetCapacity(0)
	n.send(h, 1, batchOf(100, -1, 0)).want(t, 0, 2)
	n.kill()
	n.start()
	if s := n.m.Get("t", 0).State(); s.LogEnd != 102 || values(t, s) != 102 {
		t.Errorf("log end %d after the restart, want 102: nothing of the refused append", s.LogEnd)
	}
}

// TestCreatedOnAFullDisk: a partition for which there was no room is writable once
// there is, whatever the room lacked for; nothing of the tries is left, and a start
// in between changes nothing.
func TestCreatedOnAFullDisk(t *testing.T) {
	refused := 0
	for room := int64(0); room <= 400; room += 25 {
		for _, restart := range []bool{false, true} {
			n, _ := leading(t, nil)
			usable, total, err := n.disk.Free("/data")
			if err != nil {
				t.Fatal(err)
			}
			n.disk.SetCapacity(total - usable + room)
			n.create("late", 1)
			if h := n.m.Get("late", 0); h.State().Role == partition.Offline {
				refused++
				n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
			}
			n.rt.advance(5_000)
			if restart {
				n.kill()
				n.start()
				n.register()
				n.rt.advance(5_000)
			}
			n.disk.SetCapacity(0)
			n.rt.advance(2_000)
			n.establish()
			h := n.m.Get("late", 0)
			if s := h.State(); s.Role != partition.Leader {
				t.Fatalf("room for %d bytes: %+v %s", room, s.Mark, s.Reason)
			}
			n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
			names, err := n.disk.List("/data")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.Contains(name, "-stray") {
					t.Errorf("room for %d bytes: %s is left", room, name)
				}
			}
			n.apply(&metadata.RemoveTopic{ID: topicID("late")})
			if n.dirs.Online() != 1 {
				t.Fatal(n.dirs.All()[0].Failure())
			}
		}
	}
	if refused < 4 {
		t.Errorf("the disk refused %d times", refused)
	}
}

// TestFullDiskWhileFlushing has no room even for the small files beside the log.
func TestFullDiskWhileFlushing(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	batch := batchOf(1, -1, 0)
	n.disk.SetCapacity(total - usable + int64(len(batch)))
	a := n.send(h, -1, batch) // fits, to the byte
	n.flushAll()
	n.rt.advance(1_000)
	n.flushAll()
	if len(a.produced) != 0 {
		t.Fatalf("answered %+v: the epoch file is not durable", a.produced)
	}
	n.send(h, -1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	if s := h.State(); s.Role != partition.Leader {
		t.Fatalf("a full disk took it offline: %s", s.Reason)
	}
	n.disk.SetCapacity(0)
	n.rt.advance(200)
	n.flushAll()
	a.want(t, 0, 0)
}

func TestFullDiskAtARoll(t *testing.T) {
	n, h := leading(t, map[string]string{"segment.bytes": "1048576"})
	n.send(h, 1, batchOf(40_000, -1, 0)).want(t, 0, 0)
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable + 100)
	n.send(h, 1, batchOf(40_000, -1, 0)).want(t, partition.CodeStorageError, -1)
	if s := h.State(); s.Role != partition.Leader || values(t, s) != 40_000 {
		t.Fatalf("%+v %s", s.Mark, s.Reason)
	}
	n.disk.SetCapacity(0)
	n.send(h, 1, batchOf(40_000, -1, 0)).want(t, 0, 40_000)
	n.kill()
	n.start()
	if s := n.m.Get("t", 0).State(); s.LogEnd != 80_000 || values(t, s) != 80_000 {
		t.Errorf("log end %d after the restart, want 80000", s.LogEnd)
	}
}

func TestIOErrorTakesOnePartitionOffline(t *testing.T) {
	n := newNode(t)
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Under("/data/t-0"), faultfs.OpIn(faultfs.OpWrite)), faultfs.EIO()))
	n.fs = faultfs.Wrap(n.disk, toggle)
	n.start()
	n.register()
	n.create("t", 2)
	h, other := n.m.Get("t", 0), n.m.Get("t", 1)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	toggle.On()
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	if s := h.State(); s.Role != partition.Offline || s.Code != partition.CodeStorageError || s.Reason == "" {
		t.Errorf("%+v, want it offline with a reason", s.Mark)
	}
	toggle.Off()
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1) // latched
	n.send(other, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	if n.dirs.Online() != 1 {
		t.Error("the whole directory went offline")
	}
}

func TestFailedFsyncTakesThePartitionOffline(t *testing.T) {
	n := newNode(t)
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData)), faultfs.FsyncFails()))
	n.fs = faultfs.Wrap(n.disk, toggle)
	n.topic["t"] = map[string]string{"flush.messages": "1"}
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	toggle.On()
	a, b := n.send(h, 1, batchOf(1, -1, 0)), n.send(h, -1, batchOf(1, -1, 0))
	n.flushAll()
	toggle.Off()
	a.want(t, partition.CodeStorageError, 0)
	b.want(t, partition.CodeStorageError, 1)
	if h.State().Role != partition.Offline {
		t.Error("it serves on after a failed fsync")
	}
}

func TestDirectoryFailure(t *testing.T) {
	n := newNode(t, "/a", "/b")
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("replication-offset-checkpoint*"), faultfs.Under("/a"), faultfs.Mutations()), faultfs.EIO()))
	n.fs = faultfs.Wrap(n.disk, toggle)
	n.start()
	n.register()
	n.create("t", 2)
	for _, h := range n.m.All() { // so that there is something to write down
		n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	}
	n.flushAll()
	toggle.On()
	n.rt.advance(10_000)
	if n.dirs.Online() != 1 {
		t.Fatalf("%d directories online, want 1", n.dirs.Online())
	}
	for _, h := range n.m.All() {
		want := Code(0)
		if h.Dir() == "/a" {
			want = partition.CodeStorageError
		}
		if a := n.send(h, 1, batchOf(1, -1, 0)); a.produced[0].Code != want {
			t.Errorf("%s in %s: code %d, want %d", h.TopicPartition(), h.Dir(), a.produced[0].Code, want)
		}
	}
	// New partitions go to the other directory.
	n.create("u", 1)
	if d := n.m.Get("u", 0).Dir(); d != "/b" {
		t.Errorf("placed in %q, want /b", d)
	}
	infos := n.m.DescribeDirs(nil)
	if infos[0].Code != partition.CodeStorageError || infos[1].Code != 0 {
		t.Errorf("described as %+v", infos)
	}
}

// failing is a message whose handling breaks an assertion.
type failing struct{}

func (failing) handle(*Hosted, model.Now, *loop.Outbox) { assert.Unreachable("on purpose") }

func TestFailedAssertionQuarantinesOnePartition(t *testing.T) {
	n := newNode(t)
	n.topic["t"] = map[string]string{"flush.messages": "1"}
	n.start()
	n.register()
	n.create("t", 2)
	h, other := n.m.Get("t", 0), n.m.Get("t", 1)
	waiting := n.send(h, -1, batchOf(1, -1, 0))
	w := &answers{}
	h.Wait(&FetchWait{Waiter: w, From: 0, Bound: partition.BoundHighWatermark, Seen: h.State()})
	h.box.Enter(failing{})
	waiting.want(t, partition.CodeStorageError, 0)
	if len(w.ready) != 1 {
		t.Error("the waiting fetch was not woken")
	}
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	if s := h.State(); s.Role != partition.Offline || s.Reason != "assertion failed: unreachable: on purpose" {
		t.Errorf("offline %v because %q", s.Role == partition.Offline, s.Reason)
	}
	a := n.send(other, 1, batchOf(1, -1, 0))
	n.flushAll()
	a.want(t, 0, 0)
}

func TestMessageInHandIsAnsweredWhenAnAssertionFails(t *testing.T) {
	spoil := func(h *Hosted) {
		spoiled := false
		h.m.scratch = sync.Pool{New: func() any {
			s := new(scratch)
			if !spoiled {
				spoiled, s.out.Write.Kind = true, partition.WriteTruncate // as if one were outstanding
			}
			return s
		}}
	}
	t.Run("produce", func(t *testing.T) {
		n, h := leading(t, nil)
		spoil(h)
		n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
		if h.State().Role != partition.Offline {
			t.Error("not quarantined")
		}
	})
	t.Run("delete records", func(t *testing.T) {
		n, h := leading(t, nil)
		n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
		spoil(h)
		a := &answers{}
		h.DeleteRecords(1, model.Never, a, 0)
		if len(a.deleted) != 1 || a.deleted[0] != "56 -1" {
			t.Errorf("%v, want one answer with 56", a.deleted)
		}
	})
	t.Run("before the core has taken charge", func(t *testing.T) {
		n, h := leading(t, nil)
		a := &answers{}
		op := &produceOp{h: h, waiter: a}
		h.unanswered.add(op)
		n.m.answerAfterFailure(h, op)
		a.want(t, partition.CodeStorageError, -1)
		d := &deleteOp{waiter: a}
		n.m.answerAfterFailure(h, d)
		n.m.answerAfterFailure(h, &producersOp{waiter: a})
		if len(a.deleted) != 1 {
			t.Errorf("%v, want one answer", a.deleted)
		}
	})
}

// answerAfterFailure handles op as if an assertion had failed at its first step.
func (m *ReplicaManager) answerAfterFailure(h *Hosted, op message) {
	h.box.Enter(&dying{op})
}

// dying fails while it handles another message.
type dying struct{ op message }

func (d *dying) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	defer h.guard(now, d.op, out)
	assert.Unreachable("on purpose")
}

func TestWatchdog(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	waiting := n.send(h, -1, batchOf(1, -1, 0))
	// A write that began and does not come back: the loop's owner sits in it.
	h.busySince.Store(int64(n.rt.Now().Mono))
	n.m.tasks[1].stop() // the flusher of old data would enter the loop
	n.rt.advance(9_000)
	if len(waiting.produced) != 0 {
		t.Fatal("given up too early")
	}
	n.rt.advance(3_000)
	waiting.want(t, partition.CodeStorageError, -1)
	if s := n.m.Stalled(); len(s) != 1 || s[0] != h {
		t.Errorf("stalled %v, want t-0", s)
	}
	n.send(h, 1, batchOf(1, -1, 0)).want(t, partition.CodeStorageError, -1)
	// It comes back.
	h.busySince.Store(0)
	h.resumed()
	n.flushAll()
	waiting.want(t, partition.CodeStorageError, -1) // answered once
	if len(n.m.Stalled()) != 0 {
		t.Error("still called stalled")
	}
	a := n.send(h, 1, batchOf(1, -1, 0))
	n.flushAll()
	a.want(t, 0, 1)
}

func TestUnreadablePartitionDirectory(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 2)
	n.stop()
	denied := faultfs.Fail(os.ErrPermission)
	n.fs = faultfs.Wrap(n.disk, faultfs.When(faultfs.Under("/data/t-1"), denied))
	if sum := n.start(); sum.Offline != 1 || sum.Loaded != 1 {
		t.Errorf("%+v, want one offline and one loaded", sum)
	}
}

var _ vfs.FS = (*memfs.FS)(nil)

// TestUnreadableCheckpoints: a disk that can't be read where the log starts or the
// recovery points are kept is not one that keeps none: nothing that was deleted
// comes back, and nothing that was durable is cut as the end of a crash.
func TestUnreadableCheckpoints(t *testing.T) {
	for _, name := range []string{checkpoint.LogStartFile, checkpoint.RecoveryPointFile} {
		n := newNode(t)
		n.start()
		n.register()
		n.create("t", 1)
		n.stop()
		denied := faultfs.Fail(os.ErrPermission)
		n.fs = faultfs.Wrap(n.disk, faultfs.When(faultfs.Under("/data/"+name), denied))
		if sum := n.start(); sum.Loaded != 0 || sum.Offline != 1 {
			t.Errorf("%s: %+v, want one offline", name, sum)
		}
		if n.dirs.All()[0].Online() {
			t.Errorf("%s: the directory passes for sound", name)
		}
	}
}
