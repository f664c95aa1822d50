package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DeleteRecords (21), versions 0-2.
//
// Raises the log start of each partition to an offset, -1 being the high
// watermark, and answers with the low watermark once every live replica has
// followed (KIP-107). An internal topic is INVALID_TOPIC_EXCEPTION; the
// partition itself answers POLICY_VIOLATION, OFFSET_OUT_OF_RANGE, and
// REQUEST_TIMED_OUT.
func (b *Broker) handleDeleteRecords(r *server.Request) {
	req := r.Msg.(*kmsg.DeleteRecordsRequest)
	p := &pendingDelete{r: r, resp: req.ResponseKind().(*kmsg.DeleteRecordsResponse)}
	for i := range req.Topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = req.Topics[i].Topic
		rt.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			rp.Default()
			rp.Partition = req.Topics[i].Partitions[j].Partition
			p.parts = append(p.parts, rp)
		}
		p.resp.Topics = append(p.resp.Topics, rt)
	}
	p.left.Store(int32(len(p.parts)) + 1)
	img, deadline := b.quorum.Image(), r.Received.Mono+model.Instant(max(req.TimeoutMillis, 0))*nanosPerMilli
	slot := int32(-1)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			slot++
			h, code := b.hosted(img, req.Topics[i].Topic, q.Partition)
			switch {
			case internalTopic(req.Topics[i].Topic):
				p.DeleteRecordsDone(slot, protocol.CodeInvalidTopicException, model.NoOffset)
			case h == nil:
				p.DeleteRecordsDone(slot, code, model.NoOffset)
			default:
				h.DeleteRecords(model.Offset(q.Offset), deadline, p, slot)
			}
		}
	}
	p.done()
}

// pendingDelete gathers the results of a DeleteRecords request's partitions.
type pendingDelete struct {
	r     *server.Request
	resp  *kmsg.DeleteRecordsResponse
	parts []*kmsg.DeleteRecordsResponseTopicPartition // by slot
	left  atomic.Int32
}

// DeleteRecordsDone implements host.DeleteRecordsWaiter.
func (p *pendingDelete) DeleteRecordsDone(slot int32, code protocol.Code, low model.Offset) {
	rp := p.parts[slot]
	rp.ErrorCode, rp.LowWatermark = code, int64(low)
	p.done()
}

func (p *pendingDelete) done() {
	if p.left.Add(-1) == 0 {
		p.r.Reply(p.resp)
	}
}
