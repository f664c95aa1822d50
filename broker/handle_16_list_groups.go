package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// ListGroups (16), versions 0-5.
//
// The groups whose coordinator this broker is, filtered by state from version 4
// (KIP-518) and by type from 5 (KIP-848). While some of them are being loaded the
// answer is COORDINATOR_LOAD_IN_PROGRESS.
func (b *Broker) handleListGroups(r *server.Request) {
	req := r.Msg.(*kmsg.ListGroupsRequest)
	resp := kmsg.NewPtrListGroupsResponse()
	led := b.groups.led()
	var mu sync.Mutex
	gather := &gathering{reply: func() {
		if resp.ErrorCode != protocol.CodeNone {
			resp.Groups = nil
		}
		r.Reply(resp)
	}}
	gather.left.Store(int32(len(led)) + 1)
	for _, h := range led {
		c := &groupCall{Call: coordinator.Call{
			Version: r.Header.Version, Request: &group.List{States: req.StatesFilter, Types: req.TypesFilter},
		}}
		c.Waiter = answeredFunc(func(c *coordinator.Call) {
			mu.Lock()
			found, _ := c.Response.([]kmsg.ListGroupsResponseGroup)
			resp.Groups = append(resp.Groups, found...)
			if c.Code != protocol.CodeNone && c.Code != protocol.CodeNotCoordinator {
				resp.ErrorCode = c.Code
			}
			mu.Unlock()
			gather.done()
		})
		b.groups.send(h, c)
	}
	gather.done()
}
