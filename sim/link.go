package sim

import (
	"io"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
	"github.com/tidemark/tidemark/protocol/transport"
)

// dialer is the transport.Dialer of one incarnation.
type dialer node

// Open implements transport.Dialer.
func (d *dialer) Open(to transport.Address, class transport.Class, events transport.StreamEvents) transport.Stream {
	n := (*node)(d)
	s := &stream{net: &n.world.net, from: n, class: class, events: events}
	for _, m := range n.world.machines {
		if m.host() == to.Host {
			s.to = m
		}
	}
	if s.to == nil {
		n.world.fail(0, "broker %d wants to connect to %v", n.m.id, to)
	}
	s.listener = clientListener
	if to.Port == controllerPort {
		s.listener = controllerListener
	}
	s.net.streams = append(s.net.streams, s)
	n.world.at(s.passes(n.m.id, s.to.id), s.knock)
	return s
}

// stream is one connection between two nodes: a transport.Stream at one end, a
// server.LocalConn at the other. Each end learns of the other's in its own time.
type stream struct {
	net      *net
	from     *node // who opened it
	to       *machine
	listener string
	class    transport.Class
	events   transport.StreamEvents

	peer  *node // who serves it, nil until it is accepted
	local *server.LocalConn
	// here: the end that opened it has seen its end. there: the serving end has.
	here, there bool
	requests    flow
	answers     flow
	resumes     bool
	// held: bytes of that direction are blocked and will be tried again.
	heldThere, heldHere bool
	// pinned: requests don't arrive until a play says so; freed: it has. hanging:
	// behind them comes the end of the connection.
	pinned, freed, hanging bool
}

// flow is one direction: bytes that arrive in order.
type flow struct {
	pieces []piece
	last   model.Instant // when the last of them arrives
}

// passes draws how long something takes from one machine to another now.
func (s *stream) passes(from, to model.BrokerID) model.Instant {
	w := s.net.world
	return w.o.floor() + exp(w.nodeRand, model.Instant(w.o.latency)) + s.net.extra(from, to) + s.net.late(s.class, to)
}

// knock is the arrival of the wish to connect.
func (s *stream) knock() {
	w := s.net.world
	if s.here || !s.from.alive() {
		s.drop()
		return
	}
	if !s.net.hears(s.class, s.from.m.id, s.to.id) || !s.net.open(s.to.id, s.from.m.id) || s.to.dark {
		w.at(20*s.net.retransmit(), s.knock)
		return
	}
	back := s.passes(s.to.id, s.from.m.id)
	if n := s.to.node; n != nil && n.broker != nil {
		s.peer = n
		s.local = n.broker.ConnectTo(s.listener, s.answer, s.wake)
	}
	if s.local == nil {
		s.there = true
		s.from.rt.After(back, do(func() { s.down(syscall.ECONNREFUSED) }))
		return
	}
	s.from.rt.After(back, do(func() {
		if !s.here {
			s.events.Up()
		}
	}))
	s.answers.last = w.sim.Now() + back
}

// Write implements transport.Stream.
func (s *stream) Write(frame []byte) {
	if s.here || s.from.m.faults.dying != deathNone {
		return // the process is dead: nothing left it
	}
	w := s.net.world
	w.hash.add(uint64(s.from.m.id), uint64(s.to.id), sum(frame))
	q := &s.requests
	q.last = max(q.last, w.sim.Now()+s.passes(s.from.m.id, s.to.id))
	if req := s.wish(frame); req != nil && len(req.Topics) > 0 {
		if y := w.play; y != nil && y.wished != nil {
			y.wished(s, req)
		}
		w.act(KindAlter, func(r *rand.Rand) { s.altering(r, req) })
	}
	if y := w.play; y != nil && y.wrote != nil {
		y.wrote(s, s.command(frame))
	}
	q.pieces = append(q.pieces, piece{q.last, frame})
	w.at(q.last-w.sim.Now(), s.arrive)
}

// arrive hands in what has come by now.
func (s *stream) arrive() {
	w := s.net.world
	if s.there || len(s.requests.pieces) == 0 || s.pinned {
		return
	}
	if !s.net.open(s.from.m.id, s.to.id) || !s.freed && !s.net.hears(s.class, s.from.m.id, s.to.id) {
		if !s.heldThere {
			s.heldThere = true
			w.at(s.net.retransmit(), func() {
				s.heldThere = false
				s.arrive()
			})
		}
		return
	}
	if s.peer.m.node != s.peer {
		return // its end is on its way back
	}
	var burst []byte
	burst, s.requests.pieces = arrived(s.requests.pieces, w.sim.Now())
	if len(burst) > 0 {
		if y := w.play; y != nil && y.heard != nil {
			y.heard(s)
		}
		s.local.Submit(burst)
		s.look()
	}
}

// wake is told by the serving broker that held-back requests may go on.
func (s *stream) wake() {
	if s.resumes {
		return
	}
	s.resumes = true
	s.peer.rt.After(0, do(func() {
		s.resumes = false
		if !s.there {
			s.local.Resume()
			s.look()
		}
	}))
}

// look notices that the serving end closed the connection.
func (s *stream) look() {
	if !s.there && s.local != nil && s.local.Closed() {
		s.there = true
		s.tell(io.EOF)
	}
}

// answer gets an answer of the serving broker, on its stack.
func (s *stream) answer(frame []byte) {
	w := s.net.world
	if s.peer.m.faults.dying != deathNone || s.here {
		return
	}
	w.hash.add(uint64(s.to.id), uint64(s.from.m.id), sum(frame))
	q := &s.answers
	q.last = max(q.last, w.sim.Now()+s.passes(s.to.id, s.from.m.id))
	q.pieces = append(q.pieces, piece{q.last, frame[protocol.FrameSizeLen:]})
	s.from.rt.After(q.last-w.sim.Now(), do(s.returns))
}

// returns hands over the answers that have come by now.
func (s *stream) returns() {
	w := s.net.world
	if s.here || len(s.answers.pieces) == 0 {
		return
	}
	if !s.net.hears(s.class, s.to.id, s.from.m.id) {
		if !s.heldHere {
			s.heldHere = true
			s.from.rt.After(s.net.retransmit(), do(func() {
				s.heldHere = false
				s.returns()
			}))
		}
		return
	}
	for q := &s.answers; !s.here && len(q.pieces) > 0 && q.pieces[0].at <= w.sim.Now(); {
		b := q.pieces[0].bytes
		q.pieces = q.pieces[1:]
		s.events.Frame(transport.BufferOf(b))
	}
}

// tell brings the end of the connection to who opened it, behind all answers.
func (s *stream) tell(err error) {
	w := s.net.world
	q := &s.answers
	q.last = max(q.last, w.sim.Now()+s.passes(s.to.id, s.from.m.id))
	s.from.rt.After(q.last-w.sim.Now(), do(func() { s.told(err) }))
}

func (s *stream) told(err error) {
	if !s.net.open(s.to.id, s.from.m.id) || s.to.dark {
		s.from.rt.After(s.net.retransmit(), do(func() { s.told(err) }))
		return
	}
	s.returns()
	s.down(err)
}

// down tells who opened the connection that it is gone.
func (s *stream) down(err error) {
	if s.here {
		return
	}
	s.here = true
	s.drop()
	s.events.Down(err)
}

// Close implements transport.Stream.
func (s *stream) Close() {
	if s.here {
		return
	}
	s.here = true
	s.drop()
	s.hangUp()
}

// hangUp brings the end of the connection to who serves it, behind all requests.
func (s *stream) hangUp() {
	w := s.net.world
	q := &s.requests
	q.last = max(q.last, w.sim.Now()+s.passes(s.from.m.id, s.to.id))
	w.at(q.last-w.sim.Now(), s.hungUp)
}

func (s *stream) hungUp() {
	s.hanging = true
	if s.there || s.local == nil || s.peer.m.node != s.peer || s.pinned {
		return
	}
	if !s.net.open(s.from.m.id, s.to.id) {
		s.net.world.at(s.net.retransmit(), s.hungUp)
		return
	}
	s.arrive()
	s.close()
}

// close ends the serving end.
func (s *stream) close() {
	if !s.there && s.local != nil && s.peer.m.node == s.peer {
		s.there = true
		s.local.Close()
	}
}

// drop forgets the stream.
func (s *stream) drop() {
	if i := slices.Index(s.net.streams, s); i >= 0 {
		s.net.streams = slices.Delete(s.net.streams, i, i+1)
	}
}

// reset breaks the connections between two machines.
func (n *net) reset(a, b model.BrokerID) {
	for _, s := range slices.Clone(n.streams) {
		if s.from.m.id == a && s.to.id == b || s.from.m.id == b && s.to.id == a {
			s.close()
			s.tell(syscall.ECONNRESET)
		}
	}
}

// orphan gives up the connections from one machine to another at their opener's
// end. What it has sent is in the other's kernel and is read much later, behind
// what comes over new connections meanwhile; nobody takes the answers.
func (n *net) orphan(r *rand.Rand, from, to model.BrokerID) {
	w := n.world
	for _, s := range slices.Clone(n.streams) {
		if s.from.m.id != from || s.to.id != to || s.local == nil || s.there {
			continue
		}
		late := exp(r, pick(r, []model.Instant{30 * millisecond, 300 * millisecond, second}))
		w.trace.line("net        %d gives up a connection of class %s to %d; what it sent comes %d ms later", from, s.class, to, late/millisecond)
		s.orphaned(late)
	}
}

// orphaned ends a connection at its opener's end; what is under way comes late.
func (s *stream) orphaned(late model.Instant) {
	w := s.net.world
	q := &s.requests
	for i := range q.pieces {
		q.pieces[i].at += late
		w.at(q.pieces[i].at-w.sim.Now(), s.arrive)
	}
	q.last = max(q.last, w.sim.Now()) + late
	s.hangUp()
	s.from.rt.After(0, do(func() { s.down(syscall.ECONNRESET) }))
}

// gone ends the connections of an incarnation that has ended. The other ends
// hear of it from its kernel, if there still is one.
func (n *net) gone(dead *node) {
	for _, s := range slices.Clone(n.streams) {
		if s.from == dead {
			s.here = true
			s.drop()
			s.hangUp()
		}
		if s.peer == dead {
			s.there = true
			s.tell(syscall.ECONNRESET)
		}
	}
}
