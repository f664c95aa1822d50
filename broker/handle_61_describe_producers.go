package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeProducers (61), version 0.
//
// The idempotent and transactional producers that each partition's leader
// knows, for finding hanging transactions (KIP-664).
func (b *Broker) handleDescribeProducers(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeProducersRequest)
	p := &pendingProducers{r: r, resp: req.ResponseKind().(*kmsg.DescribeProducersResponse)}
	for i := range req.Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = req.Topics[i].Topic
		rt.Partitions = make([]kmsg.DescribeProducersResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			rp.Default()
			rp.Partition = req.Topics[i].Partitions[j]
			p.parts = append(p.parts, rp)
		}
		p.resp.Topics = append(p.resp.Topics, rt)
	}
	p.left.Store(int32(len(p.parts)) + 1)
	img, slot := b.quorum.Image(), int32(0)
	for i := range req.Topics {
		for _, n := range req.Topics[i].Partitions {
			switch h, code := b.hosted(img, req.Topics[i].Topic, n); {
			case h != nil:
				h.DescribeProducers(p, slot)
			case !legalTopicName(req.Topics[i].Topic):
				p.ProducersDone(slot, protocol.CodeInvalidTopicException, nil)
			default:
				p.ProducersDone(slot, code, nil)
			}
			slot++
		}
	}
	p.done()
}

// pendingProducers gathers the results of a DescribeProducers request.
type pendingProducers struct {
	r     *server.Request
	resp  *kmsg.DescribeProducersResponse
	parts []*kmsg.DescribeProducersResponseTopicPartition // by slot
	left  atomic.Int32
}

// ProducersDone implements host.ProducersWaiter.
func (p *pendingProducers) ProducersDone(slot int32, code protocol.Code, found []host.ProducerInfo) {
	rp := p.parts[slot]
	rp.ErrorCode = code
	for i := range found {
		f := &found[i]
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = int64(f.ID), int32(f.Epoch)
		a.LastSequence, a.LastTimestamp = int32(f.LastSequence), int64(f.LastTimestamp)
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = f.CoordinatorEpoch, int64(f.TxnStart)
		rp.ActiveProducers = append(rp.ActiveProducers, a)
	}
	p.done()
}

func (p *pendingProducers) done() {
	if p.left.Add(-1) == 0 {
		p.r.Reply(p.resp)
	}
}
