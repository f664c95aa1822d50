package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// SyncGroup (14), versions 0-5.
//
// Brings the leader's assignments to the members of a generation. Members wait
// until the leader has sent them and they are replicated. The rules stand in
// package coordinator/group.
func (b *Broker) handleSyncGroup(r *server.Request) {
	req := r.Msg.(*kmsg.SyncGroupRequest)
	if r.Header.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		// Mandatory in this version. Source: KIP-559.
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = protocol.CodeInconsistentGroupProtocol
		r.Reply(resp)
		return
	}
	for i := range req.GroupAssignment {
		a := &req.GroupAssignment[i]
		a.MemberAssignment = slices.Clone(a.MemberAssignment) // outlives the frame
	}
	b.groups.call(r, req.Group, req, func(c *coordinator.Call) {
		resp, ok := c.Response.(*kmsg.SyncGroupResponse)
		if !ok {
			resp = kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode, resp.MemberAssignment = c.Code, []byte{}
		}
		r.Reply(resp)
	})
}
