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
	b.groups.each(r, req.Groups, &group.Delete{}, func(i int, c *coordinator.Call) {
		resp.Groups[i].Default()
		resp.Groups[i].Group, resp.Groups[i].ErrorCode = c.Key, c.Code
	}, func() { r.Reply(resp) })
}
