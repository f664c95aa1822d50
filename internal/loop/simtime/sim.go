package simtime

import (
	"container/heap"
	"math/rand/v2"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// Sim is the heap of one simulated world. It belongs to one goroutine, which
// also runs all that it delivers.
type Sim struct {
	rng    *rand.Rand
	now    model.Instant
	events events
	seq    uint64 // events so far: the last word on order
	ran    uint64
}

// New returns a world at instant 0 with nothing to happen.
func New(seed uint64) *Sim {
	return &Sim{rng: rand.New(rand.NewPCG(seed, 0x7469646566616c6c))}
}

// Now returns the virtual time in nanoseconds since the world began.
func (s *Sim) Now() model.Instant { return s.now }

// Rand returns the world's source of chance. Everything in the world that draws
// shares it or one seeded from it.
func (s *Sim) Rand() *rand.Rand { return s.rng }

// Len returns how many events are still to happen.
func (s *Sim) Len() int { return len(s.events) }

// Ran returns how many events have happened.
func (s *Sim) Ran() uint64 { return s.ran }

// At has d delivered at an instant; one that passed is now. The Now it is given
// is the world's own: no wall clock, no skew.
func (s *Sim) At(at model.Instant, d loop.Delivery) {
	s.push(&event{at: at, delivery: d})
}

// Next returns when the next event happens, or model.Never.
func (s *Sim) Next() model.Instant {
	if len(s.events) == 0 {
		return model.Never
	}
	return s.events[0].at
}

// Step makes the next event happen and moves the clock to it. It returns false
// if there is none.
func (s *Sim) Step() bool {
	if len(s.events) == 0 {
		return false
	}
	e := heap.Pop(&s.events).(*event)
	s.now = e.at
	s.ran++
	switch {
	case e.owner == nil:
		e.delivery.Deliver(model.Now{Mono: s.now})
	case e.ticker != nil:
		delete(e.owner.deadlines, e.ticker)
		e.ticker.TickAt(e.owner.Now())
	default:
		e.delivery.Deliver(e.owner.Now())
	}
	return true
}

// RunUntil makes everything happen that is due up to and including an instant,
// moves the clock there, and returns the number of events.
func (s *Sim) RunUntil(at model.Instant) uint64 {
	before := s.ran
	for s.Next() <= at && s.Step() {
	}
	s.now = max(s.now, at)
	return s.ran - before
}

func (s *Sim) push(e *event) {
	e.at = max(e.at, s.now)
	e.tie = s.rng.Uint64()
	e.seq = s.seq
	s.seq++
	heap.Push(&s.events, e)
}

// drop removes every event of a Runtime.
func (s *Sim) drop(r *Runtime) {
	kept := s.events[:0]
	for _, e := range s.events {
		if e.owner != r {
			kept = append(kept, e)
		}
	}
	clear(s.events[len(kept):])
	s.events = kept
	for i, e := range s.events {
		e.pos = i
	}
	heap.Init(&s.events)
}

// event is one thing that is to happen: a ticker's deadline or a delivery.
type event struct {
	at  model.Instant
	tie uint64 // drawn: the order among those due together
	seq uint64 // decides if even that is equal
	pos int    // in the heap

	owner    *Runtime // nil for the world's own
	ticker   loop.Ticker
	delivery loop.Delivery
}

// events implements heap.Interface, the next first.
type events []*event

func (h events) Len() int { return len(h) }

func (h events) Less(i, j int) bool {
	a, b := h[i], h[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.tie != b.tie:
		return a.tie < b.tie
	default:
		return a.seq < b.seq
	}
}

func (h events) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push appends an *event. For container/heap.
func (h *events) Push(x any) {
	e := x.(*event)
	e.pos = len(*h)
	*h = append(*h, e)
}

// Pop removes the last. For container/heap.
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
