package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// producerIDs hands out producer ids from the block that the controller gave to
// this broker, and asks for the next block when it runs out. Ids of a block
// that was not used up are never used again. Source: KIP-730.
type producerIDs struct {
	b *Broker

	mu      sync.Mutex
	id, end model.ProducerID // the rest of the block, [id, end)
	asking  bool
	waiting []func(model.ProducerID, protocol.Code)
}

// producerIDWaitersMax bounds the requests that wait for a block.
const producerIDWaitersMax = 10_000

// next calls done once, now or after the controller has answered.
func (p *producerIDs) next(done func(model.ProducerID, protocol.Code)) {
	p.mu.Lock()
	if p.id < p.end {
		id := p.id
		p.id++
		p.mu.Unlock()
		done(id, protocol.CodeNone)
		return
	}
	if len(p.waiting) >= producerIDWaitersMax {
		p.mu.Unlock()
		done(model.NoProducerID, protocol.CodeCoordinatorLoadInProgress)
		return
	}
	p.waiting = append(p.waiting, done)
	asked := p.asking
	p.asking = true
	p.mu.Unlock()
	if !asked {
		p.ask()
	}
}

func (p *producerIDs) ask() {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = int32(p.b.config.NodeID), int64(p.b.epoch())
	p.b.submit(controller.Command{Request: req}, func(resp kmsg.Response, _ model.OffsetAndEpoch, err error) {
		r := resp.(*kmsg.AllocateProducerIDsResponse)
		if err == nil && r.ErrorCode == protocol.CodeNone {
			p.take(model.ProducerID(r.ProducerIDStart), model.ProducerID(r.ProducerIDStart)+model.ProducerID(r.ProducerIDLen))
			return
		}
		p.refuse()
	})
}

// take uses a new block to serve those who wait; should there be more of them
// than ids, the rest waits for one more block.
func (p *producerIDs) take(id, end model.ProducerID) {
	p.mu.Lock()
	n := min(len(p.waiting), int(end-id))
	served := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	p.id, p.end = id+model.ProducerID(n), end
	p.asking = len(p.waiting) > 0
	again := p.asking
	p.mu.Unlock()
	for i, done := range served {
		done(id+model.ProducerID(i), protocol.CodeNone)
	}
	if again {
		p.ask()
	}
}

// refuse sends those who wait away to try again, with the code that Kafka uses
// when a block is not to be had in time.
func (p *producerIDs) refuse() {
	p.mu.Lock()
	refused := p.waiting
	p.waiting, p.asking = nil, false
	p.mu.Unlock()
	for _, done := range refused {
		done(model.NoProducerID, protocol.CodeCoordinatorLoadInProgress)
	}
}
