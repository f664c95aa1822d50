package host

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/partition"
)

// The disk may fail at any call while a partition is made, once or from there on.
// Whatever is on it then, the next start serves the partition: it was not made and
// lost.
func TestCreatedOnAFailingDisk(t *testing.T) {
	for name, c := range map[string]struct { // order-free
		from  func(n int64) faultfs.Predicate
		fault *faultfs.Fault
	}{
		"an error":        {faultfs.NthOp, faultfs.EIO()},
		"errors":          {faultfs.FromNth, faultfs.EIO()},
		"no room once":    {faultfs.NthOp, faultfs.ENOSPC(0)},
		"no room from on": {faultfs.FromNth, faultfs.ENOSPC(0)},
	} {
		calls := int64(1)
		for at := int64(1); at <= calls; at++ {
			t.Run(fmt.Sprintf("%s at call %d", name, at), func(t *testing.T) {
				n := newNode(t)
				counter := faultfs.NewCounter(faultfs.Mutations())
				toggle := faultfs.NewToggle(faultfs.First(counter, faultfs.When(faultfs.And(faultfs.Mutations(), c.from(at)), c.fault)))
				n.fs = faultfs.Wrap(n.disk, toggle)
				n.start()
				n.register()
				n.create("t", 1)
				toggle.On()
				n.create("late", 1)
				toggle.Off()
				calls = counter.Count()
				n.kill()
				n.start()
				n.register()
				n.rt.advance(2_000)
				n.establish()
				h := n.m.Get("late", 0)
				if s := h.State(); s.Role != partition.Leader {
					t.Fatalf("%+v %s", s.Mark, s.Reason)
				}
				n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
			})
		}
		if calls < 5 {
			t.Errorf("%s: only %d calls", name, calls)
		}
	}
}
