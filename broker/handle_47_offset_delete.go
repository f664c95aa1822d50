package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// OffsetDelete (47), version 0.
//
// Removes committed offsets of topics that the group does not read:
// GROUP_SUBSCRIBED_TO_TOPIC for the others. Partitions that don't exist are
// UNKNOWN_TOPIC_OR_PARTITION. Source: KIP-496.
func (b *Broker) handleOffsetDelete(r *server.Request) {
	req := r.Msg.(*kmsg.OffsetDeleteRequest)
	img := b.quorum.Image()
	ask := kmsg.NewPtrOffsetDeleteRequest()
	ask.Group = req.Group
	var unknown []kmsg.OffsetDeleteResponseTopic
	for i := range req.Topics {
		topic := img.Topic(req.Topics[i].Topic)
		known := kmsg.NewOffsetDeleteRequestTopic()
		rt := kmsg.NewOffsetDeleteResponseTopic()
		known.Topic, rt.Topic = req.Topics[i].Topic, req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			if topic != nil && topic.Partition(p.Partition) != nil {
				known.Partitions = append(known.Partitions, p)
				continue
			}
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, protocol.CodeUnknownTopicOrPartition
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(known.Partitions) > 0 {
			ask.Topics = append(ask.Topics, known)
		}
		if len(rt.Partitions) > 0 {
			unknown = append(unknown, rt)
		}
	}
	b.groups.call(r, req.Group, ask, func(c *coordinator.Call) {
		resp, ok := c.Response.(*kmsg.OffsetDeleteResponse)
		if !ok {
			resp = kmsg.NewPtrOffsetDeleteResponse()
			resp.ErrorCode = c.Code
		} else {
			resp.Topics = append(resp.Topics, unknown...)
		}
		r.Reply(resp)
	})
}
