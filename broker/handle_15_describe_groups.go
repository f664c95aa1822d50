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
	b.groups.each(r, req.Groups, &group.Describe{}, func(i int, c *coordinator.Call) {
		dg := &resp.Groups[i]
		if got, ok := c.Response.(*kmsg.DescribeGroupsResponseGroup); ok {
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

// each puts one question to every group of a request, each to its coordinator
// here. put takes the answers, one goroutine each; then reply is called.
func (g *groups) each(r *server.Request, names []string, question any, put func(i int, c *coordinator.Call), reply func()) {
	gather := &gathering{reply: reply}
	gather.left.Store(int32(len(names)) + 1)
	for i, name := range names {
		g.call(r, name, question, func(c *coordinator.Call) {
			put(i, c)
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
