package server

import (
	"encoding/binary"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// answer is what a handler gave: one of msg, raw and fetch, or close, or
// nothing for a request that has no answer.
type answer struct {
	msg   kmsg.Response
	raw   []byte
	fetch *FetchBody
	close bool
	why   string
}

// slot is a request's place in the order of its connection, guarded by the
// connection's lock.
type slot struct {
	next    *Request
	done    bool // answered
	kept    bool // answered, though requests before it are not
	barrier bool
	ready   *outgoing // its encoded answer, while it waits for those before it
	close   bool
	why     string
}

// outgoing is a run of answers ready to be written, in order: encoded bytes,
// and Fetch bodies that stand between them and are read only when written.
type outgoing struct {
	buf    []byte
	bodies []placed
	sent   int // of buf, by a write that did not take all

	answered []answered // what is in it, to be counted once it is written
}

// placed is a Fetch body and the index in outgoing.buf before which it goes.
type placed struct {
	at   int
	body *FetchBody
}

// outgoingKeep is the capacity above which a buffer is not kept for reuse.
const outgoingKeep = 256 << 10

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing { return outgoings.Get().(*outgoing) }

// recycle drops what is left in o and gives it back to the pool.
func (o *outgoing) recycle() {
	for i := range o.bodies {
		o.bodies[i].body.Discard()
		o.bodies[i].body = nil
	}
	o.bodies = o.bodies[:0]
	if cap(o.buf) > outgoingKeep {
		o.buf = nil
	}
	o.buf, o.sent, o.answered = o.buf[:0], 0, o.answered[:0]
	outgoings.Put(o)
}

// size returns how many bytes o will be on the wire.
func (o *outgoing) size() int {
	n := len(o.buf) - o.sent
	for i := range o.bodies {
		n += o.bodies[i].body.Size()
	}
	return n
}

// add appends the answer to r.
func (o *outgoing) add(r *Request, a *answer) {
	h, start := &r.Header, len(o.buf)
	switch {
	case a.fetch != nil:
		a.fetch.seal(h.CorrelationID)
		o.bodies = append(o.bodies, placed{at: start, body: a.fetch})
		o.note(r, a.fetch.Size())
		return
	case a.msg != nil:
		o.begin(h, a.msg.GetVersion())
		o.buf = a.msg.AppendTo(o.buf)
	case a.raw != nil:
		o.begin(h, h.Version)
		o.buf = append(o.buf, a.raw...)
	}
	o.end(start)
	o.note(r, len(o.buf)-start)
}

func (o *outgoing) begin(h *protocol.RequestHeader, version int16) {
	o.buf = append(o.buf, 0, 0, 0, 0)
	o.buf = protocol.AppendResponseHeader(o.buf, h.Key, version, h.CorrelationID)
}

func (o *outgoing) end(start int) {
	binary.BigEndian.PutUint32(o.buf[start:], uint32(len(o.buf)-start-protocol.FrameSizeLen))
}

// join appends what is in p and recycles p.
func (o *outgoing) join(p *outgoing) {
	for i := range p.bodies {
		o.bodies = append(o.bodies, placed{at: len(o.buf) + p.bodies[i].at, body: p.bodies[i].body})
	}
	p.bodies = p.bodies[:0]
	o.buf = append(o.buf, p.buf...)
	o.answered = append(o.answered, p.answered...)
	p.recycle()
}
