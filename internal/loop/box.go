package loop

import (
	"slices"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// Point names an atomic step of the protocol. A test that schedules goroutines
// is asked before each.
type Point uint8

// The steps, in the order in which a lone caller takes them.
const (
	PointPut     Point = iota // enqueue, and own if free
	PointHandle               // one message, by the owner
	PointRelease              // take what came meanwhile, or release
	PointDeliver              // one delivery, after the release
	PointLeave                // leave the rest to a spare, and release
	PointOwn                  // own if free and not empty
)

const (
	// slotsKept is the mailbox capacity that is kept after a burst.
	slotsKept = 512

	// outboxesKept bounds the unused outboxes of one box.
	outboxesKept = 4

	// lateMax is how far in the future a deadline that is no longer wanted may
	// stay armed. Clearing one takes the lock of the node's timer heap.
	lateMax model.Instant = 2_000_000_000 // ns
)

// Box is a Handler with a mailbox. All exported methods may be called from any
// goroutine, but not from the Handler itself: that one uses Send.
type Box[M any] struct {
	h    Handler[M]
	rt   Runtime
	step func(Point) // nil but under a scheduling test

	others int // OthersMax but under a scheduling test

	// mu guards the mailbox and the flags. It is a leaf: nothing is called
	// while it is held.
	mu    sync.Mutex
	queue []M  // enqueued and not yet taken by an owner
	left  int  // of batch, as of the last take or leave
	owned bool // somebody is in the Handler

	// coming says that a spare was asked for and has not yet arrived.
	// Invariant: if anything waits then somebody will come for it: the owner,
	// a spare, or one who sent to this box and enters it after a release.
	coming  bool
	tickDue bool // TickAt was called, no owner has seen it

	free     *Outbox
	freeSize int

	// What follows belongs to the owner.

	batch []M // taken from the mailbox; batch[next:] is still to be handled
	next  int
	tick  bool          // a tick follows the batch
	armed model.Instant // the deadline that the Runtime was given last, if it has not fired
}

// NewBox returns a box around h. It does not call h: the first message, or
// Wake, arms its first deadline.
func NewBox[M any](h Handler[M], rt Runtime) *Box[M] {
	return &Box[M]{h: h, rt: rt, others: OthersMax, armed: model.Never}
}

// Enter hands a message to the Handler: on this goroutine if nobody owns the
// box, else through the present owner. When it returns the message may still
// be waiting. Messages that one goroutine enters are handled in that order.
func (b *Box[M]) Enter(msg M) {
	b.at(PointPut)
	b.mu.Lock()
	if b.owned {
		b.queue = append(b.queue, msg)
		b.mu.Unlock()
		return
	}
	if mutant.On("loop-inline-overtakes") {
		b.batch = slices.Insert(b.batch, b.next, msg)
	} else {
		b.queue = append(b.queue, msg)
	}
	out := b.own()
	b.mu.Unlock()
	b.run(out)
}

// Post hands a message to the Handler without doing its work: if nobody owns
// the box a spare goroutine will.
func (b *Box[M]) Post(msg M) {
	b.at(PointPut)
	b.mu.Lock()
	b.queue = append(b.queue, msg)
	call := b.callSpare()
	b.mu.Unlock()
	if call {
		b.rt.Spare(spare[M]{b})
	}
}

// Wake drains the box without a message, so that a deadline which changed
// without one (before the first, or by a hand from outside while nobody
// entered) is armed.
func (b *Box[M]) Wake() {
	b.at(PointOwn)
	b.mu.Lock()
	if b.owned {
		b.mu.Unlock()
		return
	}
	out := b.own()
	b.mu.Unlock()
	b.run(out)
}

// Len returns how many messages wait. Messages that the present owner has
// taken count until it is done with them all.
func (b *Box[M]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) + b.left
}

// Full reports whether MailboxDepth messages wait. A connection that entered
// one and finds the box full stops reading from its socket until it is not.
func (b *Box[M]) Full() bool { return b.Len() >= MailboxDepth }

// put enqueues for Send, and reports whether the sender should enter later. If
// the box is owned its owner will find the message.
func (b *Box[M]) put(msg M) (enter bool) {
	b.at(PointPut)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, msg)
	return !b.owned
}

// enterFrom enters a box that a message was sent to. It adds to the outbox of
// the trampoline that calls it.
func (b *Box[M]) enterFrom(out *Outbox) {
	b.at(PointOwn)
	b.mu.Lock()
	if b.owned || b.idle() {
		b.mu.Unlock()
		return
	}
	b.owned = true
	b.take()
	b.mu.Unlock()
	out.now = b.rt.Now()
	b.drain(out)
}

// own makes the caller the owner and takes the mailbox. Called with mu held.
func (b *Box[M]) own() *Outbox {
	b.owned = true
	b.take()
	out := b.free
	if out == nil {
		return new(Outbox)
	}
	b.free = out.free
	b.freeSize--
	return out
}

// idle reports whether nothing waits. Called with mu held, by one who found
// the box free.
func (b *Box[M]) idle() bool {
	return len(b.queue) == 0 && b.next == len(b.batch) && !b.tick && !b.tickDue
}

// callSpare notes that a spare must come unless one is under way already or an
// owner will look. Called with mu held.
func (b *Box[M]) callSpare() bool {
	if b.owned || b.coming {
		return false
	}
	b.coming = true
	return true
}

// run is the stay of a goroutine that owns b.
func (b *Box[M]) run(out *Outbox) {
	out.begin(b.rt, b.others)
	b.drain(out)
	out.deliver(b.step)
	b.mu.Lock()
	if b.freeSize < outboxesKept {
		out.free = b.free
		b.free = out
		b.freeSize++
	}
	b.mu.Unlock()
}

// drain handles messages until the mailbox is empty or the outbox's bound is
// met, then releases the box.
func (b *Box[M]) drain(out *Outbox) {
	for {
		for b.next < len(b.batch) {
			if !out.mayHandle() {
				b.leave()
				return
			}
			b.at(PointHandle)
			b.h.Handle(out.now, b.pop(), out)
		}
		if b.tick {
			b.tick = false
			b.armed = model.Never
			if b.h.NextDeadline() <= out.now.Mono {
				b.h.Tick(out.now, out)
			}
		}
		b.arm(out.now.Mono)
		if !b.takeOrRelease() {
			return
		}
	}
}

// pop takes the next message of the batch, and forgets it there.
func (b *Box[M]) pop() M {
	var none M
	msg := b.batch[b.next]
	b.batch[b.next] = none
	b.next++
	return msg
}

// arm gives the Runtime the Handler's next deadline if it is nearer than the
// armed one, and clears a far one that is not wanted.
func (b *Box[M]) arm(now model.Instant) {
	at := b.h.NextDeadline()
	if at >= b.armed && (at != model.Never || b.armed == model.Never || b.armed-now < lateMax) {
		return
	}
	b.armed = at
	b.rt.SetDeadline(ticker[M]{b}, at)
}

// takeOrRelease takes what came since the last take and returns true, or finds
// nothing and releases the box. Both in one critical section: a message that
// comes later finds the box free.
func (b *Box[M]) takeOrRelease() bool {
	b.at(PointRelease)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 && !b.tickDue || mutant.On("loop-lost-wakeup") {
		b.owned = false
		b.recycle()
		return false
	}
	b.take()
	return true
}

// take moves the mailbox to the owner's batch. If a bounded drain left part of
// a batch that comes first and the mailbox stays. Called with mu held.
func (b *Box[M]) take() {
	if b.next < len(b.batch) {
		return
	}
	b.recycle()
	b.batch, b.queue = b.queue, b.batch
	b.left = len(b.batch)
	b.tick = b.tickDue // the last one was done with the last batch
	b.tickDue = false
}

// recycle empties a batch that is done, keeping its slots unless a burst made
// them many. Called with mu held.
func (b *Box[M]) recycle() {
	b.batch = b.batch[:0]
	if cap(b.batch) > slotsKept {
		b.batch = nil
	}
	b.next = 0
	b.left = 0
}

// leave releases the box with messages in it, to a spare.
func (b *Box[M]) leave() {
	b.at(PointLeave)
	b.mu.Lock()
	b.left = len(b.batch) - b.next
	b.owned = false
	call := b.callSpare()
	b.mu.Unlock()
	if call {
		b.rt.Spare(spare[M]{b})
	}
}

func (b *Box[M]) at(p Point) {
	if b.step != nil {
		b.step(p)
	}
}

// spare is a box as what Runtime.Spare runs.
type spare[M any] struct{ b *Box[M] }

// Deliver owns the box if it is free and drains it.
func (s spare[M]) Deliver(model.Now) {
	b := s.b
	b.at(PointOwn)
	b.mu.Lock()
	b.coming = false
	if b.owned || b.idle() {
		b.mu.Unlock()
		return
	}
	out := b.own()
	b.mu.Unlock()
	b.run(out)
}

// ticker is a box as what the timer heap calls.
type ticker[M any] struct{ b *Box[M] }

// TickAt notes that a deadline passed. The Handler runs on the owner's
// goroutine or a spare, never on the timers': a write that blocks in one
// partition must not hold up the deadlines of all.
func (t ticker[M]) TickAt(model.Now) {
	b := t.b
	b.at(PointPut)
	b.mu.Lock()
	b.tickDue = true
	call := b.callSpare()
	b.mu.Unlock()
	if call {
		b.rt.Spare(spare[M]{b})
	}
}
