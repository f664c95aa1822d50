package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// groupOperations is everything that may be done to a group.
const groupOperations = opRead | opDescribe | opDelete | opDescribeConfigs | opAlterConfigs

// DescribeGroups (15), versions 0-6.
//
// State and members of groups, each for itself. One that doesn't exist is in
// state Dead, from version 6 with GROUP_ID_NOT_FOUND (KIP-1043).
func (b *Broker) handleDescribeGroups(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeGroupsRequest)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	gather := &gathering{reply: func() { r.Reply(resp) }}
	gather.left.Store(int32(len(req.Groups)) + 1)
	for i, name := range req.Groups {
		dg := &resp.Groups[i]
		b.groups.call(r, name, &group.Describe{}, func(c *coordinator.Call) {
			if got, ok := c.Response.(*kmsg.DescribeGroupsResponseGroup); ok {
				*dg = *got
			} else {
				dg.Default()
				dg.Group, dg.ErrorCode = name, c.Code
			}
			if dg.ErrorCode == protocol.CodeNone {
				dg.AuthorizedOperations = operations(req.IncludeAuthorizedOperations, groupOperations)
			}
			gather.done()
		})
	}
	gather.done()
}

// gathering replies when the last of several answers is in.
type gathering struct {
	left  atomic.Int32 // answers still to come, and one for the handler itself
	reply func()
}

func (g *gathering) done() {
	if g.left.Add(-1) == 0 {
		g.reply()
	}
}
