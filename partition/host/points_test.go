package host

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// Recovery points are written down when enough has become durable, without waiting for
// the time of the checkpoints, and then not again for as much.
func TestRecoveryPointsFollowTheFlushes(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	written := func() model.Offset {
		points, err := checkpoint.ReadOffsets(n.disk, "/data/"+checkpoint.RecoveryPointFile)
		if err != nil {
			t.Fatal(err)
		}
		return points[h.tp]
	}
	flushed := func(before int64) model.Offset {
		t.Helper()
		base := h.State().LogEnd
		n.send(h, 1, batchOf(2, -1, 0)).want(t, 0, base)
		h.dir.points.durable.Store(before)
		h.box.Post(&flushOldMsg{})
		n.rt.idle()
		n.flushAll()
		if s := h.State(); s.RecoveryPoint != s.LogEnd {
			t.Fatalf("the recovery point is %d, the log ends at %d", s.RecoveryPoint, s.LogEnd)
		}
		return written()
	}
	if got := flushed(0); got != 0 {
		t.Errorf("%d was written down after a few bytes", got)
	}
	for range 2 {
		if got, want := flushed(flushEvery-1), h.State().LogEnd; got != want {
			t.Errorf("%d was written down, %d is durable", got, want)
		}
	}
	if left := h.dir.points.durable.Load(); left != 0 {
		t.Errorf("%d bytes are left to be counted", left)
	}
	last := written()
	if got := flushed(1000); got != last {
		t.Errorf("%d was written down, %d had been", got, last)
	}
}
