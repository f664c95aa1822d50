package transport

import "github.com/tidemark/tidemark/internal/model"

// fifo is a queue of requests.
type fifo struct {
	items []*pending // items[head:] wait
	head  int
}

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) push(r *pending) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, r)
}

func (q *fifo) first() *pending { return q.items[q.head] }

func (q *fifo) pop() *pending {
	r := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return r
}

// take removes those that match, all if match is nil, and hands them to each, if
// that is not nil, in order.
func (q *fifo) take(match func(*pending) bool, each func(*pending)) {
	kept := q.items[:0]
	for _, r := range q.items[q.head:] {
		switch {
		case match != nil && !match(r):
			kept = append(kept, r)
		case each != nil:
			each(r)
		}
	}
	clear(q.items[len(kept):])
	q.items, q.head = kept, 0
}

// nextDeadline returns the earliest deadline, or model.Never.
func (q *fifo) nextDeadline() model.Instant {
	at := model.Never
	for _, r := range q.items[q.head:] {
		at = min(at, r.deadline)
	}
	return at
}
