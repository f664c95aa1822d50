package loop

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/model"
)

// handRT is a Runtime worked by hand, for one goroutine.
type handRT struct {
	now       model.Instant
	perNow    model.Instant // each look at the clock takes so long
	spares    []Delivery
	deadlines map[Ticker]model.Instant
	sets      int
}

func newHandRT() *handRT { return &handRT{deadlines: make(map[Ticker]model.Instant)} }

func (rt *handRT) Now() model.Now {
	rt.now += rt.perNow
	return model.Now{Mono: rt.now}
}

func (rt *handRT) Spare(d Delivery) { rt.spares = append(rt.spares, d) }

func (rt *handRT) SetDeadline(t Ticker, at model.Instant) {
	rt.sets++
	rt.deadlines[t] = at
}

// runSpares runs them until there are none.
func (rt *handRT) runSpares() {
	for len(rt.spares) > 0 {
		d := rt.spares[0]
		rt.spares = rt.spares[1:]
		d.Deliver(rt.Now())
	}
}

// fire runs the tickers whose deadline has come.
func (rt *handRT) fire() {
	for t, at := range rt.deadlines {
		if at <= rt.now {
			delete(rt.deadlines, t)
			t.TickAt(rt.Now())
		}
	}
	rt.runSpares()
}

// recorder is a Handler that writes down what happens to it.
type recorder struct {
	did    []string
	due    model.Instant
	handle func(n int, out *Outbox)
}

func newRecorder() *recorder { return &recorder{due: model.Never} }

func (r *recorder) Handle(_ model.Now, n int, out *Outbox) {
	r.did = append(r.did, fmt.Sprintf("handle %d", n))
	if r.handle != nil {
		r.handle(n, out)
	}
}

func (r *recorder) NextDeadline() model.Instant { return r.due }

func (r *recorder) Tick(now model.Now, out *Outbox) {
	r.did = append(r.did, fmt.Sprintf("tick %d", now.Mono))
	r.due = model.Never
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.did, want) {
		t.Errorf("got %q, want %q", r.did, want)
	}
	r.did = nil
}

// deliver is a Delivery that runs a function.
type deliver struct{ fn func() }

func (d *deliver) Deliver(model.Now) { d.fn() }

func TestEnterHandlesThenDelivers(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	var b *Box[int]
	r.handle = func(n int, out *Outbox) {
		if n == 1 {
			Send(out, b, 2) // to itself: after this message, in the same drain
		}
		out.Add(&deliver{func() { r.did = append(r.did, fmt.Sprintf("deliver %d", n)) }})
	}
	b = NewBox(r, rt)
	b.Enter(1)
	r.want(t, "handle 1", "handle 2", "deliver 1", "deliver 2")
	if b.Len() != 0 || b.Full() || len(rt.spares) != 0 {
		t.Errorf("length %d, full %v, %d spares", b.Len(), b.Full(), len(rt.spares))
	}
}

func TestPostLeavesTheWorkToASpare(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	b.Post(1)
	b.Post(2)
	r.want(t)
	if b.Len() != 2 || len(rt.spares) != 1 {
		t.Errorf("length %d, %d spares, want 2 and one", b.Len(), len(rt.spares))
	}
	b.Enter(3)
	r.want(t, "handle 1", "handle 2", "handle 3")
	rt.runSpares() // finds nothing
	r.want(t)
	b.Post(4)
	rt.runSpares()
	r.want(t, "handle 4")
}

func TestDrainIsBoundedByCount(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	for n := range 200 {
		b.Post(n)
	}
	b.Enter(200)
	if len(r.did) != OthersMax+1 {
		t.Errorf("one caller handled %d messages, want %d", len(r.did), OthersMax+1)
	}
	if b.Len() != 201-len(r.did) {
		t.Errorf("length %d after %d of 201", b.Len(), len(r.did))
	}
	rt.runSpares()
	var want []string
	for n := range 201 {
		want = append(want, fmt.Sprintf("handle %d", n))
	}
	r.want(t, want...)
}

func TestDrainIsBoundedByTime(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	r.handle = func(int, *Outbox) { rt.now += DrainMax/10 + 1 }
	for n := range 60 {
		b.Post(n)
	}
	b.Enter(60)
	if len(r.did) != 16 { // looked at after 8: not yet; after 16: past it
		t.Errorf("one caller handled %d slow messages, want 16", len(r.did))
	}
	r.did = nil
	r.handle = func(int, *Outbox) { rt.now += DrainMax + 1 }
	b.Enter(61)
	if len(r.did) != 1 {
		t.Errorf("one caller handled %d very slow messages, want 1", len(r.did))
	}
}

func TestTrampolineSharesTheBound(t *testing.T) {
	rt := newHandRT()
	depth, deepest, handled := 0, 0, 0
	var boxes [2]*Box[int]
	for i := range boxes {
		r := newRecorder()
		r.handle = func(n int, out *Outbox) {
			depth++
			deepest = max(deepest, depth)
			handled++
			if n > 0 {
				Send(out, boxes[1-i], n-1)
			}
			depth--
		}
		boxes[i] = NewBox(r, rt)
	}
	boxes[0].Enter(1000)
	if deepest != 1 || handled != OthersMax+1 {
		t.Errorf("depth %d, %d messages by one caller, want 1 and %d", deepest, handled, OthersMax+1)
	}
	rt.runSpares()
	if deepest != 1 || handled != 1001 {
		t.Errorf("depth %d, %d messages in all, want 1 and 1001", deepest, handled)
	}
}

// timed is a Handler that notes when it was called.
type timed struct {
	at     []model.Instant
	handle func(n int, out *Outbox)
}

func (h *timed) Handle(now model.Now, n int, out *Outbox) {
	h.at = append(h.at, now.Mono)
	if h.handle != nil {
		h.handle(n, out)
	}
}

func (h *timed) NextDeadline() model.Instant { return model.Never }
func (h *timed) Tick(model.Now, *Outbox)     {}

// A box that is entered from a trampoline was perhaps drained by others while
// its message waited: the clock is read again, or the Handler sees it go back.
func TestTimeNeverGoesBack(t *testing.T) {
	rt := newHandRT()
	rt.perNow = 1
	second := &timed{}
	b := NewBox(second, rt)
	first := &timed{handle: func(n int, out *Outbox) {
		b.Enter(n) // as another goroutine might, just then
		Send(out, b, n)
	}}
	NewBox(first, rt).Enter(1)
	if len(second.at) != 2 || second.at[1] <= second.at[0] || first.at[0] >= second.at[0] {
		t.Errorf("first %v, second %v", first.at, second.at)
	}
}

func TestDeadlines(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	key := ticker[int]{b}
	r.due = 100
	b.Wake()
	if rt.deadlines[key] != 100 {
		t.Fatalf("armed %v, want 100", rt.deadlines)
	}
	r.due = 300 // moved away: what is armed fires for nothing, then the new one is
	b.Enter(1)
	if rt.sets != 1 {
		t.Errorf("%d calls of SetDeadline for a deadline that moved away, want none but the first", rt.sets)
	}
	rt.now = 100
	rt.fire()
	r.want(t, "handle 1")
	if rt.deadlines[key] != 300 {
		t.Errorf("armed %v, want 300", rt.deadlines)
	}
	r.due = 200 // came nearer
	b.Enter(2)
	if rt.deadlines[key] != 200 {
		t.Errorf("armed %v, want 200", rt.deadlines)
	}
	rt.now = 250
	rt.fire()
	r.want(t, "handle 2", "tick 250")
	if len(rt.deadlines) != 0 {
		t.Errorf("armed %v, want nothing", rt.deadlines)
	}
	r.due = 250 + 2*lateMax
	b.Enter(3)
	r.due = model.Never // far away and no longer wanted: cleared
	b.Enter(4)
	if rt.deadlines[key] != model.Never {
		t.Errorf("armed %v, want it cleared", rt.deadlines)
	}
}

func TestTickComesAfterWaitingMessages(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	r.due = 10
	b.Wake()
	b.Post(1)
	rt.now = 20
	rt.fire()
	r.want(t, "handle 1", "tick 20")
	r.due = 30
	b.Wake()
	r.handle = func(n int, _ *Outbox) {
		if n == 2 { // the deadline passes while somebody is inside
			rt.now = 40
			ticker[int]{b}.TickAt(model.Now{Mono: rt.now})
			if len(rt.spares) != 0 {
				t.Error("asked for a spare though an owner will look")
			}
		}
	}
	b.Enter(2)
	r.want(t, "handle 2")
	rt.deadlines = map[Ticker]model.Instant{}
	// The owner read the clock before it passed: it asks again, for a time past.
	if r.due != 30 || b.armed != 30 {
		t.Errorf("due %d, armed %d, want 30", r.due, b.armed)
	}
}

func TestFullAndTheReturnOfMemory(t *testing.T) {
	rt, r := newHandRT(), newRecorder()
	b := NewBox(r, rt)
	for n := range MailboxDepth {
		if b.Full() {
			t.Fatalf("full at %d", n)
		}
		b.Post(n)
	}
	if !b.Full() {
		t.Error("not full")
	}
	b.Post(MailboxDepth) // never refused
	rt.runSpares()
	if len(r.did) != MailboxDepth+1 || b.Len() != 0 {
		t.Errorf("handled %d, %d left", len(r.did), b.Len())
	}
	b.Enter(0)
	b.Enter(0)
	if cap(b.queue) > slotsKept || cap(b.batch) > slotsKept {
		t.Errorf("keeps %d and %d slots after a burst", cap(b.queue), cap(b.batch))
	}
}

// counter is a Handler that must never be entered twice at once: the race
// detector and its own flag watch.
type counter struct {
	inside bool
	last   map[int]int
	n      int
	bad    string
}

func (c *counter) Handle(_ model.Now, m [2]int, out *Outbox) {
	if c.inside {
		c.bad = "two inside"
	}
	c.inside = true
	if want := c.last[m[0]]; m[1] != want {
		c.bad = fmt.Sprintf("producer %d: message %d, want %d", m[0], m[1], want)
	}
	c.last[m[0]]++
	c.n++
	c.inside = false
}

func (c *counter) NextDeadline() model.Instant { return model.Never }
func (c *counter) Tick(model.Now, *Outbox)     {}

// goRT runs spares on goroutines.
type goRT struct{ group lifecycle.Group }

func (rt *goRT) Now() model.Now                    { return model.Now{} }
func (rt *goRT) Spare(d Delivery)                  { rt.group.Go("spare", func() { d.Deliver(rt.Now()) }) }
func (rt *goRT) SetDeadline(Ticker, model.Instant) {}

func TestManyGoroutines(t *testing.T) {
	const producers, each = 8, 4000
	rt := &goRT{}
	c := &counter{last: make(map[int]int)}
	b := NewBox(c, rt)
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for i := range each {
				if i%7 == 3 {
					b.Post([2]int{p, i})
				} else {
					b.Enter([2]int{p, i})
				}
			}
		})
	}
	all.Wait()
	rt.group.Wait()
	b.Wake() // a last look, for the race detector
	if c.n != producers*each || c.bad != "" || b.Len() != 0 {
		t.Errorf("handled %d of %d, %d left: %s", c.n, producers*each, b.Len(), c.bad)
	}
}

// reply is a Delivery that costs nothing.
type reply struct{ n int }

func (r *reply) Deliver(model.Now) { r.n++ }

// worker is a Handler that answers each message.
type worker struct {
	reply reply
	work  int
	sum   uint64
}

func (w *worker) Handle(_ model.Now, n int, out *Outbox) {
	for i := range w.work {
		w.sum = w.sum*31 + uint64(i^n)
	}
	out.Add(&w.reply)
}

func (w *worker) NextDeadline() model.Instant { return model.Never }
func (w *worker) Tick(model.Now, *Outbox)     {}

func TestEnterDoesNotAllocate(t *testing.T) {
	w := &worker{}
	b := NewBox(w, &goRT{})
	b.Enter(0)
	if n := testing.AllocsPerRun(1000, func() { b.Enter(1) }); n != 0 {
		t.Errorf("%v allocations per Enter, want 0", n)
	}
	other := NewBox(&worker{}, &goRT{})
	r := &recorder{due: model.Never}
	_ = r
	s := &sender{to: other}
	from := NewBox(s, &goRT{})
	from.Enter(0)
	if n := testing.AllocsPerRun(1000, func() { from.Enter(1) }); n != 0 {
		t.Errorf("%v allocations per Enter that sends on, want 0", n)
	}
}

// sender is a Handler that passes everything on.
type sender struct{ to *Box[int] }

func (s *sender) Handle(_ model.Now, n int, out *Outbox) { Send(out, s.to, n) }
func (s *sender) NextDeadline() model.Instant            { return model.Never }
func (s *sender) Tick(model.Now, *Outbox)                {}
