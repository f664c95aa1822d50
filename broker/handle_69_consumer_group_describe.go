package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// ConsumerGroupDescribe (69), versions 0-1.
//
// State, epochs, members and assignments of groups whose coordinator assigns
// (KIP-848), each for itself. One that is of another kind or doesn't exist is
// GROUP_ID_NOT_FOUND.
func (b *Broker) handleConsumerGroupDescribe(r *server.Request) {
	req := r.Msg.(*kmsg.ConsumerGroupDescribeRequest)
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
	b.groups.each(r, req.Groups, &group.DescribeConsumer{}, func(i int, c *coordinator.Call) {
		dg := &resp.Groups[i]
		if got, ok := c.Response.(*kmsg.ConsumerGroupDescribeResponseGroup); ok {
			*dg = *got
		} else {
			dg.Default()
			dg.Group, dg.ErrorCode = c.Key, c.Code
		}
		if dg.ErrorCode == protocol.CodeNone {
			dg.AuthorizedOperations = operations(req.IncludeAuthorizedOperations, groupOperations)
		}
	}, func() { r.Reply(resp) })
}
