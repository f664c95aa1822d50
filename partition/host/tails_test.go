package host

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/partition"
)

// withTails is a node that was killed with three records above the recovery point of
// each of t's partitions, and not started yet.
func withTails(t *testing.T, parts int, overrides map[string]string) *node {
	n := newNode(t)
	n.topic["t"] = overrides
	n.start()
	n.register()
	n.create("t", parts)
	for p := range parts {
		n.send(n.m.Get("t", int32(p)), 1, batchOf(3, -1, 0))
	}
	n.kill()
	return n
}

// synced are the partitions whose recovery points have reached their logs' ends.
func (n *node) synced() (list []int32) {
	for _, h := range n.m.All() {
		if s := h.State(); s.View != nil && s.RecoveryPoint == s.LogEnd {
			list = append(list, h.tp.Partition)
		}
	}
	return list
}

// After a kill partitions serve before anything of them is synced. A few at a time are
// synced behind that, and then no loss of power takes what was found.
func TestTailsAreSyncedBehindAStart(t *testing.T) {
	const parts = 11
	n := withTails(t, parts, nil)
	n.start()
	n.register()
	for p := range parts {
		if s := n.m.Get("t", int32(p)).State(); s.Role != partition.Leader || values(t, s) != 3 || s.RecoveryPoint != 0 {
			t.Fatalf("t-%d: %+v, recovery point %d", p, s.Mark, s.RecoveryPoint)
		}
	}
	f := n.flush["/data"]
	for done := 0; len(n.synced()) < parts; {
		n.rt.idle()
		if len(f.jobs) == 0 || len(f.jobs) > tailsAtOnce {
			t.Fatalf("%d flushes at a time, %d partitions synced", len(f.jobs), done)
		}
		f.jobs[0].Run()
		f.jobs[0].Done()
		f.jobs = f.jobs[1:]
		n.rt.idle()
		if done++; len(n.synced()) != done {
			t.Fatalf("%d flushes, synced are %v", done, n.synced())
		}
	}
	n.power()
	n.start()
	for p := range parts {
		if got := values(t, n.m.Get("t", int32(p)).State()); got != 3 {
			t.Errorf("t-%d has %d records after a loss of power", p, got)
		}
	}
}

// A tail that does not reach the disk costs its own partition, which is in doubt from
// then on. Neither that nor one that has left keeps the others from their turn.
func TestTailsOfOthersGoOn(t *testing.T) {
	n := withTails(t, 11, nil)
	bad := faultfs.And(faultfs.PathMatch("/data/t-0/*.log"), faultfs.OpIn(faultfs.OpSyncData))
	n.fs = faultfs.Wrap(n.disk, faultfs.When(bad, faultfs.FsyncFails()))
	n.start()
	for _, p := range []int32{1, 2, 9} { // two whose turn has come, and one that waits
		if p != 1 {
			n.rt.idle()
		}
		n.m.Get("t", p).box.Enter(&offlineMsg{code: partition.CodeStorageError, reason: "of the test"})
	}
	n.rt.idle()
	if jobs := len(n.flush["/data"].jobs); jobs > tailsAtOnce {
		t.Errorf("%d flushes at a time", jobs)
	}
	n.flushAll()
	if got, want := n.synced(), []int32{3, 4, 5, 6, 7, 8, 10}; !slices.Equal(got, want) {
		t.Errorf("synced are %v, want %v", got, want)
	}
	if s := n.m.Get("t", 0).State(); s.Role != partition.Offline {
		t.Errorf("t-0 serves on after a failed fsync: %+v", s.Mark)
	}
	n.kill()
	n.start()
	if got, want := n.m.Doubtful(), []model.TopicIDPartition{{TopicID: topicID("t")}}; !slices.Equal(got, want) {
		t.Errorf("in doubt: %v, want %v", got, want)
	}
}

// holding is an Executor that puts the writes of as many partitions off for ever as
// may be at it, but for the first so many.
type holding struct{}

func (holding) Start(w *Work) bool {
	p := w.Partition().Partition
	return p < tailsAtOnce || p >= 2*tailsAtOnce
}

// A partition that waits for a write before its flush, and goes offline in it, makes
// way as well.
func TestTailsBehindAWrite(t *testing.T) {
	n := withTails(t, 11, nil)
	n.exec = holding{}
	n.start()
	n.register()
	n.flushAll() // then it is those whose epochs are still being written
	if got, want := n.synced(), []int32{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Fatalf("synced are %v, want %v", got, want)
	}
	for p := range int32(tailsAtOnce) {
		n.m.Get("t", tailsAtOnce+p).box.Enter(&offlineMsg{code: partition.CodeStorageError, reason: "of the test"})
	}
	n.rt.idle()
	n.flushAll()
	if got, want := n.synced(), []int32{0, 1, 2, 3, 8, 9, 10}; !slices.Equal(got, want) {
		t.Errorf("synced are %v, want %v", got, want)
	}
}

// With flush before ack the high watermark waits for the disk: their tails go first,
// and as what somebody waits for.
func TestTailsWithFlushBeforeAckGoFirst(t *testing.T) {
	n := newNode(t)
	n.topic["u"] = map[string]string{"flush.messages": "1"}
	n.start()
	n.register()
	n.create("t", 6)
	n.create("u", 2)
	for _, h := range n.m.All() {
		n.send(h, 1, batchOf(3, -1, 0))
	}
	n.kill()
	n.start()
	n.rt.idle()
	for i, want := range []string{"u-0", "u-1", "t-0", "t-1"} {
		f := n.flush["/data"].jobs[i].(*flush)
		if got := f.h.tp.String(); got != want {
			t.Errorf("flush %d is of %s, want %s", i, got, want)
		}
		if urgent := f.h.flushSince.Load() != 0; urgent != (f.h.tp.Topic == "u") {
			t.Errorf("%s: somebody waits: %t", f.h.tp, urgent)
		}
	}
}

// An orderly stop right behind a start leaves the tails that have not begun: it syncs
// all of them by itself, many at a time.
func TestStopLeavesTheTails(t *testing.T) {
	n := withTails(t, 11, nil)
	n.start()
	n.rt.idle()
	f := n.flush["/data"]
	n.stop()
	if f.ran > tailsAtOnce {
		t.Errorf("%d flushes before the logs were closed", f.ran)
	}
	if d := n.dirs.All()[0]; len(d.tails.waiting) > 0 {
		t.Errorf("%d partitions still wait for their turn", len(d.tails.waiting))
	}
	n.power()
	n.start()
	if got := n.synced(); len(got) != 11 {
		t.Errorf("synced are %v", got)
	}
}

// While the fsyncs of one directory hang the node starts, and all that it has serves.
func TestStartBesideAHungSync(t *testing.T) {
	b := newTwoDisks(t, memfs.New(), metadata.Empty(), faultfs.Not(faultfs.Always()), nil)
	b.register()
	b.apply(topicRecords("t", 8)...)
	for p := range 8 {
		if code := b.produce(b.m.Get("t", int32(p)), 20*stallTimeout); code != 0 {
			t.Fatalf("t-%d: %d", p, code)
		}
	}
	if err := b.m.Shutdown(false); err != nil {
		t.Error(err)
	}
	b.dirs.Close()
	b.rt.Stop()
	b.group.Wait()

	syncs := faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData))
	b = startTwoDisks(t, b.disk.KillClone(memfs.Kill{}), b.img, syncs, nil, true)
	for p := range 8 {
		if s := b.m.Get("t", int32(p)).State(); s.View == nil || values(t, s) != 1 {
			t.Errorf("t-%d: %+v", p, s.Mark)
		}
	}
	one, _, _ := b.parts("t", 8)
	b.eventually("the tails of the other directory are synced", func() bool {
		return !slices.ContainsFunc(one, func(h *Hosted) bool { return h.State().RecoveryPoint != 1 })
	})
	close(b.goOn)
	b.stop()
}
