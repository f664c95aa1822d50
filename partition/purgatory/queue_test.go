package purgatory

import (
	"math/rand"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

type op struct {
	Node
	id int
}

func (o *op) Place() *Node { return &o.Node }

// model of a Queue: a slice scanned in order of arrival.
type slow struct{ ops []*op }

func (s *slow) pick(better func(a, b *op) bool, fit func(*op) bool) *op {
	var best *op
	for _, o := range s.ops {
		if fit(o) && (best == nil || better(o, best)) {
			best = o
		}
	}
	if best != nil {
		s.drop(best)
	}
	return best
}

func (s *slow) drop(o *op) {
	for i := range s.ops {
		if s.ops[i] == o {
			s.ops = append(s.ops[:i:i], s.ops[i+1:]...)
			return
		}
	}
}

func lower(a, b *op) bool   { return a.Required < b.Required }
func earlier(a, b *op) bool { return a.Deadline < b.Deadline }

// TestQueueAgainstModel drives random operations through the heaps and through
// a plain slice; both must give the same operations in the same order.
func TestQueueAgainstModel(t *testing.T) {
	for seed := int64(0); seed < 200; seed++ {
		rng := rand.New(rand.NewSource(seed))
		var q Queue[*op]
		var m slow
		for step := 0; step < 300; step++ {
			switch rng.Intn(6) {
			case 0, 1, 2:
				o := &op{id: step}
				o.Required = model.Offset(rng.Intn(20))
				o.Deadline = model.Instant(rng.Intn(20))
				if rng.Intn(10) == 0 {
					o.Deadline = model.Never
				}
				q.Add(o)
				m.ops = append(m.ops, o)
			case 3:
				at := model.Offset(rng.Intn(20))
				got, ok := q.PopReached(at)
				want := m.pick(lower, func(o *op) bool { return o.Required <= at })
				if ok != (want != nil) || got != want {
					t.Fatalf("seed %d step %d: PopReached(%d) = %v, want %v", seed, step, at, got, want)
				}
			case 4:
				at := model.Instant(rng.Intn(20))
				got, ok := q.PopExpired(at)
				want := m.pick(earlier, func(o *op) bool { return o.Deadline <= at })
				if ok != (want != nil) || got != want {
					t.Fatalf("seed %d step %d: PopExpired(%d) = %v, want %v", seed, step, at, got, want)
				}
			case 5:
				if len(m.ops) > 0 {
					o := m.ops[rng.Intn(len(m.ops))]
					q.Remove(o)
					m.drop(o)
					if o.Waiting() {
						t.Fatalf("seed %d step %d: removed operation still waits", seed, step)
					}
					q.Remove(o) // twice does nothing
				}
			}
			if q.Len() != len(m.ops) {
				t.Fatalf("seed %d step %d: %d wait, want %d", seed, step, q.Len(), len(m.ops))
			}
			next := model.Never
			for _, o := range m.ops {
				next = min(next, o.Deadline)
			}
			if q.NextDeadline() != next {
				t.Fatalf("seed %d step %d: next deadline %d, want %d", seed, step, q.NextDeadline(), next)
			}
		}
		for want := m.pick(lower, func(*op) bool { return true }); want != nil; want = m.pick(lower, func(*op) bool { return true }) {
			if got, ok := q.Pop(); !ok || got != want {
				t.Fatalf("seed %d: Pop = %v, want %v", seed, got, want)
			}
		}
		if _, ok := q.Pop(); ok {
			t.Fatalf("seed %d: an empty queue gave something", seed)
		}
	}
}

func TestQueueAllocatesNothingInSteadyState(t *testing.T) {
	var q Queue[*op]
	o := &op{}
	o.Deadline = model.Never
	q.Add(o)
	q.Remove(o)
	if n := testing.AllocsPerRun(100, func() { q.Add(o); q.PopReached(0) }); n != 0 {
		t.Fatalf("%v allocations a wait, want 0", n)
	}
}

type waiter struct {
	Link[*waiter]
	id int
}

func TestListAgainstModel(t *testing.T) {
	for seed := int64(0); seed < 100; seed++ {
		rng := rand.New(rand.NewSource(seed))
		var l List[*waiter]
		var m []*waiter
		for step := 0; step < 200; step++ {
			switch rng.Intn(4) {
			case 0, 1:
				w := &waiter{id: step}
				l.Add(&w.Link, w)
				m = append(m, w)
			case 2:
				got, ok := l.Pop()
				if ok != (len(m) > 0) {
					t.Fatalf("seed %d step %d: Pop ok=%v with %d waiting", seed, step, ok, len(m))
				}
				if ok {
					if got != m[0] || got.Waiting() {
						t.Fatalf("seed %d step %d: Pop gave %d, want %d", seed, step, got.id, m[0].id)
					}
					m = m[1:]
				}
			case 3:
				if len(m) == 0 {
					continue
				}
				i := rng.Intn(len(m))
				w := m[i]
				m = append(m[:i:i], m[i+1:]...)
				if !w.Unlink() || w.Unlink() {
					t.Fatalf("seed %d step %d: Unlink must say true once", seed, step)
				}
			}
			if l.Len() != len(m) {
				t.Fatalf("seed %d step %d: %d wait, want %d", seed, step, l.Len(), len(m))
			}
		}
	}
}
