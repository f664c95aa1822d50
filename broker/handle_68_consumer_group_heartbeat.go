package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// ConsumerGroupHeartbeat (68), versions 0-1.
//
// Joins a group, stays in it or leaves it, where the coordinator assigns the
// partitions (KIP-848). The rules stand in package coordinator/group. Until the
// feature group.version is finalized it is UNSUPPORTED_VERSION.
func (b *Broker) handleConsumerGroupHeartbeat(r *server.Request) {
	req := r.Msg.(*kmsg.ConsumerGroupHeartbeatRequest)
	if b.quorum.Image().Feature(groupFeature) < 1 {
		resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode = protocol.CodeUnsupportedVersion
		r.Reply(resp)
		return
	}
	for i := range req.Topics {
		req.Topics[i].Partitions = slices.Clone(req.Topics[i].Partitions)
	}
	b.groups.call(r, req.Group, req, func(c *coordinator.Call) {
		resp, ok := c.Response.(*kmsg.ConsumerGroupHeartbeatResponse)
		if !ok {
			resp = kmsg.NewPtrConsumerGroupHeartbeatResponse()
			resp.ErrorCode = c.Code
		}
		r.Reply(resp)
	})
}
