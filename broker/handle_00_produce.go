package broker

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
	"github.com/tidemark/tidemark/protocol/server"
)

// Produce (0), versions 3-13.
//
// Appends one record batch to each partition named. Topics are named up to
// version 12 and told by id from 13 (KIP-516). Batches are validated here, on
// the connection's goroutine; the partition's loop then decides and appends.
// Answers: per-record errors from version 8 (KIP-467), the current leader from
// 10 (KIP-951). With acks=0 there is no answer, and the connection is closed if
// anything failed, so that the client asks for metadata again.
//
// Errors in the order in which they are found: unknown topic (3, by id 100), no
// or a malformed batch (87, 2), zstd before version 7 (76), acks other than
// -1, 0, 1 (21), an internal topic (17), then those of the partition.
func (b *Broker) handleProduce(r *server.Request) {
	req := r.Msg.(*kmsg.ProduceRequest)
	p := b.produces.get()
	p.begin(b, r, req)
	img := b.quorum.Image()
	refused := p.refuseAll(req)
	slot := int32(0)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := lookupTopic(img, t.Topic, t.TopicID)
		for j := range t.Partitions {
			p.produce(slot, topic, t, &t.Partitions[j], refused)
			slot++
		}
	}
	p.done(1)
}

// lookupTopic finds a topic by id if there is one, else by name.
func lookupTopic(img *metadata.Image, name string, id model.TopicID) *metadata.Topic {
	if id != model.NoTopicID {
		return img.TopicByID(id)
	}
	return img.Topic(name)
}

// refuseAll returns the code that every partition gets whatever it holds: a
// transactional batch without a transactional id.
func (p *pendingProduce) refuseAll(req *kmsg.ProduceRequest) protocol.Code {
	if req.TransactionID != nil {
		return protocol.CodeNone
	}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if transactional(req.Topics[i].Partitions[j].Records) {
				return protocol.CodeTransactionalIDAuthorizationFailed
			}
		}
	}
	return protocol.CodeNone
}

// transactional reports whether records begin with a v2 batch whose
// transactional bit is set.
func transactional(records []byte) bool {
	return len(records) >= record.HeaderSize && records[16] == 2 && binary.BigEndian.Uint16(records[21:])&0x10 != 0
}

// produce hands one partition's records on, or refuses them at once.
func (p *pendingProduce) produce(slot int32, topic *metadata.Topic, t *kmsg.ProduceRequestTopic, q *kmsg.ProduceRequestTopicPartition, refused protocol.Code) {
	if refused != protocol.CodeNone {
		p.refuse(slot, refused, "a transactional batch needs a transactional id")
		return
	}
	if topic == nil || topic.Partition(q.Partition) == nil {
		code := protocol.CodeUnknownTopicOrPartition
		if topic == nil && p.r.Header.Version >= 13 {
			code = protocol.CodeUnknownTopicID
		}
		p.refuse(slot, code, "")
		return
	}
	h := p.b.replicas.GetByID(model.TopicIDPartition{TopicID: topic.ID, Partition: q.Partition})
	prepared, reject := p.validate(h, q.Records)
	switch {
	case reject != nil && reject.Early:
		p.reject(slot, reject)
	case p.acks < -1 || p.acks > 1:
		p.refuse(slot, protocol.CodeInvalidRequiredAcks, "")
	case internalTopic(topic.Name) && p.r.Header.ClientID != adminClientID:
		p.refuse(slot, protocol.CodeInvalidTopicException, "clients may not write to an internal topic")
	case h == nil:
		p.redirect(slot, topic.Partition(q.Partition))
	default:
		if !h.Established() {
			p.r.Barrier()
		}
		h.Produce(host.ProduceMsg{
			Prepared: prepared, Reject: reject, Acks: p.acks, Deadline: p.deadline,
			Waiter: p, Slot: slot, Frame: p.r,
		})
	}
}

// adminClientID is the client id under which Kafka lets a client write to
// internal topics.
const adminClientID = "__admin_client"

// validate checks records by the rules of the partition's topic. A partition
// that is not here yet has no rules: its records are only looked at as far as
// an early rejection goes.
func (p *pendingProduce) validate(h *host.Hosted, records []byte) (record.Prepared, *record.Rejection) {
	rules := p.b.rulesOf(h)
	rules.Now, rules.Version = p.r.Received.Wall, p.r.Header.Version
	return record.Validate(records, &rules)
}
