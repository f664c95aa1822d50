package purgatory

import (
	"github.com/tidemark/tidemark/internal/model"
)

// Node is a waiting operation's place in a Queue. Embed it; only the Queue that
// holds it touches the unexported fields.
type Node struct {
	// Required is the offset that the watched number must reach.
	Required model.Offset
	// Deadline is when the operation stops waiting; model.Never for no limit.
	Deadline model.Instant

	serial     uint64
	atOffset   int // place in the heap by offset, plus one; 0 when not waiting
	atDeadline int // place in the heap by deadline, plus one
}

// Waiting says whether a Queue holds the node.
func (n *Node) Waiting() bool { return n.atOffset != 0 }

// Element is what a Queue holds: a pointer to a struct with an embedded Node.
type Element interface {
	comparable
	// Place returns the embedded Node.
	Place() *Node
}

// Queue orders waiting operations by the offset they need and by deadline.
// Equal keys leave in the order in which they came. The zero Queue is empty and
// ready; it belongs to one loop.
type Queue[T Element] struct {
	byOffset   []T
	byDeadline []T
	serial     uint64
}

// Len returns how many operations wait.
func (q *Queue[T]) Len() int { return len(q.byOffset) }

// Add makes e wait. It must not be waiting in any Queue.
func (q *Queue[T]) Add(e T) {
	n := e.Place()
	q.serial++
	n.serial = q.serial
	q.byOffset = append(q.byOffset, e)
	n.atOffset = len(q.byOffset)
	q.upOffset(len(q.byOffset) - 1)
	q.byDeadline = append(q.byDeadline, e)
	n.atDeadline = len(q.byDeadline)
	q.upDeadline(len(q.byDeadline) - 1)
}

// Remove takes e out; it does nothing when e does not wait here.
func (q *Queue[T]) Remove(e T) {
	n := e.Place()
	if n.atOffset == 0 || n.atOffset > len(q.byOffset) || q.byOffset[n.atOffset-1] != e {
		return
	}
	q.removeOffset(n.atOffset - 1)
	q.removeDeadline(n.atDeadline - 1)
}

// PopReached takes out one operation whose required offset is at or below
// reached, lowest offset first. ok is false when there is none.
func (q *Queue[T]) PopReached(reached model.Offset) (e T, ok bool) {
	if len(q.byOffset) == 0 || q.byOffset[0].Place().Required > reached {
		return e, false
	}
	e = q.byOffset[0]
	q.Remove(e)
	return e, true
}

// PopExpired takes out one operation whose deadline is at or before now,
// earliest first. ok is false when there is none.
func (q *Queue[T]) PopExpired(now model.Instant) (e T, ok bool) {
	if len(q.byDeadline) == 0 || q.byDeadline[0].Place().Deadline > now {
		return e, false
	}
	e = q.byDeadline[0]
	q.Remove(e)
	return e, true
}

// Pop takes out the operation with the lowest required offset, whatever it is.
func (q *Queue[T]) Pop() (e T, ok bool) {
	if len(q.byOffset) == 0 {
		return e, false
	}
	e = q.byOffset[0]
	q.Remove(e)
	return e, true
}

// NextDeadline returns the earliest deadline, model.Never when nothing waits.
func (q *Queue[T]) NextDeadline() model.Instant {
	if len(q.byDeadline) == 0 {
		return model.Never
	}
	return q.byDeadline[0].Place().Deadline
}

func (q *Queue[T]) lessOffset(i, j int) bool {
	a, b := q.byOffset[i].Place(), q.byOffset[j].Place()
	if a.Required != b.Required {
		return a.Required < b.Required
	}
	return a.serial < b.serial
}

func (q *Queue[T]) lessDeadline(i, j int) bool {
	a, b := q.byDeadline[i].Place(), q.byDeadline[j].Place()
	if a.Deadline != b.Deadline {
		return a.Deadline < b.Deadline
	}
	return a.serial < b.serial
}

func (q *Queue[T]) swapOffset(i, j int) {
	q.byOffset[i], q.byOffset[j] = q.byOffset[j], q.byOffset[i]
	q.byOffset[i].Place().atOffset = i + 1
	q.byOffset[j].Place().atOffset = j + 1
}

func (q *Queue[T]) swapDeadline(i, j int) {
	q.byDeadline[i], q.byDeadline[j] = q.byDeadline[j], q.byDeadline[i]
	q.byDeadline[i].Place().atDeadline = i + 1
	q.byDeadline[j].Place().atDeadline = j + 1
}

func (q *Queue[T]) upOffset(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.lessOffset(i, parent) {
			return
		}
		q.swapOffset(i, parent)
		i = parent
	}
}

func (q *Queue[T]) downOffset(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.byOffset); child++ {
			if q.lessOffset(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swapOffset(i, least)
		i = least
	}
}

func (q *Queue[T]) upDeadline(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.lessDeadline(i, parent) {
			return
		}
		q.swapDeadline(i, parent)
		i = parent
	}
}

func (q *Queue[T]) downDeadline(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.byDeadline); child++ {
			if q.lessDeadline(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swapDeadline(i, least)
		i = least
	}
}

func (q *Queue[T]) removeOffset(i int) {
	var none T
	last := len(q.byOffset) - 1
	q.swapOffset(i, last)
	q.byOffset[last].Place().atOffset = 0
	q.byOffset[last] = none
	q.byOffset = q.byOffset[:last]
	if i < last {
		q.downOffset(i)
		q.upOffset(i)
	}
}

func (q *Queue[T]) removeDeadline(i int) {
	var none T
	last := len(q.byDeadline) - 1
	q.swapDeadline(i, last)
	q.byDeadline[last].Place().atDeadline = 0
	q.byDeadline[last] = none
	q.byDeadline = q.byDeadline[:last]
	if i < last {
		q.downDeadline(i)
		q.upDeadline(i)
	}
}
