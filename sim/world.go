package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
)

const (
	millisecond model.Instant = 1_000_000
	second                    = 1000 * millisecond
)

// phase of a run.
type phase uint8

const (
	safety   phase = iota // anything goes
	liveness              // healed: everything must come to its end
	over
)

// World is one simulated world.
type World struct {
	o   Options
	sim *simtime.Sim
	// instant is the world's, instantBegan how many events were before it.
	instant      model.Instant
	instantBegan uint64
	// Chance is split, so that leaving a kind of fault out changes as little as
	// possible of the rest.
	nemesisRand, diskRand, clientRand, nodeRand *rand.Rand

	frail *machine // the one whose disk may fail; nil: none has yet
	// spared: a process that had met disk errors was not ended when the world was healed.
	spared   bool
	exVoter  *machine          // the one that has lost its vote with its metadata; nil: none has yet
	lastAck  model.Instant     // when something was last acknowledged
	acts     [kindCount]uint64 // of the nemesis, so far
	phase    phase
	final    bool          // everything is done but the last look
	machines []*machine    // by id, from 1 on
	healed   model.Instant // when the liveness phase began
	h        history
	groups   map[string]*groupHistory
	meta     meta
	net      net
	clients  []client
	play     *play          // that is on, nil if none is
	playRand *rand.Rand     // when plays begin
	quiet    quiet          // of the producers
	loose    map[int64]bool // producer ids that send at acks=1, and so may leave gaps
	admin    *admin
	parses   parses

	hash    traceHash
	trace   trace
	counts  counts
	era     int // counts starts of processes and changes of leaders
	failure *Failure
	noted   *Failure // found on the product's stack; it ends the run after the event
	held    []held
}

// Failure is a broken invariant.
type Failure struct {
	// Invariant is its number in docs/INVARIANTS.md; 0: the run did not come to
	// its end, or something panicked.
	Invariant int
	// Event is the number of the event that showed it.
	Event uint64
	// Text says what was found.
	Text string
	// Final: it was found after the end, by what Until leaves out.
	Final bool
}

// Until is the event up to which the seed has to be run again to see the
// failure; 0 is to its end.
func (f *Failure) Until() uint64 {
	if f.Final {
		return 0
	}
	return f.Event
}

// Error returns the failure in one line.
func (f *Failure) Error() string {
	return fmt.Sprintf("invariant %d at event %d: %s", f.Invariant, f.Event, f.Text)
}

// counts is what happened in a run.
type counts struct {
	boots, acks, fetched, admin    int
	kind                           [kindCount]int // faults that really happened
	duplicates, refused, abandoned int
	remnants                       int // looks at what is served of damaged logs
}

// Result is the outcome of a run.
type Result struct {
	Options string
	Seed    uint64
	Events  uint64
	Time    model.Instant // virtual
	Hash    uint64
	Boots   int
	// Records acknowledged, and records read by consumers.
	Acknowledged, Read int
	// Remnants counts the looks at what is served of a damaged log without a better
	// copy.
	Remnants int
	// Faults counts those of each kind that happened.
	Faults [kindCount]int
	// Acts counts the acts of the nemesis of each kind, those left out included:
	// see Options.Skip.
	Acts [kindCount]uint64
	// Failure is nil for a run without one.
	Failure *Failure
}

// Run runs one seed. Lines about state changes go to w, if it is not nil.
func Run(o Options, w io.Writer) Result {
	defer seedRaft(o.Seed)()
	world := newWorld(o, w)
	world.run()
	return Result{
		Options: world.o.String(), Seed: o.Seed, Events: world.sim.Ran(), Time: world.sim.Now(), Hash: uint64(world.hash),
		Boots: world.counts.boots, Acknowledged: world.counts.acks, Read: world.counts.fetched,
		Remnants: world.counts.remnants, Faults: world.counts.kind, Acts: world.acts, Failure: world.failure,
	}
}

func newWorld(o Options, out io.Writer) *World {
	w := &World{sim: simtime.New(o.Seed), loose: make(map[int64]bool)}
	split := func(salt uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, salt)) }
	o.draw(split(1), split(7))
	o.drawMembers(split(6))
	o.drawRot(split(7))
	o.drawScrub(split(9))
	w.o = o
	w.nemesisRand, w.diskRand, w.clientRand, w.nodeRand = split(2), split(3), split(4), split(5)
	w.playRand = split(8)
	w.trace.world, w.trace.out = w, out
	w.h.world = w
	w.meta.world = w
	for i := range o.nodes {
		w.machines = append(w.machines, newMachine(w, model.BrokerID(i+1)))
	}
	w.net.init(w)
	w.trace.line("options %s", o.String())
	w.admin = newAdmin(w)
	w.clients = append(w.clients, w.admin)
	for i := range o.producers {
		w.clients = append(w.clients, newProducer(w, i))
	}
	for i := range o.consumers {
		w.clients = append(w.clients, newConsumer(w, i))
	}
	for i := range o.members {
		w.clients = append(w.clients, newMember(w, i))
	}
	for _, m := range w.machines {
		w.at(0, m.boot)
	}
	for _, c := range w.clients {
		w.at(millisecond, c.act)
	}
	w.at(300*millisecond, w.disturb)
	if o.on[KindPlay] {
		w.at(300*millisecond+exp(w.playRand, playPause), w.stage)
	}
	return w
}

// do is a delivery that calls a function.
type do func()

// Deliver implements loop.Delivery.
func (d do) Deliver(model.Now) { d() }

// at has fn run after an interval of the world's time.
func (w *World) at(after model.Instant, fn func()) { w.sim.At(w.sim.Now()+after, do(fn)) }

// fail ends the run with a broken invariant.
func (w *World) fail(invariant int, format string, args ...any) {
	panic(&Failure{Invariant: invariant, Event: w.sim.Ran(), Text: fmt.Sprintf(format, args...)})
}

// deepEvery is how many events lie between two deep checks, in a world of up to
// longWorld events. One costs as much as there are records, so that a world that goes on
// for long takes them more rarely: it was most of its time otherwise.
const (
	deepEvery = 1000
	longWorld = 50_000
)

// deep reports whether a deep check follows an event.
func deep(ran uint64) bool {
	every := deepEvery * (1 + ran/longWorld)
	return ran%every == every-1
}

func (w *World) run() {
	for w.failure == nil && w.phase != over {
		ran := w.sim.Ran()
		switch {
		case w.o.Until > 0 && ran >= w.o.Until:
			w.phase = over
			continue
		case w.phase == safety && ran >= w.o.Events && w.play == nil:
			w.guarded(w.heal)
		}
		w.guarded(w.step)
		if deep(ran) {
			w.guarded(w.deepCheck)
		}
	}
	if w.failure == nil && w.o.Until == 0 {
		w.guarded(w.finalCheck)
		if w.failure != nil {
			w.failure.Final = true
		}
	}
	if w.failure != nil {
		w.trace.line("FAILED %s", w.failure.Error())
	}
}

// atOnceMax is how many events may happen at one instant.
const atOnceMax = 100_000

func (w *World) step() {
	if !w.sim.Step() {
		w.fail(0, "nothing is left to happen")
	}
	w.hash.add(w.sim.Ran(), uint64(w.sim.Now()))
	if w.sim.Now() != w.instant {
		w.instant, w.instantBegan = w.sim.Now(), w.sim.Ran()
	} else if w.sim.Ran()-w.instantBegan > atOnceMax {
		w.fail(0, "more than %d events at one instant: something is due and does not come to be done", atOnceMax)
	}
	if w.dying() == nil || w.noted != nil {
		w.cheapCheck()
	}
	if w.phase == liveness {
		w.watchEnd()
	}
}

// guarded runs fn; a process that died inside it is buried, and a broken
// invariant or a panic ends the run.
func (w *World) guarded(fn func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Failure:
			w.failure = r
		case *assert.Failure:
			if w.dying() != nil {
				break
			}
			w.failure = &Failure{Event: w.sim.Ran(), Text: fmt.Sprintf("%v\n%s", r, debug.Stack())}
		default:
			w.failure = &Failure{Event: w.sim.Ran(), Text: fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
		}
		if m := w.dying(); w.failure == nil && m != nil {
			m.bury()
		}
	}()
	fn()
}

// noting runs a check on the stack of the product, which must not be unwound: it
// may hold locks. What is found is noted, and ends the run after the event.
func (w *World) noting(check func()) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case *Failure:
			if w.noted == nil {
				w.noted = f
			}
		default:
			panic(f)
		}
	}()
	check()
}

// exp draws an interval with a mean.
func exp(r *rand.Rand, mean model.Instant) model.Instant {
	return model.Instant(r.ExpFloat64() * float64(mean))
}
