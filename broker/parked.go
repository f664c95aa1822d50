package broker

import (
	"sync"

	"github.com/tidemark/tidemark/internal/model"
)

// parkedFetches knows the fetches that wait for data, so that an orderly stop
// need not wait for them: a long poll may be meant to last for minutes.
type parkedFetches struct {
	mu     sync.Mutex
	all    map[*pendingFetch]struct{}
	closed bool
}

// add notes a fetch that is about to wait; false says that none may wait any
// more.
func (s *parkedFetches) add(p *pendingFetch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.all == nil {
		s.all = make(map[*pendingFetch]struct{})
	}
	s.all[p] = struct{}{}
	return true
}

// len returns how many fetches wait.
func (s *parkedFetches) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (s *parkedFetches) remove(p *pendingFetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, p)
}

// close answers every fetch that waits as if its time were up, and lets none
// wait afterwards.
func (s *parkedFetches) close() {
	s.mu.Lock()
	s.closed = true
	waiting := make([]*pendingFetch, 0, len(s.all))
	for p := range s.all { // order-free: each is answered on a connection of its own
		waiting = append(waiting, p)
	}
	s.mu.Unlock()
	for _, p := range waiting {
		p.TickAt(model.Now{})
	}
}
