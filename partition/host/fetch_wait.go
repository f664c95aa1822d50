package host

import (
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// FetchWaiter is told that a waiting fetch should look again.
type FetchWaiter interface {
	// FetchReady is called at most once for each Wait, after the loop's release,
	// on whichever goroutine moved the end; possibly before Wait returns. It
	// says that something has changed, not that there is enough: look at State
	// and wait again if need be.
	FetchReady(slot int32)
}

// FetchWait is a fetch's registration with one partition: it asks to be told
// once when the end it may read to moves, the leadership changes or the log is
// cut. Set the exported fields, then call Hosted.Wait. It may be waited on again
// after FetchReady was called; after a Cancel it may not be used again.
type FetchWait struct {
	Waiter FetchWaiter
	// Slot is handed back to the Waiter.
	Slot int32
	// From is the fetch offset.
	From model.Offset
	// Bound says which end matters: BoundOf(isolation) for consumers,
	// partition.BoundLogEnd for followers.
	Bound partition.Bound
	// Seen is the State on which the fetch decided to wait. If the partition has
	// moved on since, FetchReady is called at once: nothing can be missed.
	Seen *State

	core     partition.FetchWait
	h        *Hosted
	canceled atomic.Bool
}

// Wait registers w.
func (h *Hosted) Wait(w *FetchWait) {
	w.h = h
	w.core.Bound, w.core.From, w.core.Seen, w.core.Token = w.Bound, w.From, w.Seen.Mark, w
	h.box.Enter(w)
}

// Cancel takes w back. A FetchReady that is under way may still come.
func (h *Hosted) Cancel(w *FetchWait) {
	if w.canceled.CompareAndSwap(false, true) {
		h.box.Enter((*cancelMsg)(w))
	}
}

func (w *FetchWait) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if w.canceled.Load() {
		return
	}
	h.in = partition.Input{Kind: partition.KindWait, Wait: &w.core}
	h.step(now, out)
}

// Deliver tells the waiter.
func (w *FetchWait) Deliver(model.Now) {
	if !w.canceled.Load() {
		w.Waiter.FetchReady(w.Slot)
	}
}

// cancelMsg is a FetchWait seen as the message that takes it back.
type cancelMsg FetchWait

func (m *cancelMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindCancel, Wait: &m.core}
	h.step(now, out)
}
