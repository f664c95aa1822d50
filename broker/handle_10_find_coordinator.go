package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// FindCoordinator (10), versions 0-6.
//
// There are no group, transaction or share coordinators yet, so each key is
// answered with COORDINATOR_NOT_AVAILABLE. The API is advertised all the same:
// librdkafka infers from it that the broker takes LZ4, and would otherwise send
// uncompressed without a word.
func (b *Broker) handleFindCoordinator(r *server.Request) {
	req := r.Msg.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	resp.ErrorCode, resp.NodeID, resp.Port = protocol.CodeCoordinatorNotAvailable, int32(model.NoLeader), -1
	why := "this broker has no coordinators: assign partitions by hand"
	resp.ErrorMessage = &why
	if req.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID, c.Port = key, int32(model.NoLeader), -1
			c.ErrorCode, c.ErrorMessage = protocol.CodeCoordinatorNotAvailable, &why
			resp.Coordinators = append(resp.Coordinators, c)
		}
	}
	r.Reply(resp)
}
