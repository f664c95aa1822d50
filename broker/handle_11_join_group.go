package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/protocol/server"
)

// JoinGroup (11), versions 0-9.
//
// Makes the client a member of a group, and waits until all members have joined:
// the answer begins a generation. Other requests of the connection go on
// meanwhile. The rules stand in package coordinator/group. Member ids are given
// first from version 4 (KIP-394), static members from 5 (KIP-345), the reason of
// a join from 8 (KIP-800), and a static leader that comes back skips assigning
// from 9 (KIP-814).
func (b *Broker) handleJoinGroup(r *server.Request) {
	req := r.Msg.(*kmsg.JoinGroupRequest)
	for i := range req.Protocols {
		p := &req.Protocols[i]
		p.Metadata = slices.Clone(p.Metadata) // outlives the frame
	}
	b.groups.call(r, req.Group, req, func(c *coordinator.Call) {
		resp, ok := c.Response.(*kmsg.JoinGroupResponse)
		if !ok {
			resp = kmsg.NewPtrJoinGroupResponse()
			resp.ErrorCode, resp.MemberID, resp.Generation = c.Code, req.MemberID, -1
		}
		if resp.Protocol == nil && r.Header.Version < 7 {
			resp.Protocol = new(string)
		}
		r.Reply(resp)
	})
}
