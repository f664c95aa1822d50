package group

import (
	"container/heap"

	"github.com/tidemark/tidemark/internal/model"
)

// timerKind says what a timer is for.
type timerKind uint8

const (
	timerSession timerKind = iota + 1 // a member was not heard of
	timerPending                      // a member id was not used
	timerJoin                         // the joining phase ends
	timerSync                         // the time for syncs is over
	timerPeer                         // a member of a consumer group was not heard of
	timerRevoke                       // it has not given up its partitions
	timerRejoin                       // a classic one has not joined again
	timerResync                       // it has not asked for its assignment
)

// timer is one deadline. It is embedded in what it belongs to, and in the heap
// while it is armed.
type timer struct {
	kind   timerKind
	group  *group
	member *member // of timerSession and timerPending
	peer   string  // the member's id, of the timers of consumer groups' members

	at    model.Instant
	seq   uint64 // order among equal deadlines
	place int    // in the heap, plus one; 0: not armed
}

// timers is a heap of deadlines. Equal ones fire in the order they were set.
type timers struct {
	heap timerHeap
	seq  uint64
}

// set arms t, or moves it.
func (s *timers) set(t *timer, at model.Instant) {
	s.seq++
	t.at, t.seq = at, s.seq
	if t.place > 0 {
		heap.Fix(&s.heap, t.place-1)
		return
	}
	heap.Push(&s.heap, t)
}

// cancel disarms t if it is armed.
func (s *timers) cancel(t *timer) {
	if t.place > 0 {
		heap.Remove(&s.heap, t.place-1)
	}
}

// next is the nearest deadline.
func (s *timers) next() model.Instant {
	if len(s.heap) == 0 {
		return model.Never
	}
	return s.heap[0].at
}

// pop disarms and returns a timer that is due, nil if none is.
func (s *timers) pop(now model.Instant) *timer {
	if s.next() > now {
		return nil
	}
	return heap.Pop(&s.heap).(*timer)
}

type timerHeap []*timer

// Len implements heap.Interface.
func (h timerHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h timerHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

// Swap implements heap.Interface.
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.place = len(*h)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.place = 0
	return t
}
