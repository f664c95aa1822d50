package broker

import (
	"sync"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// quorumLinks carries what the quorum wants sent. It is told within the quorum's
// loop, which may not enter another: what it is told waits for a spare.
type quorumLinks struct {
	b *Broker

	mu     sync.Mutex
	queue  []quorumRequest
	called bool // a spare is on its way
}

type quorumRequest struct {
	to   metadata.Voter
	key  int16
	body []byte
	done func(body []byte, err error) // nil: nobody wants the answer
}

// Send implements quorum.Peers.
func (q *quorumLinks) Send(to metadata.Voter, body []byte) {
	q.add(quorumRequest{to: to, key: quorum.KeyRaft, body: body})
}

// ask is a quorum.Ask.
func (q *quorumLinks) ask(to metadata.Voter, key int16, body []byte, done func(body []byte, err error)) {
	q.add(quorumRequest{to, key, body, done})
}

func (q *quorumLinks) add(r quorumRequest) {
	q.mu.Lock()
	q.queue = append(q.queue, r)
	call := !q.called
	q.called = true
	q.mu.Unlock()
	if call {
		q.b.rt.Spare(q)
	}
}

var _ loop.Delivery = (*quorumLinks)(nil)

// Deliver implements loop.Delivery.
func (q *quorumLinks) Deliver(model.Now) {
	for {
		q.mu.Lock()
		all := q.queue
		q.queue = nil
		if len(all) == 0 {
			q.called = false
		}
		q.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for i := range all {
			q.b.sendQuorum(&all[i])
		}
	}
}

// sendQuorum sends one request of the quorum over the connection of its kind.
func (b *Broker) sendQuorum(r *quorumRequest) {
	class := transport.ClassImage
	if r.key == quorum.KeyRaft {
		class = transport.ClassRaft
	}
	var p *transport.Peer
	if len(r.to.Listeners) > 0 {
		l := r.to.Listeners[0]
		p = b.peers.get(transport.Address{Node: r.to.Node, Host: l.Host, Port: l.Port}, class)
	}
	if p == nil {
		if r.done != nil {
			r.done(nil, transport.ErrClosed)
		}
		return
	}
	req := transport.Request{Key: r.key, Version: privateVersion, Body: r.body}
	if r.done != nil {
		req.Done = quorumAnswer(r.done)
	}
	p.Send(req)
}

// quorumAnswer adapts a function to transport.Receiver.
type quorumAnswer func(body []byte, err error)

// Received implements transport.Receiver. The bytes are copied: the quorum keeps
// what it decodes.
func (f quorumAnswer) Received(a transport.Answer) {
	if a.Err != nil {
		f(nil, a.Err)
		return
	}
	body := append([]byte(nil), a.Body...)
	a.Release()
	f(body, nil)
}
