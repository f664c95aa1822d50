package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol/server"
)

// Heartbeat (12), versions 0-4.
//
// Tells that a member lives, and answers whether it must join again
// (REBALANCE_IN_PROGRESS). The rules stand in package coordinator/group.
func (b *Broker) handleHeartbeat(r *server.Request) {
	req := r.Msg.(*kmsg.HeartbeatRequest)
	b.groups.call(r, req.Group, req, func(c *coordinator.Call) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = c.Code
		r.Reply(resp)
	})
}
