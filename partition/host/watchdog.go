package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// StrandedWaiter is a ProduceWaiter that wants to know that its answer comes from
// outside the loop because a write hangs, perhaps on the waiter's own goroutine.
type StrandedWaiter interface {
	// ProduceStranded is called before ProduceDone for that slot.
	ProduceStranded(slot int32)
}

// waits returns since when the partition waits for its disk, 0 if it doesn't.
func (h *Hosted) waits() model.Instant {
	write, flush := h.busySince.Load(), h.flushSince.Load()
	if write == 0 || flush != 0 && flush < write {
		return model.Instant(flush)
	}
	return model.Instant(write)
}

// watch looks, from outside the loops, for partitions whose write, or the flush that
// somebody waits for, has not come back for tidemark.io.stall.timeout.ms. Such a partition is no longer led here
// as far as anybody can see: whoever waits is answered KAFKA_STORAGE_ERROR, new
// requests are too, and the controller hears of it, so that another replica leads.
// The stuck call itself can't be taken back; when it returns the partition serves
// again, or follows whoever leads by then.
func (m *ReplicaManager) watch() {
	now := m.deps.RT.Now()
	limit := model.Instant(m.deps.Broker.Own.IOStallTimeout)
	told := false
	hang := make(map[*Dir]bool)
	defer func() {
		for _, d := range m.deps.Dirs.All() {
			d.slow.ease(hang[d])
		}
	}()
	for _, h := range m.All() {
		if h.stalled.Load() {
			hang[h.dir] = true
		}
		since := h.waits()
		if since == 0 || now.Mono-since < limit || !h.stalled.CompareAndSwap(false, true) {
			continue
		}
		if h.waits() == 0 {
			h.stalled.Store(false) // it came back just now
			continue
		}
		hang[h.dir] = true
		m.events.stalled(h, now.Mono-since)
		for _, l := range m.fetchLoops.all() {
			l.box.Post(&abandonMsg{h}) // the goroutine that is stuck may be its connection's
		}
		for _, s := range h.unanswered.strand() {
			if w, ok := s.waiter.(StrandedWaiter); ok {
				w.ProduceStranded(s.slot)
			}
			s.waiter.ProduceDone(s.slot, stalledResult())
		}
		told = true
	}
	if told {
		m.trouble()
	}
}

// resumed is called in the loop when a write or a flush has come back.
func (h *Hosted) resumed() {
	if h.stalled.Load() && h.waits() == 0 {
		h.stalled.Store(false)
		h.m.events.resumed(h)
	}
}

// troubleDelivery tells Deps.Trouble after the loop's release.
type troubleDelivery struct{ m *ReplicaManager }

// Deliver implements loop.Delivery.
func (d troubleDelivery) Deliver(model.Now) { d.m.trouble() }

func (m *ReplicaManager) trouble() {
	if m.deps.Trouble != nil {
		m.deps.Trouble()
	}
}

// Stalled returns the partitions whose disk does not answer: their leadership is
// to be given up.
func (m *ReplicaManager) Stalled() []*Hosted {
	var stalled []*Hosted
	for _, h := range m.All() {
		if h.stalled.Load() {
			stalled = append(stalled, h)
		}
	}
	return stalled
}

// flushOldMsg asks for a background flush of whatever is unsynced.
type flushOldMsg struct{}

func (*flushOldMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) { h.flushOld(now, out) }
