package host

import (
	"testing"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/partition"
)

// More waits for a partition than one owner of its box handles. Where there is one
// goroutine nobody comes for the rest while that one takes the partition down.
func TestTakeDownOfABusyPartition(t *testing.T) {
	n, h := compacting(t, nil)
	for range 3 * loop.OthersMax {
		h.box.Post(mendMsg{})
	}
	if plog := n.m.takeDown(h, partition.CodeNotLeaderOrFollower, "test"); plog == nil {
		t.Error("no log")
	}
	if h.box.Len() != 0 {
		t.Errorf("%d messages still wait", h.box.Len())
	}
}

// firstLater is an Executor that puts the first append off, so that the next ones wait in
// the core.
type firstLater struct{ work *Work }

func (e *firstLater) Start(w *Work) bool {
	if w.Kind() != partition.WriteAppend || e.work != nil {
		return true
	}
	e.work = w
	return false
}

// What waits in front of it for the disk begins one write after another, none of which
// need be done.
func TestTakeDownBetweenWrites(t *testing.T) {
	n := newNode(t)
	n.firstAppends = true
	exec := &firstLater{}
	n.exec = exec
	full := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Under("/data/t-0"), faultfs.OpIn(faultfs.OpWrite)), faultfs.ENOSPC(0)))
	n.fs = faultfs.Wrap(n.disk, full)
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	full.On()
	a := n.send(h, 1, batchOf(2, -1, 0))
	b := n.send(h, 1, batchOf(1, -1, 0))
	c := n.send(h, 1, batchOf(1, -1, 0))
	exec.work.Proceed()
	n.rt.idle()
	n.flush["/data"].jobs[0].Run() // and the loop has not heard of it
	if plog := n.m.takeDown(h, partition.CodeNotLeaderOrFollower, "test"); plog == nil {
		t.Error("no log")
	}
	n.rt.idle()
	for _, x := range []*answers{a, b, c} {
		if len(x.produced) != 1 || x.produced[0].Code == partition.CodeNone {
			t.Errorf("answers %+v", x.produced)
		}
	}
	if h.cut != nil || len(h.parked) > 0 {
		t.Errorf("a write is under way, and %d wait", len(h.parked))
	}
}
