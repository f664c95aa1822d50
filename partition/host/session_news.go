package host

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// news is what a fetch session has to look at: its partitions that were named, or
// have moved, since they were last looked at. A partition that nothing happens to
// is not touched by the session's fetches, however many there are. A session
// watches each of its partitions once; the partition's loop puts it here.
type news struct {
	// clock is when the session's last request came.
	clock atomic.Int64

	// mu guards what follows. It is a leaf, taken in loops: nothing is called
	// while it is held.
	mu     sync.Mutex
	queue  []*FetchPartition
	waiter FetchWaiter // of the parked request, nil if there is none
	waking bool        // a wake is on its way to waiter
	closed bool        // the session is over
}

// watch is a session's standing request to one partition to be told when
// something happens to it. It is that partition's Lease, if the session is a
// follower's. It belongs to the session; the partition holds it in a list.
type watch struct {
	part *FetchPartition
	news *news

	// What follows is guarded by news.mu.

	h      *Hosted         // that holds it; nil if none does
	bound  partition.Bound // the end that the reader waits for
	queued bool            // in news.queue
	gone   bool            // the session has forgotten the partition

	// still: the session's requests don't count for the partition at present: one
	// names it and is not judged yet, or it was forgotten. stillAt is the last that
	// counted, written before.
	still   atomic.Bool
	stillAt atomic.Int64
}

// LastFetch implements partition.Lease.
func (w *watch) LastFetch() model.Instant {
	at := w.news.clock.Load() // before still: then it is one that counted
	if w.still.Load() {
		at = w.stillAt.Load()
	}
	return model.Instant(at)
}

// End implements partition.Lease.
func (w *watch) End() model.Instant {
	w.news.mu.Lock()
	w.news.add(w.part)
	w.news.mu.Unlock()
	return w.LastFetch()
}

// halt has the session's requests from now on not count for the partition.
func (w *watch) halt() {
	if !w.still.Load() {
		w.stillAt.Store(w.news.clock.Load())
		w.still.Store(true)
	}
}

// fetched notes a request.
func (n *news) fetched(now model.Instant) { n.clock.Store(int64(now)) }

// add queues a partition. Called with mu held.
func (n *news) add(p *FetchPartition) {
	if !p.watch.queued && !p.watch.gone {
		p.watch.queued = true
		n.queue = append(n.queue, p)
	}
}

// put queues a partition.
func (n *news) put(p *FetchPartition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(p)
}

// named queues a partition that a request names, before the request counts.
func (n *news) named(p *FetchPartition) {
	p.watch.halt()
	n.put(p)
}

// forget takes a partition out of the session.
func (n *news) forget(p *FetchPartition) {
	p.watch.halt()
	n.mu.Lock()
	defer n.mu.Unlock()
	p.watch.gone = true
}

// take moves what is queued behind parts, without what is in them already, and
// marks it as not quiet.
func (n *news) take(parts []*FetchPartition) []*FetchPartition {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range n.queue {
		n.queue[i] = nil
		p.watch.queued = false
		p.quiet, p.leased = false, false
		if !p.taken && !p.watch.gone {
			p.taken = true
			parts = append(parts, p)
		}
	}
	n.queue = n.queue[:0]
	return parts
}

// putBack queues again what was looked at and is not quiet.
func (n *news) putBack(parts []*FetchPartition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range parts {
		p.taken = false
		if !p.quiet {
			n.add(p)
		}
	}
}

// park sets or, with nil, removes who is told of news.
func (n *news) park(w FetchWaiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiter = w
}

// close ends the session: partitions let go of its watches when they next look.
func (n *news) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.queue = true, nil
}

// wakeNews is a session's news as the delivery that wakes its parked request.
type wakeNews news

// Deliver wakes.
func (n *wakeNews) Deliver(model.Now) {
	n.mu.Lock()
	n.waking = false
	w := n.waiter
	n.mu.Unlock()
	if w != nil {
		w.FetchReady(-1)
	}
}

// holds says whether h still has to keep w.
func (w *watch) holds(h *Hosted) bool {
	w.news.mu.Lock()
	defer w.news.mu.Unlock()
	return w.h == h && !w.gone && !w.news.closed
}

// moved queues the partition after a change from one state to another that its
// reader must look at, and wakes the parked request if the reader has something
// to do at once.
func (w *watch) moved(was, is *State, out *loop.Outbox) {
	n := w.news
	n.mu.Lock()
	defer n.mu.Unlock()
	wake, look := w.concerns(was, is)
	if !look || w.gone || n.closed {
		return
	}
	n.add(w.part)
	if wake && n.waiter != nil && !n.waking && out != nil {
		n.waking = true
		out.Add((*wakeNews)(n))
	}
}

// concerns says whether a parked reader is to look at once, or is to look before
// it is answered. Called with mu held.
func (w *watch) concerns(was, is *State) (wake, look bool) {
	if was.Role != is.Role || was.LeaderEpoch != is.LeaderEpoch || was.LogStart != is.LogStart ||
		is.LogEnd < was.LogEnd || was.Standing != is.Standing {
		return true, true
	}
	highWatermark := was.HighWatermark != is.HighWatermark
	if w.bound == partition.BoundLogEnd {
		highWatermark = highWatermark || was.LogEnd != is.LogEnd
		return highWatermark, highWatermark
	}
	wake = was.Bound(w.bound) != is.Bound(w.bound)
	return wake, wake || highWatermark
}

// Watch has the partition tell the session of part whenever something happens to
// it that a reader of that kind must look at; seen is the State on which the
// session found nothing to do. A watch of another partition is given up.
func (h *Hosted) Watch(part *FetchPartition, bound partition.Bound, seen *State) {
	if part.watch.begin(h, bound) {
		h.box.Enter(&watchMsg{&part.watch, seen})
	}
}

// begin notes who will hold the watch, and says whether it doesn't already.
func (w *watch) begin(h *Hosted, bound partition.Bound) bool {
	w.news.mu.Lock()
	defer w.news.mu.Unlock()
	if w.gone || w.h == h && w.bound == bound {
		return false
	}
	w.h, w.bound = h, bound
	return true
}

// Watched returns who holds the session's watch of the partition, nil if nobody
// does: then each fetch finds out anew where the partition is.
func (p *FetchPartition) Watched() *Hosted {
	if p.watch.news == nil {
		return nil
	}
	p.watch.news.mu.Lock()
	defer p.watch.news.mu.Unlock()
	return p.watch.h
}

// Unwatch gives the watch up.
func (p *FetchPartition) Unwatch() {
	if p.watch.news != nil {
		p.watch.news.mu.Lock()
		defer p.watch.news.mu.Unlock()
		p.watch.h = nil
	}
}

// watchMsg begins a watch.
type watchMsg struct {
	w    *watch
	seen *State
}

func (m *watchMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	h.hold(m.w)
	m.w.moved(m.seen, h.State(), out)
}

// hold keeps a watch, and lets go of those that are over.
func (h *Hosted) hold(w *watch) {
	if slices.Contains(h.watches, w) {
		return
	}
	h.watches = slices.DeleteFunc(h.watches, func(w *watch) bool { return !w.holds(h) })
	h.watches = append(h.watches, w)
}

func sortByTurn(parts []*FetchPartition) {
	slices.SortFunc(parts, func(a, b *FetchPartition) int { return cmp.Compare(a.turn, b.turn) })
}
