package host

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// syncFails has an fsync of t-0 fail in a node that leads t-0 and t-1, while all
// disk operations that also matches fail too.
func syncFails(t *testing.T, also faultfs.Predicate, paths ...string) *node {
	t.Helper()
	n := newNode(t, paths...)
	logs := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData)), faultfs.FsyncFails()))
	rest := faultfs.NewToggle(faultfs.When(also, faultfs.EIO()))
	n.fs = faultfs.Wrap(faultfs.Wrap(n.disk, logs), rest)
	n.start()
	n.register()
	n.create("t", 2)
	n.send(n.m.Get("t", 1), 1, batchOf(3, -1, 0))
	n.send(n.m.Get("t", 0), 1, batchOf(4, -1, 0))
	n.flushAll()
	for _, h := range n.m.All() {
		h.box.Enter(&flushOldMsg{})
	}
	n.flushAll() // what was appended so far is durable
	n.send(n.m.Get("t", 0), 1, batchOf(5, -1, 0))
	logs.On()
	rest.On()
	n.m.Get("t", 0).box.Enter(&flushOldMsg{})
	n.flushAll()
	logs.Off()
	rest.Off()
	if n.m.Get("t", 0).State().Role != partition.Offline {
		t.Fatal("it serves on after a failed fsync")
	}
	return n
}

var nothing = faultfs.Not(faultfs.Always())

// A partition of which an fsync failed is, at the next start, one after a loss of
// power, though the machine never went down and the others keep their seats. The
// controller is told; then it is forgotten.
func TestFailedFsyncIsPowerAtTheNextStart(t *testing.T) {
	n := syncFails(t, nothing)
	bad := model.TopicIDPartition{TopicID: topicID("t")}
	for range 2 { // a second crash before the controller was told hides nothing
		n.kill()
		n.start()
		if got := n.m.Doubtful(); !slices.Equal(got, []model.TopicIDPartition{bad}) {
			t.Fatalf("in doubt: %v, want %v", got, bad)
		}
		if stop := n.dirs.Report().Stop; stop != log.StopProcess {
			t.Fatalf("the broker's stop is %s, want %s", stop, log.StopProcess)
		}
		if s := n.m.Get("t", 0).State(); s.View == nil || s.LogEnd != 4 {
			t.Fatalf("t-0: %+v %s, want the 4 records that were synced", s.Mark, s.Reason)
		}
	}
	n.register()
	if got := n.m.Doubtful(); len(got) > 0 {
		t.Fatalf("in doubt after the controller was told: %v", got)
	}
	n.kill()
	n.start()
	if got := n.m.Doubtful(); len(got) > 0 {
		t.Fatalf("in doubt at the start after the next: %v", got)
	}
}

// What stands above the recovery point of such a log is copied into new files: an
// fsync of the old ones would say nothing.
func TestDoubtfulLogIsRenewed(t *testing.T) {
	n := syncFails(t, nothing)
	n.kill()
	path := "/data/t-0/00000000000000000000.log"
	var synced []string
	n.fs = faultfs.Wrap(n.disk, faultfs.When(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData, faultfs.OpRename), faultfs.Stall(func(op faultfs.Op) {
		synced = append(synced, op.Kind.String()+" "+op.Path)
	})))
	n.start()
	copied := slices.Index(synced, "sync "+path+".tmp")
	if copied < 0 || !slices.Contains(synced[copied:], "rename "+path+".tmp") {
		t.Fatalf("no new file for what is in doubt: %q", synced)
	}
}

// Where the list of such partitions can't be written, whatever can be written says
// that the next start is one after a loss of power: the run record, its absence,
// the records of other directories; and if nothing can, it is tried again.
func TestFailedFsyncThatCannotBeNoted(t *testing.T) {
	list := faultfs.And(faultfs.PathMatch(doubtFile+"*"), faultfs.Mutations())
	record := faultfs.And(faultfs.PathMatch(runFile+"*"), faultfs.Not(faultfs.OpIn(faultfs.OpRemove)), faultfs.Mutations())
	inA := faultfs.And(faultfs.Under("/a"), faultfs.Mutations())
	anything := faultfs.Mutations()
	for name, c := range map[string]struct { // order-free
		fails faultfs.Predicate
		paths []string
		later bool
	}{
		"list":      {fails: list},
		"record":    {fails: faultfs.Or(list, record)},
		"directory": {fails: inA, paths: []string{"/a", "/b"}},
		"disk":      {fails: anything, later: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := syncFails(t, c.fails, c.paths...)
			if c.later {
				n.rt.advance(6_000)
			}
			n.m.Registered(n.epoch + 1) // a registration that knew nothing of it
			n.disk = n.disk.KillClone(memfs.Kill{})
			n.fs = n.disk
			n.start()
			bad := n.m.Doubtful()
			if stop := n.dirs.Report().Stop; stop != log.StopPower && len(bad) == 0 {
				t.Errorf("the next start is one after stop %s", stop)
			}
		})
	}
}

// A list that makes no sense casts doubt on everything.
func TestUnreadableDoubts(t *testing.T) {
	n := syncFails(t, nothing)
	n.kill()
	f, err := n.disk.OpenFile("/data/"+doubtFile, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("7"), 2); err != nil {
		t.Fatal(err)
	}
	n.start()
	if stop := n.dirs.Report().Stop; stop != log.StopPower {
		t.Errorf("stop %s, want %s", stop, log.StopPower)
	}
}

// An orderly stop whose last fsync fails leaves doubt too.
func TestFailedFsyncAtStop(t *testing.T) {
	n := newNode(t)
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData)), faultfs.FsyncFails()))
	n.fs = faultfs.Wrap(n.disk, toggle)
	n.start()
	n.register()
	n.create("t", 1)
	n.send(n.m.Get("t", 0), 1, batchOf(4, -1, 0))
	toggle.On()
	if n.m.Shutdown(true) == nil {
		t.Fatal("a stop with a failed fsync was clean")
	}
	n.kill()
	n.start()
	if got := n.m.Doubtful(); len(got) != 1 {
		t.Errorf("in doubt: %v, want t-0", got)
	}
}

// What an orderly stop could not close has been through more if power went after it.
func TestPowerAfterAStopThatLeftSomething(t *testing.T) {
	for _, power := range []bool{false, true} {
		n := newNode(t)
		toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpWrite, faultfs.OpTruncate)), faultfs.EIO()))
		n.fs = faultfs.Wrap(n.disk, toggle)
		n.start()
		n.register()
		n.create("t", 1)
		n.send(n.m.Get("t", 0), 1, batchOf(4, -1, 0))
		toggle.On()
		n.send(n.m.Get("t", 0), 1, batchOf(4, -1, 0))
		toggle.Off()
		_ = n.m.Shutdown(true) // t-0 is offline
		want, doubtful := log.StopProcess, 0
		if n.kill(); power {
			n.power()
			want, doubtful = log.StopPower, 1
		}
		n.start()
		d := n.dirs.All()[0]
		if d.Stop() != log.StopClean {
			t.Fatalf("the directory's stop is %s", d.Stop())
		}
		h := n.m.Get("t", 0)
		if got := d.stopOf(h.id, h.tp); got != want || len(n.m.Doubtful()) != doubtful {
			t.Errorf("power lost: %v: t-0 is opened after %s, in doubt %v", power, got, n.m.Doubtful())
		}
	}
}

// A log that could not be read at a start after a loss of power has still lost
// what power took, at the start after that one too.
func TestUnreadableAfterPower(t *testing.T) {
	n := newNode(t)
	unreadable := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("/data/t-0/*.log"), faultfs.OpIn(faultfs.OpRead)), faultfs.EIO()))
	n.fs = faultfs.Wrap(n.disk, unreadable)
	n.start()
	n.register()
	n.create("t", 2)
	n.send(n.m.Get("t", 0), 1, batchOf(4, -1, 0))
	n.send(n.m.Get("t", 1), 1, batchOf(4, -1, 0))
	n.flushAll()
	for _, h := range n.m.All() {
		h.box.Enter(&flushOldMsg{})
	}
	n.flushAll()
	n.kill()
	n.power()
	unreadable.On()
	n.fs = faultfs.Wrap(n.disk, unreadable)
	n.start()
	if s := n.m.Get("t", 0).State(); s.Role != partition.Offline {
		t.Fatalf("a log that can't be read is %v", s.Role)
	}
	n.register()
	n.kill()
	unreadable.Off()
	n.fs = faultfs.Wrap(n.disk, unreadable)
	n.start()
	for p, want := range []log.Stop{log.StopPower, log.StopProcess} {
		h := n.m.Get("t", int32(p))
		if got := n.dirs.All()[0].stopOf(h.id, h.tp); got != want {
			t.Errorf("t-%d is opened after %s, want %s", p, got, want)
		}
		if s := h.State(); s.Role == partition.Offline {
			t.Errorf("t-%d is offline: %s", p, s.Reason)
		}
	}
}
