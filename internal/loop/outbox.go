package loop

import "github.com/tidemark/tidemark/internal/model"

// Outbox collects what a drain wants done after its box was released. It is
// owned by the goroutine that drains, reused from drain to drain, and must not
// be kept by a Handler.
type Outbox struct {
	rt Runtime

	// now is the clock reading of the box drained last. Read after owning it,
	// so that no Handler sees time go back.
	now model.Now

	// items[next:] is what is still to be run, in the order it was added.
	items []item
	next  int

	// handled counts messages since the goroutine entered, over all boxes;
	// others is how many it may handle beside its own; until is when its time
	// is up; spent latches that either bound was met.
	handled int
	others  int
	until   model.Instant
	spent   bool

	// free links unused outboxes of one box.
	free *Outbox
}

// item is one thing to run: exactly one field is set.
type item struct {
	delivery Delivery
	relay    Relay
	box      entrant
}

// entrant is a box of any message type.
type entrant interface{ enterFrom(out *Outbox) }

// itemsKept is the capacity up to which an outbox keeps its slice when idle.
const itemsKept = 256

// Add has d delivered after the release.
func (o *Outbox) Add(d Delivery) { o.items = append(o.items, item{delivery: d}) }

// AddRelay has r run after the release, with this Outbox.
func (o *Outbox) AddRelay(r Relay) { o.items = append(o.items, item{relay: r}) }

// Send puts msg in b's mailbox now and enters b after the release. Messages
// that one Handler sends to one box arrive in the order in which they were
// sent, whichever goroutines carried them.
func Send[M any](out *Outbox, b *Box[M], msg M) {
	if b.put(msg) {
		out.enter(b)
	}
}

func (o *Outbox) enter(e entrant) {
	if n := len(o.items); n > o.next && o.items[n-1].box == e {
		return // just noted
	}
	o.items = append(o.items, item{box: e})
}

// begin readies the outbox for one goroutine's stay.
func (o *Outbox) begin(rt Runtime, others int) {
	o.rt = rt
	o.others = others
	o.now = rt.Now()
	o.until = o.now.Mono + DrainMax
	o.handled = 0
	o.spent = false
}

// mayHandle says whether the goroutine may take one more message, and counts
// it if so.
func (o *Outbox) mayHandle() bool {
	if o.spent {
		return false
	}
	n := o.handled
	if n > o.others || n > 0 && n&(n-1) == 0 && o.rt.Now().Mono > o.until {
		o.spent = true
		return false
	}
	o.handled++
	return true
}

// deliver is the trampoline: it runs everything collected and everything that
// this adds, first in, first out, from one stack frame.
func (o *Outbox) deliver(step func(Point)) {
	for o.next < len(o.items) {
		if step != nil {
			step(PointDeliver)
		}
		it := o.items[o.next]
		o.items[o.next] = item{}
		o.next++
		switch {
		case it.delivery != nil:
			it.delivery.Deliver(o.now)
		case it.relay != nil:
			it.relay.Relay(o.now, o)
		default:
			it.box.enterFrom(o)
		}
	}
	o.next = 0
	if cap(o.items) > itemsKept {
		o.items = nil
		return
	}
	o.items = o.items[:0]
}
