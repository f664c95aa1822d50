package simtime

import (
	"container/heap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// Clocks are those of one node.
type Clocks struct {
	// Wall is what its wall clock shows when the world is at instant 0.
	Wall model.Timestamp

	// DriftPPM is by how many millionths both its clocks run fast; a negative
	// one runs slow.
	DriftPPM int64

	// Started is what its monotonic clock shows at instant 0, in nanoseconds.
	Started model.Instant
}

// Runtime implements loop.Runtime for one incarnation of one node.
type Runtime struct {
	sim    *Sim
	clocks Clocks

	// spareMax bounds the delay of a spare, drawn each time; 0 is at once.
	spareMax model.Instant

	stopped   bool
	deadlines map[loop.Ticker]*event
}

var _ loop.Runtime = (*Runtime)(nil)

// Runtime returns the world as a node with the given clocks sees it. Each spare
// begins after a delay drawn from [0, spareMax].
func (s *Sim) Runtime(c Clocks, spareMax model.Instant) *Runtime {
	return &Runtime{sim: s, clocks: c, spareMax: spareMax, deadlines: make(map[loop.Ticker]*event)}
}

// Now reads the node's clocks.
func (r *Runtime) Now() model.Now {
	passed := r.passed(r.sim.now)
	return model.Now{
		Mono: r.clocks.Started + passed,
		Wall: r.clocks.Wall + model.Timestamp(passed/1_000_000),
	}
}

// JumpWall moves the node's wall clock by ms milliseconds, either way.
func (r *Runtime) JumpWall(ms int64) { r.clocks.Wall += model.Timestamp(ms) }

// passed is how much time the node counts at an instant of the world.
func (r *Runtime) passed(at model.Instant) model.Instant {
	const million = 1_000_000
	ppm := model.Instant(r.clocks.DriftPPM)
	return at + at/million*ppm + at%million*ppm/million
}

// instant is the first instant of the world at which the node's monotonic
// clock shows mono or more.
func (r *Runtime) instant(mono model.Instant) model.Instant {
	want := mono - r.clocks.Started
	at := want
	for off := r.passed(at) - want; off > 1 || off < -1; off = r.passed(at) - want {
		at -= off // the clocks run nearly alike: each turn leaves a small part
	}
	for r.passed(at) < want {
		at++
	}
	for r.passed(at-1) >= want {
		at--
	}
	return at
}

// Spare puts d on the heap.
func (r *Runtime) Spare(d loop.Delivery) { r.After(r.delay(), d) }

func (r *Runtime) delay() model.Instant {
	if r.spareMax <= 0 {
		return 0
	}
	return model.Instant(r.sim.rng.Int64N(int64(r.spareMax) + 1))
}

// After has d delivered after an interval of the world's time, unless the node
// stops before.
func (r *Runtime) After(d model.Instant, what loop.Delivery) {
	if r.stopped {
		return
	}
	r.sim.push(&event{at: r.sim.now + d, owner: r, delivery: what})
}

// SetDeadline replaces the deadline of a Ticker, given in the node's own time.
func (r *Runtime) SetDeadline(t loop.Ticker, at model.Instant) {
	if r.stopped {
		return
	}
	if old := r.deadlines[t]; old != nil {
		heap.Remove(&r.sim.events, old.pos)
		delete(r.deadlines, t)
	}
	if at == model.Never {
		return
	}
	e := &event{at: r.instant(at), owner: r, ticker: t}
	r.deadlines[t] = e
	r.sim.push(e)
}

// Stop takes everything of this node off the heap, for good: it crashed or was
// shut down.
func (r *Runtime) Stop() {
	r.stopped = true
	r.deadlines = make(map[loop.Ticker]*event)
	r.sim.drop(r)
}
