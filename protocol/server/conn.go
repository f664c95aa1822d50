package server

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// Conn is one connection. Handlers get it with each request.
type Conn struct {
	// Session belongs to the handlers: what they know of this connection, such
	// as who authenticated. It is used only while Handle runs or a Barrier
	// stands, so it needs no lock.
	Session any

	srv           *Server
	listener      Listener
	nc            net.Conn
	raw           syscall.RawConn // nil if nc is not a plain socket
	local, remote string
	ip            string
	startedAt     model.Instant
	sendfileMin   int // negative: never
	authenticated atomic.Bool

	reader
	writer

	mu   sync.Mutex
	wake chan struct{} // has room for one: something the reader waits for may have changed

	// woken, if not nil, is called instead of filling wake: the connection is a
	// LocalConn, which nothing runs in the background.
	woken func()

	head, tail *Request // the unanswered, and the answered behind them, in order
	open       int      // how many
	barriers   int      // how many of them hold back later requests

	out      *outgoing // answers ready to be written; nil if none
	busy     bool      // the reader is handling requests and will write out before it waits
	writing  bool      // someone is writing, and will look at out again before it stops
	closing  bool      // to be closed once out is written; nothing is added any more
	draining bool      // no more requests are read
	polite   bool      // the peer did no wrong: let it read its answers before the end
	dead     bool      // closed
	quiet    answered  // requests without an answer that were not counted yet

	onClose []func()
}

// outMax is how many bytes of answers gather during a burst of requests before
// they are written though the burst goes on.
const outMax = 64 << 10

// Authenticated lifts the limits that hold before authentication.
func (c *Conn) Authenticated() { c.authenticated.Store(true) }

// Closed reports whether the connection is closed.
func (c *Conn) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// OnClose has fn called once when the connection is closed, on whichever
// goroutine closes it; at once if it is closed already. fn must not block.
func (c *Conn) OnClose(fn func()) {
	c.mu.Lock()
	if !c.dead {
		c.onClose = append(c.onClose, fn)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	fn()
}

// signal wakes the reader if it waits on c.wake.
func (c *Conn) signal() {
	if c.woken != nil {
		c.woken()
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// admit puts r at the end of the order. It returns false, with nothing done, if
// the reader must wait first: for an answer, a barrier, or for ever.
func (c *Conn) admit(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayHandle() {
		return false
	}
	c.flushDue = c.out != nil && c.out.size() >= outMax
	if c.tail == nil {
		c.head = r
	} else {
		c.tail.slot.next = r
	}
	c.tail = r
	c.open++
	return true
}

// mayHandle reports whether another request may be handled now. The lock is held.
func (c *Conn) mayHandle() bool {
	return c.open < c.srv.cfg.RequestsMax && c.barriers == 0 && !c.over()
}

// over reports whether no request will be handled any more. The lock is held.
func (c *Conn) over() bool { return c.dead || c.closing || c.draining }

func (c *Conn) raise(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.slot.barrier && !r.slot.done {
		r.slot.barrier = true
		c.barriers++
	}
}

func (c *Conn) lift(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lowered(r)
}

// lowered takes r's barrier away. The lock is held.
func (c *Conn) lowered(r *Request) {
	if r.slot.barrier {
		r.slot.barrier = false
		c.barriers--
		c.signal()
	}
}

// answer gives r its answer. If r is the oldest request it and the answered
// ones behind it become ready to be written, else the answer is kept until then.
// Unless the reader or another writer will see them, they are written from here,
// as far as the socket takes them at once.
func (c *Conn) answer(r *Request, a answer) {
	c.mu.Lock()
	if r.slot.done {
		c.mu.Unlock()
		assert.Unreachable("request %d of API %d answered twice", r.Header.CorrelationID, r.Header.Key)
	}
	r.slot.done = true
	c.lowered(r)
	if c.dead || c.closing {
		c.mu.Unlock()
		if a.fetch != nil {
			a.fetch.Discard()
		}
		r.unref()
		return
	}
	if r != c.head {
		c.keep(r, &a)
		c.mu.Unlock()
		return
	}
	c.release(r, &a)
	write := !c.busy && !c.writing && (c.out != nil || c.closing)
	if write {
		c.writing = true
	}
	c.mu.Unlock()
	r.unref()
	if write {
		c.writeSoon()
	}
}

// keep stores r's answer until the requests before r are answered; r stays in
// use. The lock is held.
func (c *Conn) keep(r *Request, a *answer) {
	r.slot.kept, r.slot.close, r.slot.why = true, a.close, a.why
	if a.msg != nil || a.raw != nil || a.fetch != nil {
		r.slot.ready = newOutgoing()
		r.slot.ready.add(r, a)
	}
}

// release makes the answer of r, the oldest request, ready to be written, and
// those of the answered requests behind it. The lock is held.
func (c *Conn) release(r *Request, a *answer) {
	full := c.open >= c.srv.cfg.RequestsMax
	if a.msg != nil || a.raw != nil || a.fetch != nil {
		if c.out == nil {
			c.out = newOutgoing()
		}
		c.out.add(r, a)
	} else if !a.close {
		c.noteQuiet(r)
	}
	c.pop()
	c.closeAfter(r, a.close, a.why)
	for !c.closing && c.head != nil && c.head.slot.kept {
		next := c.head
		if ready := next.slot.ready; ready != nil {
			next.slot.ready = nil
			if c.out == nil {
				c.out = ready
			} else {
				c.out.join(ready)
			}
		} else if !next.slot.close {
			c.noteQuiet(next)
		}
		c.pop()
		c.closeAfter(next, next.slot.close, next.slot.why)
		next.unref()
	}
	if full || c.over() && c.open == 0 {
		c.signal()
	}
}

func (c *Conn) closeAfter(r *Request, close bool, why string) {
	if close {
		c.closing = true
		c.srv.cfg.Logger.Debug("connection closed by a request",
			zap.String("remote", c.remote), zap.Int16("key", r.Header.Key), zap.String("why", why))
		c.signal()
	}
}

// pop takes the oldest request out of the order. The lock is held.
func (c *Conn) pop() {
	r := c.head
	c.head = r.slot.next
	r.slot.next = nil
	if c.head == nil {
		c.tail = nil
	}
	c.open--
}

// shut closes the connection and drops what was not written. Requests that are
// not answered yet stay with who has them.
func (c *Conn) shut() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.dead = true
	r, out, hooks := c.head, c.out, c.onClose
	c.head, c.tail, c.open, c.out, c.onClose = nil, nil, 0, nil, nil
	var kept []*Request
	for r != nil {
		next := r.slot.next
		r.slot.next = nil
		if r.slot.kept {
			kept = append(kept, r)
		}
		r = next
	}
	c.signal()
	c.mu.Unlock()
	// The error of closing a socket says nothing that we could act on.
	_ = c.nc.Close()
	if out != nil {
		out.recycle()
	}
	for _, r := range kept {
		if r.slot.ready != nil {
			r.slot.ready.recycle()
			r.slot.ready = nil
		}
		r.unref()
	}
	for _, fn := range hooks {
		fn()
	}
}

// GiveUp is for a request whose handler hangs, perhaps on the connection's own
// goroutine: what is answered is written from here and the connection closed, so
// that its client comes back on another. A connection whose goroutine handles
// nothing is left as it is.
func (c *Conn) GiveUp(why string) {
	c.mu.Lock()
	if !c.busy || c.dead || c.closing {
		c.mu.Unlock()
		return
	}
	c.closing = true
	write := !c.writing
	c.writing = true
	c.mu.Unlock()
	c.srv.cfg.Logger.Warn("connection closed", zap.String("remote", c.remote), zap.String("why", why))
	if write {
		c.writeSoon()
	}
}

// drain asks the reader to take no more requests and to close the connection
// when those it has are answered.
func (c *Conn) drain() {
	c.mu.Lock()
	c.draining, c.polite = true, true
	c.signal()
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(past)
}

var past = time.Unix(1, 0)
