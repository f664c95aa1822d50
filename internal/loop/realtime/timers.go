package realtime

import (
	"container/heap"
	"sync"
	"time"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// timers is the heap of every loop's deadline. The timer goroutine alone pops;
// anyone may set.
type timers struct {
	mu      sync.Mutex
	stopped bool
	due     deadlines
	of      map[loop.Ticker]*deadline

	// wake tells the goroutine that the earliest deadline came nearer, or that
	// it must end. Buffered: one token says all.
	wake chan struct{}
}

// deadline is one Ticker's entry.
type deadline struct {
	ticker loop.Ticker
	at     model.Instant
	pos    int // in the heap
}

func (t *timers) init() {
	t.of = make(map[loop.Ticker]*deadline)
	t.wake = make(chan struct{}, 1)
}

func (t *timers) stop() {
	t.mu.Lock()
	t.stopped = true
	t.due = nil
	t.of = make(map[loop.Ticker]*deadline)
	t.mu.Unlock()
	t.signal()
}

func (t *timers) signal() {
	select {
	case t.wake <- struct{}{}:
	default: // a token is there already
	}
}

// SetDeadline replaces the deadline of a Ticker; model.Never clears it.
func (r *Runtime) SetDeadline(ticker loop.Ticker, at model.Instant) {
	t := &r.timers
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return
	}
	d := t.of[ticker]
	switch {
	case at == model.Never && d == nil:
	case at == model.Never:
		heap.Remove(&t.due, d.pos)
		delete(t.of, ticker)
	case d == nil:
		d = &deadline{ticker: ticker, at: at}
		t.of[ticker] = d
		heap.Push(&t.due, d)
	default:
		d.at = at
		heap.Fix(&t.due, d.pos)
	}
	nearer := at != model.Never && t.due[0].at == at
	t.mu.Unlock()
	if nearer {
		t.signal()
	}
}

// next pops a Ticker that is due at now, or says how long to wait for the
// earliest: zero means until woken.
func (t *timers) next(now model.Instant) (due loop.Ticker, wait time.Duration, stopped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, 0, true
	}
	if len(t.due) == 0 {
		return nil, 0, false
	}
	d := t.due[0]
	if d.at > now {
		return nil, time.Duration(d.at - now), false
	}
	heap.Pop(&t.due)
	delete(t.of, d.ticker)
	return d.ticker, 0, false
}

// runTimers is the life of the timer goroutine.
func (r *Runtime) runTimers() {
	t := &r.timers
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := r.Now()
		ticker, wait, stopped := t.next(now.Mono)
		switch {
		case stopped:
			return
		case ticker != nil:
			ticker.TickAt(now)
			continue
		case wait == 0:
			timer.Stop()
		default:
			timer.Reset(wait)
		}
		select {
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// deadlines implements heap.Interface, the earliest first.
type deadlines []*deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].at < h[j].at }
func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push appends a *deadline. For container/heap.
func (h *deadlines) Push(x any) {
	d := x.(*deadline)
	d.pos = len(*h)
	*h = append(*h, d)
}

// Pop removes the last. For container/heap.
func (h *deadlines) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return d
}
