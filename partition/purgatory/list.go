package purgatory

// Link is a waiter's place in a List. Embed it; only the List touches it.
type Link[T any] struct {
	prev, next *Link[T]
	list       *List[T]
	self       T
}

// Waiting says whether a List holds the waiter.
func (l *Link[T]) Waiting() bool { return l.list != nil }

// List holds waiters that are all woken together, in the order in which they
// came. The zero List is empty and ready; it belongs to one loop.
type List[T any] struct {
	first, last *Link[T]
	n           int
}

// Len returns how many wait.
func (l *List[T]) Len() int { return l.n }

// Add makes the owner of link wait. The link must be in no List.
func (l *List[T]) Add(link *Link[T], self T) {
	link.list, link.self = l, self
	link.prev, link.next = l.last, nil
	if l.last == nil {
		l.first = link
	} else {
		l.last.next = link
	}
	l.last = link
	l.n++
}

// Unlink takes the waiter out of whichever List holds it and says whether one
// did.
func (l *Link[T]) Unlink() bool {
	list := l.list
	if list == nil {
		return false
	}
	if l.prev == nil {
		list.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		list.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	var none T
	l.list, l.prev, l.next, l.self = nil, nil, nil, none
	list.n--
	return true
}

// Pop takes out the waiter that came first. ok is false when none waits.
func (l *List[T]) Pop() (self T, ok bool) {
	if l.first == nil {
		return self, false
	}
	self = l.first.self
	l.first.Unlink()
	return self, true
}
