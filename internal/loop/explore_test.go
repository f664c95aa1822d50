package loop

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// The explorer runs the real Box under every interleaving of its atomic steps.
//
// Threads are coroutines. Each stops before every atomic step (Box.step), and
// the explorer chooses who goes on; between two stops nothing else runs, so a
// step is atomic as its critical section makes it. A state that was seen before
// is not gone into again; it is made of all that the next steps can depend on:
// the boxes, and for each thread where it stands, with which message, and its
// Outbox.

// violation is what a schedule can break.
type violation struct{ why string }

func (v *violation) Error() string { return v.why }

// errStop unwinds a thread of an abandoned schedule.
var errStop = errors.New("schedule abandoned")

// thread is one goroutine of the modelled world.
type thread struct {
	name  string
	next  func() (Point, bool)
	stop  func()
	yield func(Point) bool

	done bool
	ops  int // operations begun

	// Where it stands: before which step, of which box, handling and putting
	// which message.
	at       Point
	box      byte
	handling msg
	putting  msg
	out      *Outbox // nil until the present operation has handled a message

	inHandler  bool
	delivering bool
	handled    int // messages handled in the present operation
}

// pointInside stands for the middle of a Handler.
const pointInside Point = 100

// world is one run of a scenario.
type world struct {
	threads []*thread
	cur     *thread
	steps   []string // one line a step, for the report
	err     *violation

	// state renders what is shared: boxes, and what the checks remember.
	state []func(b []byte) []byte

	// atEnd is checked when all threads are done.
	atEnd []func() string

	trace bool
}

// scenario builds a world: its boxes and threads.
type scenario func(w *world)

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = &violation{fmt.Sprintf(format, args...)}
	}
}

// note adds a line to the report of the schedule.
func (w *world) note(format string, args ...any) {
	if w.trace {
		w.steps = append(w.steps, fmt.Sprintf("%-8s ", w.cur.name)+fmt.Sprintf(format, args...))
	}
}

// pause stops the running thread before a step of a box.
func (w *world) pause(box byte, p Point) {
	t := w.cur
	t.box = box
	if !t.yield(p) {
		panic(errStop)
	}
}

// spawn adds a thread that begins the operations one after another.
func (w *world) spawn(name string, ops ...func()) {
	t := &thread{name: name}
	t.next, t.stop = iter.Pull(iter.Seq[Point](func(yield func(Point) bool) {
		defer func() {
			if r := recover(); r != nil && r != errStop { //nolint:errorlint // the very value
				panic(r)
			}
		}()
		t.yield = yield
		for _, op := range ops {
			t.ops++
			t.out, t.handled = nil, 0
			op()
		}
	}))
	w.threads = append(w.threads, t)
	w.advance(t) // to its first stop
}

// advance runs a thread to its next stop.
func (w *world) advance(t *thread) {
	before := w.cur
	w.cur = t
	p, ok := t.next()
	w.cur = before
	t.at, t.done = p, !ok
}

// enabled returns which threads can go on. A thread that stands before a reply
// goes alone: making it touches nothing that another thread looks at, so any
// order gives the same.
func (w *world) enabled() (ids []byte) {
	for i, t := range w.threads {
		if t.done {
			continue
		}
		if t.at == PointDeliver && t.out.items[t.out.next].delivery != nil {
			return []byte{byte(i)}
		}
		ids = append(ids, byte(i))
	}
	return ids
}

func (w *world) fingerprint(b []byte) []byte {
	for _, t := range w.threads {
		if t.done {
			continue
		}
		b = append(b, t.name[0], t.name[len(t.name)-1], byte(t.ops), byte(t.at), t.box,
			t.handling.from, t.handling.seq, t.putting.from, t.putting.seq)
		if t.out == nil {
			continue
		}
		b = append(b, 0xFE, byte(t.out.handled), bit(t.out.spent))
		for _, it := range t.out.items[t.out.next:] {
			switch {
			case it.delivery != nil:
				b = append(b, 'd')
			case it.relay != nil:
				b = append(b, 'r')
			default:
				b = append(b, 'b', it.box.(*Box[msg]).h.(*modelBox).id)
			}
		}
	}
	for _, s := range w.state {
		b = s(append(b, 0xFF))
	}
	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func (w *world) close() {
	for _, t := range w.threads {
		t.stop()
	}
}

// result is what an exploration found.
type result struct {
	states, schedules int
	err               *violation
	schedule          []byte
}

// explore runs every schedule of a scenario.
func explore(s scenario, statesMax int) result {
	var res result
	seed := maphash.MakeSeed()
	seen := make(map[uint64]bool)
	var buf []byte
	todo := [][]byte{nil}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		w := &world{}
		s(w)
		for _, id := range path {
			w.advance(w.threads[id])
		}
		res.schedules++
		for w.err == nil {
			buf = w.fingerprint(buf[:0])
			if key := maphash.Bytes(seed, buf); seen[key] {
				break
			} else {
				seen[key] = true
			}
			ids := w.enabled()
			if len(ids) == 0 {
				for _, check := range w.atEnd {
					if why := check(); why != "" {
						w.fail("at the end: %s", why)
					}
				}
				break
			}
			for _, id := range ids[1:] {
				todo = append(todo, append(path[:len(path):len(path)], id))
			}
			path = append(path[:len(path):len(path)], ids[0])
			w.advance(w.threads[ids[0]])
		}
		w.close()
		res.states = len(seen)
		if w.err != nil {
			res.err, res.schedule = w.err, path
			return res
		}
		if res.states > statesMax {
			res.err = &violation{fmt.Sprintf("more than %d states", statesMax)}
			return res
		}
	}
	return res
}

// replay runs one schedule again and returns its steps as text.
func replay(s scenario, path []byte) string {
	w := &world{trace: true}
	defer w.close()
	s(w)
	for _, id := range path {
		w.advance(w.threads[id])
	}
	return strings.Join(w.steps, "\n")
}

// check explores and reports.
func check(t *testing.T, s scenario) {
	t.Helper()
	res := explore(s, 3_000_000)
	t.Logf("%d states, %d schedules", res.states, res.schedules)
	if res.err != nil {
		t.Fatalf("%s\n%s", res.err.why, replay(s, res.schedule))
	}
}

// modelRT is the Runtime of the modelled world: time stands still, and a spare
// is one more thread.
type modelRT struct {
	w        *world
	id       byte // of its box
	deadline model.Instant
	spares   int
}

func (rt *modelRT) Now() model.Now { return model.Now{Mono: 100} }

func (rt *modelRT) Spare(d Delivery) {
	rt.spares++
	rt.w.note("asks for a spare")
	rt.w.spawn(fmt.Sprintf("spare %d of %c", rt.spares, rt.id), func() { d.Deliver(rt.Now()) })
}

func (rt *modelRT) SetDeadline(_ Ticker, at model.Instant) { rt.deadline = at }
