package broker

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// prober finds out whether a node whose connection broke is gone, faster than its
// session would run out: a process that was killed leaves a machine that refuses
// connections to its port. A silence is no such sign, and nobody is given up for
// it here.
//
// A broker is given up (fenced by hint) if two connects, some time apart, were
// refused; a voter that leads, if its connection broke and one was. A connection
// that is taken says that somebody is there only once it has lasted a while.
type prober struct {
	b *Broker

	mu     sync.Mutex
	active map[transport.Address]*probe // what is being looked after
	closed bool
	// found are brokers that are gone and not told yet: others of which the same is
	// suspected are waited for, so that the controller hears of all at once and
	// makes none of them a leader in place of another. gathering: since a deadline
	// runs.
	found     []controller.FenceHint
	gathering bool
	tell      func([]controller.FenceHint)
}

const (
	// probeGap lies between two connects.
	probeGap model.Instant = 60_000_000
	// probeTimeout ends a connect that is neither taken nor refused.
	probeTimeout model.Instant = 1_000_000_000
	// brokenMax is how many connections in a row may be taken and then broken: a
	// process that dies does that once or twice, while its sockets are closed one
	// after another, one that turns connections away does it for ever.
	brokenMax = 5
)

func newProber(b *Broker) *prober {
	p := &prober{b: b, active: make(map[transport.Address]*probe)}
	p.tell = func(gone []controller.FenceHint) {
		b.voter.Submit(controller.Command{Hints: gone}, completion(func(kmsg.Response, model.OffsetAndEpoch, error) {}))
	}
	return p
}

// brokerLost is told that the connection over which a broker sent its heartbeats
// broke, or that this node has just become the active controller.
func (p *prober) brokerLost(id model.BrokerID) {
	b := p.b
	if b.voter == nil || id == b.config.NodeID || b.halting.Load() || !b.quorum.Describe().Active {
		return
	}
	reg := b.quorum.Image().Broker(id)
	if reg == nil || reg.Fenced || len(reg.Listeners) == 0 {
		return
	}
	p.probe(addressOf(reg, b.config.InterBrokerListener), 2, func(since model.Instant) {
		b.logger.Warn("broker refuses connections", zap.Int32("broker", int32(id)), zap.Int64("broker_epoch", int64(reg.Epoch)))
		p.gone(controller.FenceHint{Broker: id, Since: since})
	})
}

// voterLost is told that a connection to a voter broke or could not be made. The
// same process may be a broker.
func (p *prober) voterLost(at transport.Address, err error) {
	b := p.b
	if b.voter == nil || b.halting.Load() {
		return
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		b.voter.PeerLost(at.Node, true)
		p.brokerLost(at.Node)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		b.voter.PeerLost(at.Node, false)
		p.brokerLost(at.Node)
		// Nobody may have anything to send to it now, so that nobody would notice
		// that it is gone.
		p.probe(at, 1, func(model.Instant) { b.voter.PeerLost(at.Node, true) })
	}
}

// probe connects to an address and calls gone if that was refused so many times in
// a row, with the time of the first. One that is being probed already is not
// probed again.
func (p *prober) probe(at transport.Address, times int, gone func(since model.Instant)) {
	p.mu.Lock()
	if p.closed || p.active[at] != nil || p.b.world.Net == nil {
		p.mu.Unlock()
		return
	}
	q := &probe{p: p, at: at, left: times, gone: gone}
	p.active[at] = q
	p.mu.Unlock()
	q.b().rt.Spare(q)
}

// close ends all probing.
func (p *prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// forget ends the probing of an address; false says that the prober is closed.
func (p *prober) forget(at transport.Address) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, at)
	return !p.closed
}

// gone notes that a broker refuses connections, and tells the controller unless
// the same may turn out of another within probeGap.
func (p *prober) gone(h controller.FenceHint) {
	p.mu.Lock()
	p.found = append(p.found, h)
	wait := p.suspects() && !p.gathering
	p.gathering = p.gathering || wait
	p.mu.Unlock()
	if wait {
		p.b.rt.SetDeadline((*gatherer)(p), p.b.rt.Now().Mono+probeGap)
	}
	p.told(false)
}

// suspects reports whether a broker that is probed has refused once. Called with
// mu held.
func (p *prober) suspects() bool {
	for _, q := range p.active { // order-free: any
		if q.refused.Load() {
			return true
		}
	}
	return false
}

// told tells what was found, if nobody else is to be waited for or the time for
// that is over.
func (p *prober) told(over bool) {
	p.mu.Lock()
	gone := p.found
	if len(gone) == 0 || p.closed || !over && p.suspects() {
		p.mu.Unlock()
		return
	}
	p.found, p.gathering = nil, false
	p.mu.Unlock()
	p.tell(gone)
}

// gatherer is the prober as the Ticker of its deadline.
type gatherer prober

// TickAt implements loop.Ticker: others were waited for long enough.
func (g *gatherer) TickAt(model.Now) { (*prober)(g).b.rt.Spare(g) }

// Deliver implements loop.Delivery: the timers' goroutine waits for no loop.
func (g *gatherer) Deliver(model.Now) { (*prober)(g).told(true) }

// probe is one address under suspicion.
type probe struct {
	p    *prober
	at   transport.Address
	gone func(since model.Instant)

	mu     sync.Mutex
	left   int              // refusals that are still needed
	first  model.Instant    // when the first was, 0 before
	stream transport.Stream // the connect under way, nil during a pause
	up     bool             // it was taken
	broken int              // how many were taken and broke
	round  int              // counts connects, so that a late event is known
	over   bool

	refused atomic.Bool // once, and more are needed
}

var (
	_ loop.Delivery = (*probe)(nil)
	_ loop.Ticker   = (*probe)(nil)
)

func (q *probe) b() *Broker { return q.p.b }

// Deliver implements loop.Delivery: the first connect.
func (q *probe) Deliver(model.Now) { q.connect() }

func (q *probe) connect() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.round++
	q.up = false
	q.stream = q.b().world.Net.Open(q.at, transport.ClassProbe, &probeEvents{q, q.round})
	q.b().rt.SetDeadline(q, q.b().rt.Now().Mono+probeTimeout)
}

// TickAt implements loop.Ticker: a pause is over, a connect takes too long, or a
// connection has lasted.
func (q *probe) TickAt(model.Now) {
	q.mu.Lock()
	pausing := q.stream == nil
	q.mu.Unlock()
	if pausing {
		q.connect()
		return
	}
	q.end(false)
}

// end tells the outcome, once.
func (q *probe) end(gone bool) {
	q.mu.Lock()
	over, stream := q.over, q.stream
	q.over, q.stream = true, nil
	q.mu.Unlock()
	if over {
		return
	}
	q.b().rt.SetDeadline(q, model.Never)
	if stream != nil {
		stream.Close()
	}
	if q.p.forget(q.at) && gone {
		q.gone(q.first)
	}
	q.p.told(false)
}

// down is told how a connect failed.
func (q *probe) down(round int, err error) {
	q.mu.Lock()
	if q.over || round != q.round {
		q.mu.Unlock()
		return
	}
	now := q.b().rt.Now().Mono
	over := false
	switch {
	case q.up:
		q.broken++
		over = q.broken == brokenMax
	case errors.Is(err, syscall.ECONNREFUSED):
		if q.first == 0 {
			q.first = now
		}
		q.left--
		over = q.left <= 0
		q.refused.Store(!over)
	default:
		over = true
	}
	gone := q.left <= 0
	q.stream = nil
	q.mu.Unlock()
	if over {
		q.end(gone)
		return
	}
	q.b().rt.SetDeadline(q, now+probeGap)
}

// taken is told that somebody took the connection: a process that serves, or the
// kernel for one that is about to be gone.
func (q *probe) taken(round int) {
	q.mu.Lock()
	current := !q.over && round == q.round
	q.up = q.up || current
	q.mu.Unlock()
	if current {
		q.b().rt.SetDeadline(q, q.b().rt.Now().Mono+probeGap)
	}
}

// probeEvents is one connect of a probe.
type probeEvents struct {
	q     *probe
	round int
}

// Up implements transport.StreamEvents.
func (e *probeEvents) Up() { e.q.taken(e.round) }

// Frame implements transport.StreamEvents.
func (e *probeEvents) Frame(b *transport.Buffer) { b.Release() }

// Down implements transport.StreamEvents.
func (e *probeEvents) Down(err error) { e.q.down(e.round, err) }
