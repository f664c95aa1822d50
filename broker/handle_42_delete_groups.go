package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/protocol/server"
)

// DeleteGroups (42), versions 0-2.
//
// Removes empty groups with their offsets, each for itself: NON_EMPTY_GROUP,
// GROUP_ID_NOT_FOUND. Source: KIP-229.
func (b *Broker) handleDeleteGroups(r *server.Request) {
	req := r.Msg.(*kmsg.DeleteGroupsRequest)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(req.Groups))
	gather := &gathering{reply: func() { r.Reply(resp) }}
	gather.left.Store(int32(len(req.Groups)) + 1)
	for i, name := range req.Groups {
		rg := &resp.Groups[i]
		rg.Default()
		rg.Group = name
		b.groups.call(r, name, &group.Delete{}, func(c *coordinator.Call) {
			rg.ErrorCode = c.Code
			gather.done()
		})
	}
	gather.done()
}
