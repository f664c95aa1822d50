package transport

import (
	"math/rand/v2"
	"time"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// PeerConfig is what a Peer is made of. A zero bound or duration gets the
// default that stands beside it.
type PeerConfig struct {
	RT     loop.Runtime
	Dialer Dialer
	Rand   *rand.Rand // for jitter; the peer's alone

	Class    Class
	ClientID string // see ClientID

	// Address is asked before each attempt to connect, from within the peer's
	// loop. False: not known now; what waits goes on waiting.
	Address func() (Address, bool)

	InFlightMax int // 1: written and not answered
	QueueMax    int // 1024: waiting to be written

	Timeout        time.Duration // 30 s: from Send to the answer
	ConnectTimeout time.Duration // 10 s, or Timeout if that is less: from the attempt to the first answer
	BackoffMin     time.Duration // 50 ms
	BackoffMax     time.Duration // 1 s

	// Counts, unless nil, are shared with other peers.
	Counts *Counts

	// Lost, unless nil, is told outside the loop when a connection went down or
	// an attempt failed.
	Lost func(err error)
}

func (c *PeerConfig) fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Timeout, 30*time.Second)
	def(&c.ConnectTimeout, min(c.Timeout, 10*time.Second))
	def(&c.BackoffMin, 50*time.Millisecond)
	def(&c.BackoffMax, time.Second)
	c.BackoffMax = max(c.BackoffMin, c.BackoffMax)
	c.InFlightMax = max(c.InFlightMax, 1)
	if c.Counts == nil {
		c.Counts = new(Counts)
	}
	if c.QueueMax <= 0 {
		c.QueueMax = 1024
	}
}

// Peer sends requests to one node. Its methods may be called from any goroutine,
// but not from within a loop: that one posts a delivery.
type Peer struct {
	box *loop.Box[message]
}

// NewPeer returns a peer without a connection.
func NewPeer(c PeerConfig) *Peer {
	c.fill()
	p := &Peer{}
	h := &peer{cfg: c, deadline: model.Never}
	p.box = loop.NewBox[message](h, c.RT)
	h.box = p.box
	return p
}

// Send sends a request. It never blocks. The receiver may be told before Send
// returns.
func (p *Peer) Send(r Request) { p.box.Enter(message{kind: msgSend, pending: &pending{Request: r}}) }

// Close closes the connection for good. All that wait or are in flight are told
// ErrClosed, and so is everything sent later.
func (p *Peer) Close() { p.box.Enter(message{kind: msgClose}) }

// message is what a peer's box takes.
type message struct {
	kind    messageKind
	pending *pending
	conn    *link
	buf     *Buffer
	err     error
}

type messageKind uint8

const (
	msgSend messageKind = iota
	msgClose
	msgUp       // conn is there
	msgFrame    // conn brought buf
	msgDown     // conn is gone
	msgDistrust // conn brought what can't be read
)

// link is one stream of a peer, and what that stream tells. A message of a link
// that is no longer the peer's is stale.
type link struct {
	box    *loop.Box[message]
	stream Stream
}

// Up implements StreamEvents.
func (l *link) Up() { l.box.Enter(message{kind: msgUp, conn: l}) }

// Frame implements StreamEvents.
func (l *link) Frame(b *Buffer) { l.box.Enter(message{kind: msgFrame, conn: l, buf: b}) }

// Down implements StreamEvents.
func (l *link) Down(err error) { l.box.Enter(message{kind: msgDown, conn: l, err: err}) }

// distrust closes the link after an answer that can't be read.
func (l *link) distrust(err error) { l.box.Post(message{kind: msgDistrust, conn: l, err: err}) }

// state says how far the connection is.
type state uint8

const (
	stateIdle    state = iota // no connection, none wanted
	stateBackoff              // none until retryAt
	stateDialing              // waiting for Up
	stateAsking               // waiting for the answer to ApiVersions
	stateReady
	stateClosed // for good
)

// peer is the state machine behind a Peer.
type peer struct {
	cfg PeerConfig
	box *loop.Box[message]

	state state
	conn  *link // of the states from Dialing to Ready

	// waiting are to be written, flight are written and not answered; both in
	// order.
	waiting fifo
	flight  fifo

	versions versions // what the node at the other end knows; set in Ready
	asked    int16    // the version in which ApiVersions was asked
	corr     int32    // of the last request

	failures  int           // attempts that failed in a row, or connections of no use
	useful    bool          // conn has answered a request
	readyAt   model.Instant // when conn became ready
	connectBy model.Instant // when the attempt under way has failed
	retryAt   model.Instant // when the next attempt begins

	// deadline is when Tick is due: never later than the first thing that is
	// due, but maybe earlier.
	deadline model.Instant

	encoded int // length of the last request, as a hint
}

// Handle implements loop.Handler.
func (p *peer) Handle(now model.Now, m message, out *loop.Outbox) {
	switch m.kind {
	case msgSend:
		p.send(now.Mono, m.pending, out)
	case msgClose:
		p.close(out)
	default:
		p.handleLink(now.Mono, m, out)
	}
}

func (p *peer) handleLink(now model.Instant, m message, out *loop.Outbox) {
	if m.conn != p.conn {
		if m.buf != nil {
			m.buf.Release()
		}
		return // of a stream that was given up
	}
	switch m.kind {
	case msgUp:
		if p.state == stateDialing {
			p.askVersions(askedFirst)
		}
	case msgFrame:
		p.frame(now, m.buf, out)
	case msgDown:
		p.down(now, m.err, out)
	case msgDistrust:
		p.conn.stream.Close()
		p.down(now, m.err, out)
	}
}

// send queues a request, or writes it at once.
func (p *peer) send(now model.Instant, r *pending, out *loop.Outbox) {
	switch {
	case p.state == stateClosed:
		out.Add(r.fail(ErrClosed, ErrNotSent))
		return
	case p.waiting.len() >= p.cfg.QueueMax:
		out.Add(r.fail(ErrFull, ErrNotSent))
		return
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = p.cfg.Timeout
	}
	r.deadline = now + model.Instant(timeout)
	p.due(r.deadline)
	p.waiting.push(r)
	switch p.state {
	case stateReady:
		p.write(out)
	case stateIdle:
		p.attempt(now)
	}
}

// write writes what waits, as far as there is room in flight.
func (p *peer) write(out *loop.Outbox) {
	for p.waiting.len() > 0 && p.flight.len() < p.cfg.InFlightMax {
		r := p.waiting.pop()
		version, err := p.versions.choose(&r.Request)
		if err != nil {
			out.Add(r.fail(err, ErrNotSent))
			continue
		}
		if r.Msg != nil {
			r.Msg.SetVersion(version)
		}
		r.version = version
		p.put(r)
		p.flight.push(r)
	}
}

// put encodes a request and gives it to the stream.
func (p *peer) put(r *pending) {
	p.corr = (p.corr + 1) & 0x7fffffff
	r.corr, r.conn = p.corr, p.conn
	frame := appendRequest(make([]byte, 0, max(p.encoded+64, 256)), &r.Request, r.version, r.corr, p.cfg.ClientID)
	p.encoded = min(len(frame), 64<<10)
	p.cfg.Counts.Requests.Add(1)
	p.cfg.Counts.BytesOut.Add(int64(len(frame)))
	p.conn.stream.Write(frame)
}

// frame relates an answer to the first request in flight.
func (p *peer) frame(now model.Instant, b *Buffer, out *loop.Outbox) {
	if p.state == stateDialing || p.flight.len() == 0 {
		b.Release()
		p.conn.stream.Close()
		p.down(now, ErrMalformed, out) // nothing was asked
		return
	}
	r := p.flight.first()
	corr, body, err := parseAnswer(b.Bytes(), flexibleAnswer(&r.Request))
	if err != nil || corr != r.corr {
		b.Release()
		p.conn.stream.Close()
		p.down(now, joined{ErrMalformed, err}, out)
		return
	}
	p.flight.pop()
	p.cfg.Counts.Answers.Add(1)
	p.cfg.Counts.BytesIn.Add(int64(len(b.Bytes())) + protocol.FrameSizeLen)
	if p.state == stateAsking {
		p.versionsAnswered(now, r, body, out)
		b.Release()
		return
	}
	if !p.useful {
		p.useful, p.failures = true, 0
	}
	r.buf, r.body = b, body
	out.Add(r)
	p.write(out)
}

// NextDeadline implements loop.Handler.
func (p *peer) NextDeadline() model.Instant { return p.deadline }

// due has Tick called at an instant at the latest.
func (p *peer) due(at model.Instant) { p.deadline = min(p.deadline, at) }

// Tick implements loop.Handler.
func (p *peer) Tick(now model.Now, out *loop.Outbox) {
	p.expire(now.Mono, out)
	switch {
	case (p.state == stateDialing || p.state == stateAsking) && p.connectBy <= now.Mono:
		p.conn.stream.Close()
		p.down(now.Mono, ErrTimeout, out)
	case p.state == stateBackoff && p.retryAt <= now.Mono:
		p.retry(now.Mono)
	}
	p.deadline = p.nextDue()
}

// nextDue looks at everything that is due.
func (p *peer) nextDue() model.Instant {
	at := min(p.waiting.nextDeadline(), p.flight.nextDeadline())
	switch p.state {
	case stateDialing, stateAsking:
		at = min(at, p.connectBy)
	case stateBackoff:
		at = min(at, p.retryAt)
	}
	return at
}

// expire tells those whose time is up. One that was written takes the connection
// with it.
func (p *peer) expire(now model.Instant, out *loop.Outbox) {
	p.waiting.take(func(r *pending) bool { return r.deadline <= now },
		func(r *pending) { out.Add(r.fail(ErrTimeout, ErrNotSent)) })
	late := false
	p.flight.take(func(r *pending) bool { return r.deadline <= now }, func(r *pending) {
		late = true
		out.Add(r.fail(ErrTimeout))
	})
	if late {
		p.conn.stream.Close()
		p.down(now, ErrTimeout, out)
	}
}

// close ends the peer.
func (p *peer) close(out *loop.Outbox) {
	if p.conn != nil {
		p.conn.stream.Close()
	}
	p.conn, p.state, p.deadline = nil, stateClosed, model.Never
	p.flight.take(nil, func(r *pending) { out.Add(r.fail(ErrClosed)) })
	p.waiting.take(nil, func(r *pending) { out.Add(r.fail(ErrClosed, ErrNotSent)) })
}
