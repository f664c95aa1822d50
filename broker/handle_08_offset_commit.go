package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// OffsetCommit (8), versions 2-10.
//
// Commits offsets of a group. Topics are told by id from version 10 (KIP-848).
// Partitions that don't exist are refused here, each for itself
// (UNKNOWN_TOPIC_OR_PARTITION, by id UNKNOWN_TOPIC_ID); the rest goes to the
// group, whose rules stand in package coordinator/group. A commit is answered
// once it is replicated, and shown from then on.
func (b *Broker) handleOffsetCommit(r *server.Request) {
	req := r.Msg.(*kmsg.OffsetCommitRequest)
	p := splitCommit(b.quorum.Image(), req, r.Header.Version)
	if len(p.good.Topics) == 0 {
		r.Reply(p.resp)
		return
	}
	b.groups.call(r, req.Group, p.good, func(c *coordinator.Call) {
		resp, _ := c.Response.(*kmsg.OffsetCommitResponse)
		p.merge(resp, c.Code)
		r.Reply(p.resp)
	})
}

// committedParts are a commit's partitions: those that exist, which make up
// another request, and those that don't, which are answered.
type committedParts struct {
	good *kmsg.OffsetCommitRequest
	resp *kmsg.OffsetCommitResponse
	// at is where in resp each partition of good is answered.
	at []*kmsg.OffsetCommitResponseTopicPartition
}

func splitCommit(img *metadata.Image, req *kmsg.OffsetCommitRequest, version int16) *committedParts {
	p := &committedParts{good: new(kmsg.OffsetCommitRequest), resp: kmsg.NewPtrOffsetCommitResponse()}
	*p.good = *req
	p.good.Topics = nil
	p.resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t, rt := &req.Topics[i], &p.resp.Topics[i]
		rt.Default()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		topic, missing := img.Topic(t.Topic), protocol.CodeUnknownTopicOrPartition
		if version >= 10 {
			if topic = img.TopicByID(t.TopicID); topic == nil {
				missing = protocol.CodeUnknownTopicID
			}
		}
		good := *t
		good.Partitions = nil
		for j := range t.Partitions {
			rp := &rt.Partitions[j]
			rp.Default()
			rp.Partition = t.Partitions[j].Partition
			if topic == nil || topic.Partition(rp.Partition) == nil {
				rp.ErrorCode = missing
				continue
			}
			good.Topic = topic.Name
			good.Partitions = append(good.Partitions, t.Partitions[j])
			p.at = append(p.at, rp)
		}
		if len(good.Partitions) > 0 {
			p.good.Topics = append(p.good.Topics, good)
		}
	}
	return p
}

// merge puts the group's answer in its places; nil gives all of them code.
func (p *committedParts) merge(from *kmsg.OffsetCommitResponse, code protocol.Code) {
	if from == nil {
		for _, rp := range p.at {
			rp.ErrorCode = code
		}
		return
	}
	n := 0
	for i := range from.Topics {
		for j := range from.Topics[i].Partitions {
			p.at[n].ErrorCode = from.Topics[i].Partitions[j].ErrorCode
			n++
		}
	}
}
