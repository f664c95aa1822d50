package server

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// Handler answers requests.
type Handler interface {
	// Handle is called on the connection's goroutine, with the requests of a
	// connection in order of arrival. It must not block. Exactly one of the
	// request's Reply methods, NoReply or CloseConn is called for it, now or
	// later, on any goroutine.
	Handle(r *Request)
}

// Request is one request and the place of its answer in the connection's order.
// The memory is reused: after it was answered and, if retained, released as
// often as retained, it is not touched again.
type Request struct {
	Header   protocol.RequestHeader
	Msg      kmsg.Request // decoded; nil for private APIs
	Body     []byte       // undecoded body; aliases the frame
	Received model.Now    // when the burst it came in was read
	Conn     *Conn

	Listener              string // name of the listener it came in on
	LocalAddr, RemoteAddr string // host:port of the two ends

	frame *frame
	size  int          // of the frame's bytes that are this request, for the counters
	refs  atomic.Int32 // the call of Handle, the answer, and each Retain
	slot  slot
}

// Retain keeps the frame, and so every slice that aliases it, until a matching
// Release. It is called before Handle returns, or by who holds another Retain.
func (r *Request) Retain() {
	r.frame.retain()
	r.refs.Add(1)
}

// Release undoes one Retain; any goroutine.
func (r *Request) Release() {
	r.frame.release()
	r.unref()
}

// Reply answers with m, encoded in the request's version before Reply returns.
func (r *Request) Reply(m kmsg.Response) {
	m.SetVersion(r.Header.Version)
	r.Conn.srv.errors.count(r.Header.Key, m)
	r.Conn.answer(r, answer{msg: m})
}

// ReplyRaw answers with a body that is encoded already, in the request's
// version; it is copied before ReplyRaw returns. Private APIs use it.
func (r *Request) ReplyRaw(body []byte) {
	if body == nil {
		body = []byte{}
	}
	r.Conn.answer(r, answer{raw: body})
}

// ReplyFetch answers a Fetch and takes the body over. Its regions are read, or
// handed to sendfile, when the answer's turn to be written has come; one that
// can't be read in full closes the connection.
func (r *Request) ReplyFetch(b *FetchBody) {
	for _, code := range b.codes {
		r.Conn.srv.errors.add(r.Header.Key, code)
	}
	r.Conn.answer(r, answer{fetch: b})
}

// NoReply ends the request without an answer, as a Produce with acks 0 demands.
func (r *Request) NoReply() { r.Conn.answer(r, answer{}) }

// CloseConn ends the request by closing the connection once the answers before
// it are written; later requests are not answered any more, and none is handled
// if it is called before Handle returns. why goes to the log at debug level.
func (r *Request) CloseConn(why string) { r.Conn.answer(r, answer{close: true, why: why}) }

// Barrier holds back the later requests of this connection until this one is
// answered or calls Lift. It is called before Handle returns.
func (r *Request) Barrier() { r.Conn.raise(r) }

// Lift ends a Barrier early, when the effect that it protected is made; any
// goroutine. Without a Barrier it does nothing.
func (r *Request) Lift() { r.Conn.lift(r) }

// Abandoned reports whether the connection is closed, so that an answer would
// go nowhere. It still must be given.
func (r *Request) Abandoned() bool { return r.Conn.Closed() }

// unref ends one of the uses of r; the last gives it back to the pool.
func (r *Request) unref() {
	// Unless it was the last use r belongs to others from here on.
	n := r.refs.Add(-1)
	assert.That(n >= 0, "request released %d times too often", -n)
	if n == 0 {
		r.Msg, r.Body, r.frame, r.Conn = nil, nil, nil, nil
		requests.Put(r)
	}
}

// drop ends a request that no handler will see.
func (r *Request) drop() {
	r.refs.Store(1)
	r.unref()
}

var requests = sync.Pool{New: func() any { return new(Request) }}

// newRequest returns a request in the frame that c reads into, used by the call
// of Handle and by the answer.
func (c *Conn) newRequest(h protocol.RequestHeader, body []byte) *Request {
	r := requests.Get().(*Request)
	r.Header, r.Body, r.Received, r.Conn, r.frame = h, body, c.now, c, c.in
	r.Listener, r.LocalAddr, r.RemoteAddr = c.listener.Name, c.local, c.remote
	r.slot = slot{}
	r.refs.Store(2)
	return r
}
