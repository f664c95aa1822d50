package loop

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// msg is a message of the modelled world: from whom, and which.
type msg struct{ from, seq byte }

func (m msg) String() string { return fmt.Sprintf("%c%d", m.from, m.seq) }

// modelBox is a Box under the explorer, with everything that must hold of it.
type modelBox struct {
	w    *world
	id   byte
	box  *Box[msg]
	rt   *modelRT
	then func(m msg, out *Outbox) // what the Handler does beside the checks

	busy    bool    // a thread is in the Handler
	last    *thread // the latest one in it
	queue   []msg   // as put, not yet handled: the order there must be
	handled int
	posted  int // deliveries added
	given   int // deliveries made
	want    int // messages there will be
	due     model.Instant
	ticks   int
	ahead   int // messages put before TickAt and not yet handled
}

// newModelBox adds a box to the world.
func newModelBox(w *world, id byte, others int) *modelBox {
	m := &modelBox{w: w, id: id, rt: &modelRT{w: w, id: id, deadline: model.Never}, due: model.Never}
	m.box = NewBox[msg](m, m.rt)
	m.box.others = others
	m.box.step = m.step
	w.state = append(w.state, m.fingerprint)
	w.atEnd = append(w.atEnd, m.end)
	return m
}

func (m *modelBox) fingerprint(b []byte) []byte {
	x := m.box
	b = append(b, bit(x.owned), bit(x.coming), bit(x.tickDue), bit(x.tick), bit(m.busy))
	b = append(b, byte(m.handled), byte(m.posted), byte(m.given), byte(m.ticks), byte(m.ahead), byte(len(x.queue)))
	for _, q := range x.queue {
		b = append(b, q.from, q.seq)
	}
	for _, q := range x.batch[x.next:] {
		b = append(b, q.from, q.seq)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(x.armed))
	return binary.LittleEndian.AppendUint64(b, uint64(m.rt.deadline))
}

// step is the hook of the box. Inside the Handler there is a stop of its own,
// and none before it: what the owner does between touches only what is its.
func (m *modelBox) step(p Point) {
	if p != PointHandle {
		m.w.pause(m.id, p)
	}
}

// enter, post and send are what threads do; the message is in the order that
// must be from the step on in which the box puts it.
func (m *modelBox) enter(x msg) func() {
	return func() { m.put(x, func() { m.box.Enter(x) }) }
}

func (m *modelBox) post(x msg) func() {
	return func() { m.put(x, func() { m.box.Post(x) }) }
}

func (m *modelBox) send(out *Outbox, x msg) {
	m.put(x, func() { Send(out, m.box, x) })
}

// put notes the message at the first PointPut of the call.
func (m *modelBox) put(x msg, call func()) {
	m.want++
	m.w.cur.putting = x
	first := true
	m.box.step = func(p Point) {
		m.box.step = m.step
		if first && p == PointPut {
			first = false
			m.step(p)
			m.queue = append(m.queue, x)
			m.w.note("puts %s in %c", x, m.id)
			return
		}
		m.step(p)
	}
	call()
	m.w.cur.putting = msg{}
}

// Handle checks that the thread is alone, that the message is the next one,
// and that the thread keeps within its bound.
func (m *modelBox) Handle(_ model.Now, x msg, out *Outbox) {
	t := m.w.cur
	t.handling, t.out = x, out
	m.enterHandler(t, "handles "+x.String())
	switch {
	case len(m.queue) == 0:
		m.w.fail("%c: %s handled and was not waiting", m.id, x)
	case m.queue[0] != x:
		m.w.fail("%c: %s handled before %s", m.id, x, m.queue[0])
		if i := slices.Index(m.queue, x); i >= 0 {
			m.queue = slices.Delete(m.queue, i, i+1)
		}
	default:
		m.queue = m.queue[1:]
	}
	m.handled++
	m.ahead = max(0, m.ahead-1)
	t.handled++
	if t.handled > m.box.others+1 {
		m.w.fail("%s handled %d messages, may %d", t.name, t.handled, m.box.others+1)
	}
	m.posted++
	out.Add(&modelDelivery{m, x})
	if m.then != nil {
		m.then(x, out)
	}
	m.leaveHandler(t)
}

func (m *modelBox) enterHandler(t *thread, what string) {
	m.w.note("%s in %c", what, m.id)
	if m.busy {
		m.w.fail("%c: two threads in the Handler", m.id)
	}
	if t.inHandler {
		m.w.fail("%s entered %c from inside a Handler", t.name, m.id)
	}
	if t.delivering {
		m.w.fail("%s entered %c from inside a delivery", t.name, m.id)
	}
	m.busy, m.last, t.inHandler = true, t, true
	m.w.pause(m.id, pointInside) // others may come while it works
}

func (m *modelBox) leaveHandler(t *thread) {
	m.busy, t.inHandler, t.handling = false, false, msg{}
}

func (m *modelBox) NextDeadline() model.Instant { return m.due }

func (m *modelBox) Tick(_ model.Now, out *Outbox) {
	t := m.w.cur
	t.out = out
	m.enterHandler(t, "ticks")
	if m.ahead > 0 {
		m.w.fail("%c: a tick overtook %d messages", m.id, m.ahead)
	}
	m.ticks++
	m.due = model.Never
	m.posted++
	out.Add(&modelDelivery{m, msg{}})
	m.leaveHandler(t)
}

// tick is what the timer thread does. Which messages are ahead is noted at the
// step in which the box notes the tick.
func (m *modelBox) tick() func() {
	return func() {
		m.box.step = func(p Point) {
			m.box.step = m.step
			m.step(p)
			m.ahead = len(m.queue)
			m.w.note("timer fires for %c", m.id)
		}
		ticker[msg]{m.box}.TickAt(model.Now{Mono: 100})
	}
}

// modelDelivery is a reply to a waiter.
type modelDelivery struct {
	m *modelBox
	x msg
}

func (d *modelDelivery) Deliver(model.Now) {
	t := d.m.w.cur
	d.m.w.note("delivers %s", d.x)
	d.m.given++
	if t.inHandler {
		d.m.w.fail("%s: delivered inside the Handler", d.x)
	}
	if d.m.box.owned && d.m.last == t {
		d.m.w.fail("%s: delivered by %s before it released %c", d.x, t.name, d.m.id)
	}
	t.delivering = true
	defer func() { t.delivering = false }()
}

// end is checked when every thread is done: whatever was put was handled and
// answered, and nobody holds the box.
func (m *modelBox) end() string {
	x := m.box
	switch {
	case m.handled != m.want:
		return fmt.Sprintf("%c: %d of %d messages handled: a lost wake-up (%v wait)", m.id, m.handled, m.want, m.queue)
	case m.given != m.posted:
		return fmt.Sprintf("%c: %d of %d deliveries made", m.id, m.given, m.posted)
	case x.owned || x.coming || !x.idle() || x.Len() != 0:
		return fmt.Sprintf("%c: owned %v, coming %v, idle %v, length %d", m.id, x.owned, x.coming, x.idle(), x.Len())
	case m.due <= 100:
		return fmt.Sprintf("%c: a deadline passed without a tick", m.id)
	}
	return ""
}

// producers has n threads that enter count messages each.
func producers(n, count byte, others int) scenario {
	return func(w *world) {
		b := newModelBox(w, 'A', others)
		for p := range n {
			var ops []func()
			for i := range count {
				ops = append(ops, b.enter(msg{'p' + p, i}))
			}
			w.spawn(fmt.Sprintf("%c", 'p'+p), ops...)
		}
	}
}

// mixed has one thread that enters, one that posts, and the timer.
func mixed(others int) scenario {
	return func(w *world) {
		b := newModelBox(w, 'A', others)
		b.due = 50
		w.spawn("p", b.enter(msg{'p', 0}), b.enter(msg{'p', 1}))
		w.spawn("q", b.post(msg{'q', 0}), b.post(msg{'q', 1}))
		w.spawn("timer", b.tick())
	}
}

// chain has two threads that enter A, whose Handler sends each message on to
// B, whose Handler answers to A: A's answers are not sent on. The first thread
// has count messages.
func chain(count byte, others int) scenario {
	return func(w *world) {
		a, b := newModelBox(w, 'A', others), newModelBox(w, 'B', others)
		a.then = func(x msg, out *Outbox) {
			if x.from >= 'p' {
				b.send(out, msg{x.from, x.seq})
			}
		}
		b.then = func(x msg, out *Outbox) { a.send(out, msg{'B', x.seq}) }
		var ops []func()
		for i := range count {
			ops = append(ops, a.enter(msg{'p', i}))
		}
		w.spawn("p", ops...)
		w.spawn("q", a.enter(msg{'q', 0}))
	}
}

// relayed has replies of A that send to B: the sends leave from the trampoline.
func relayed(others int) scenario {
	return func(w *world) {
		a, b := newModelBox(w, 'A', others), newModelBox(w, 'B', others)
		a.then = func(x msg, out *Outbox) { out.AddRelay(&modelRelay{b, x}) }
		w.spawn("p", a.enter(msg{'p', 0}), a.enter(msg{'p', 1}))
		w.spawn("q", b.enter(msg{'q', 0}))
	}
}

// modelRelay sends its message on.
type modelRelay struct {
	to *modelBox
	x  msg
}

func (r *modelRelay) Relay(_ model.Now, out *Outbox) {
	if r.to.w.cur.inHandler {
		r.to.w.fail("%s: relayed inside the Handler", r.x)
	}
	r.to.send(out, r.x)
}

func TestModel(t *testing.T) {
	for _, c := range []struct {
		name string
		s    scenario
	}{
		{"three producers", producers(3, 2, OthersMax)},
		{"three producers, nothing but the own", producers(3, 2, 0)},
		{"three producers, one other", producers(3, 2, 1)},
		{"two producers, two others", producers(2, 4, 2)},
		{"four producers", producers(4, 1, 1)},
		{"enter, post and timer", mixed(OthersMax)},
		{"enter, post and timer, nothing but the own", mixed(0)},
		{"to another box and back", chain(2, OthersMax)},
		{"to another box and back, one other", chain(1, 1)},
		{"to another box and back, nothing but the own", chain(1, 0)},
		{"relayed", relayed(OthersMax)},
		{"relayed, nothing but the own", relayed(0)},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.s) })
	}
}
