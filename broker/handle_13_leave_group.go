package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol/server"
)

// LeaveGroup (13), versions 0-5.
//
// Takes members out of a group: the client itself up to version 2, any from 3
// (KIP-345), with a reason from 5 (KIP-800). The rules stand in package
// coordinator/group.
func (b *Broker) handleLeaveGroup(r *server.Request) {
	req := r.Msg.(*kmsg.LeaveGroupRequest)
	b.groups.call(r, req.Group, req, func(c *coordinator.Call) {
		resp, ok := c.Response.(*kmsg.LeaveGroupResponse)
		if !ok {
			resp = kmsg.NewPtrLeaveGroupResponse()
			resp.ErrorCode = c.Code
		}
		r.Reply(resp)
	})
}
