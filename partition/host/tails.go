package host

import (
	"sync"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// A start after a kill finds records above the recovery points of which nobody knows
// whether they were synced. Their partitions serve at once: to whoever was told of
// such a record it is as safe as before the kill, and a loss of power is told from a
// kill whenever it comes. They are synced behind that, a few partitions of a directory
// at a time, so that a flush that somebody waits for is not behind all of them.

// tailsAtOnce is how many partitions of one directory are at it at a time.
const tailsAtOnce = 4

// tails are the partitions of one directory whose logs' ends are to be synced, each
// once.
type tails struct {
	mu      sync.Mutex
	waiting []*Hosted
}

// syncTails has the logs' ends synced that the start has found above the recovery
// points.
func (m *ReplicaManager) syncTails() {
	first, rest := make(map[*Dir][]*Hosted), make(map[*Dir][]*Hosted)
	for _, h := range m.All() {
		s := h.State()
		if s.View == nil || s.RecoveryPoint >= s.LogEnd {
			continue
		}
		if cfg := m.coreConfig(h.topic); cfg.FlushBeforeAck() {
			first[h.dir] = append(first[h.dir], h) // their high watermarks wait
			continue
		}
		rest[h.dir] = append(rest[h.dir], h)
	}
	for _, d := range m.deps.Dirs.All() {
		d.tails.mu.Lock()
		d.tails.waiting = append(first[d], rest[d]...)
		d.tails.mu.Unlock()
		for range tailsAtOnce {
			d.nextTail()
		}
	}
}

// nextTail has the next partition begin.
func (d *Dir) nextTail() {
	d.tails.mu.Lock()
	var h *Hosted
	if w := d.tails.waiting; len(w) > 0 {
		h, w[0] = w[0], nil
		d.tails.waiting = w[1:]
	}
	d.tails.mu.Unlock()
	if h != nil {
		h.box.Post(&tailMsg{})
	}
}

// leaveTails lets go of the partitions that have not begun: a stop does the rest.
func (d *Dir) leaveTails() {
	d.tails.mu.Lock()
	defer d.tails.mu.Unlock()
	d.tails.waiting = nil
}

// tailMsg asks for a flush of what an earlier process has left.
type tailMsg struct{}

func (*tailMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.tail = true
	if h.plog == nil || h.plog.RecoveryPoint() >= h.plog.LogEnd() {
		h.tailDone(out)
		return
	}
	h.flushOld(now, out)
}

// tailDone is called when a flush is over, or none will come.
func (h *Hosted) tailDone(out *loop.Outbox) {
	if h.tail {
		h.tail = false
		out.Add(&tailOver{h.dir})
	}
}

// tailOver makes way for the next partition of the directory.
type tailOver struct{ dir *Dir }

// Deliver has the next one begin.
func (o *tailOver) Deliver(model.Now) { o.dir.nextTail() }
