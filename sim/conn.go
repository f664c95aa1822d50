package sim

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// errCut is what a client knows of requests whose connection broke.
var errCut = errors.New("connection lost")

// conn is one connection of a client to one incarnation. Bytes take their time
// in both directions and keep their order.
type conn struct {
	world *World
	node  *node
	local *server.LocalConn
	dead  bool
	// closed is called once, when the client notices that it is dead.
	closed func()

	nextID   int32
	sent     []*call // not answered yet, in order
	coming   []*call // answered, and the answer is on its way, in order
	toServer []piece
	arrives  model.Instant // when the last piece arrives
	returns  model.Instant // when the last answer arrives
	resumes  bool          // Resume is on its way
}

// piece is bytes on their way to the broker.
type piece struct {
	at    model.Instant
	bytes []byte
}

// call is one request.
type call struct {
	id  int32
	req kmsg.Request
	// emitted is called when the broker gives the answer away, to check it
	// against the state of that moment; may be nil.
	emitted func(kmsg.Response)
	// done is called when the client gets it, or learns that it won't.
	done func(kmsg.Response, error)
}

// connect opens a connection to a broker, nil if nobody listens or nobody is
// reached.
func (w *World) connect(m *machine, closed func()) *conn {
	n := m.node
	if n == nil || !n.up || n.stopping || !w.net.open(outside, m.id) || !w.net.open(m.id, outside) {
		return nil
	}
	c := &conn{world: w, node: n, closed: closed, nextID: w.clientRand.Int32N(1 << 20)}
	if c.local = n.broker.Connect(c.deliver, c.wake); c.local == nil {
		return nil
	}
	n.conns = append(n.conns, c)
	return c
}

// send sends a request in a version. One without an answer has done == nil.
func (c *conn) send(req kmsg.Request, version int16, emitted func(kmsg.Response), done func(kmsg.Response, error)) {
	w := c.world
	if c.dead {
		if done != nil {
			w.at(0, func() { done(nil, errCut) })
		}
		return
	}
	req.SetVersion(version)
	c.nextID++
	if done != nil {
		c.sent = append(c.sent, &call{id: c.nextID, req: req, emitted: emitted, done: done})
	}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("sim")).AppendRequest(nil, req, c.nextID)
	if w.clientRand.IntN(8) == 0 { // cut somewhere, the rest comes later
		at := 1 + w.clientRand.IntN(len(frame)-1)
		c.post(frame[:at])
		frame = frame[at:]
	}
	c.post(frame)
}

// post puts bytes on their way.
func (c *conn) post(b []byte) {
	w := c.world
	c.arrives = max(c.arrives, w.sim.Now()+exp(w.clientRand, model.Instant(w.o.latency))+w.net.extra(outside, c.node.m.id))
	c.toServer = append(c.toServer, piece{c.arrives, b})
	w.at(c.arrives-w.sim.Now(), c.arrive)
}

// arrived takes what has come by now off pieces, as one burst.
func arrived(pieces []piece, now model.Instant) (burst []byte, rest []piece) {
	for len(pieces) > 0 && pieces[0].at <= now {
		if burst == nil {
			burst = pieces[0].bytes
		} else {
			burst = append(burst[:len(burst):len(burst)], pieces[0].bytes...)
		}
		pieces = pieces[1:]
	}
	return burst, pieces
}

// arrive hands in everything that has come by now, in one burst.
func (c *conn) arrive() {
	if c.dead || len(c.toServer) == 0 {
		return
	}
	if !c.world.net.open(outside, c.node.m.id) {
		c.world.at(c.world.net.retransmit(), c.arrive)
		return
	}
	var burst []byte
	burst, c.toServer = arrived(c.toServer, c.world.sim.Now())
	if len(burst) > 0 {
		c.local.Submit(burst)
		c.look()
	}
}

// wake is told by the broker that held-back requests may go on.
func (c *conn) wake() {
	if c.resumes {
		return
	}
	c.resumes = true
	c.node.rt.After(0, do(func() {
		c.resumes = false
		if !c.dead {
			c.local.Resume()
			c.look()
		}
	}))
}

// look notices that the broker closed the connection.
func (c *conn) look() {
	if !c.dead && c.local.Closed() {
		c.lost()
	}
}

// deliver gets an answer from the broker, on the broker's stack.
func (c *conn) deliver(frame []byte) {
	w := c.world
	if c.dead || c.node.m.faults.dying != deathNone {
		return // the process is dead: nothing left it
	}
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	if len(c.sent) == 0 || c.sent[0].id != id {
		w.fail(15, "an answer to request %d came when %s was next", id, c.expects())
	}
	k := c.sent[0]
	c.sent, c.coming = c.sent[1:], append(c.coming, k)
	resp := k.req.ResponseKind()
	body := frame[8:]
	if resp.IsFlexible() && resp.Key() != protocol.KeyApiVersions {
		body = body[1:] // no tags in our headers
	}
	if err := resp.ReadFrom(body); err != nil {
		w.fail(15, "answer to %s version %d can't be read: %v", kmsg.NameForKey(k.req.Key()), k.req.GetVersion(), err)
	}
	w.hash.add(uint64(k.req.Key()), uint64(len(frame)), sum(frame))
	if k.emitted != nil {
		w.noting(func() {
			c.node.takeImages()
			k.emitted(resp)
		})
	}
	c.returns = max(c.returns, w.sim.Now()+exp(w.clientRand, model.Instant(w.o.latency))+w.net.extra(c.node.m.id, outside))
	w.at(c.returns-w.sim.Now(), func() { c.answered(k, resp) })
}

// answered gives the client an answer, once the network lets it through. Over a
// connection that was lost nothing comes: the client knows that by then.
func (c *conn) answered(k *call, resp kmsg.Response) {
	switch w := c.world; {
	case c.dead:
	case !w.net.open(c.node.m.id, outside):
		w.at(w.net.retransmit(), func() { c.answered(k, resp) })
	default:
		c.coming = slices.DeleteFunc(c.coming, func(o *call) bool { return o == k })
		k.done(resp, nil)
	}
}

func (c *conn) expects() string {
	if len(c.sent) == 0 {
		return "nothing"
	}
	k := c.sent[0]
	return kmsg.NameForKey(k.req.Key())
}

// sum is a hash of bytes.
func sum(b []byte) uint64 {
	h := uint64(len(b))
	for len(b) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(b)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
		b = b[8:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

// cut breaks the connection from the client's side: the broker may still do
// what it has read, the answers are lost.
func (c *conn) cut() {
	if c.dead {
		return
	}
	c.lost()
	c.local.Close()
}

// lost ends the connection as seen by the client. What was not answered, or whose
// answer has not come, gets errCut before the client connects anew: an answer to
// what it no longer waits for must not pass for that to its next request.
func (c *conn) lost() {
	if c.dead {
		return
	}
	w := c.world
	c.dead = true
	for i, o := range c.node.conns {
		if o == c {
			c.node.conns = append(c.node.conns[:i:i], c.node.conns[i+1:]...)
			break
		}
	}
	calls := slices.Concat(c.coming, c.sent)
	c.coming, c.sent = nil, nil
	w.at(exp(w.clientRand, model.Instant(w.o.latency)), func() {
		for _, k := range calls {
			k.done(nil, errCut)
		}
		c.closed()
	})
}
