package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// Kinds of coordinator.
const (
	coordinatesGroups = 0
	coordinatesTxns   = 1
	coordinatesShares = 2
)

// FindCoordinator (10), versions 0-6.
//
// Names the broker that coordinates each group: the leader of the partition of
// __consumer_offsets that the group's name hashes to. While that topic does not
// exist it is being created, and the answer is COORDINATOR_NOT_AVAILABLE; so it
// is while the partition has no leader. Transactions and share groups have no
// coordinators. Several keys at once from version 4 (KIP-699). librdkafka infers
// from this API that the broker takes LZ4.
func (b *Broker) handleFindCoordinator(r *server.Request) {
	req := r.Msg.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	kind := req.CoordinatorType
	if r.Header.Version == 0 {
		kind = coordinatesGroups
	}
	if r.Header.Version < 4 {
		c := b.findCoordinator(r, kind, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		r.Reply(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.findCoordinator(r, kind, key))
	}
	r.Reply(resp)
}

func (b *Broker) findCoordinator(r *server.Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, int32(model.NoLeader), -1
	var why string
	switch kind {
	case coordinatesGroups:
		var e protocol.NodeEndpoint
		if e, c.ErrorCode = b.groups.coordinatorOf(r.Listener, key); c.ErrorCode == protocol.CodeNone {
			c.NodeID, c.Host, c.Port = int32(e.ID), e.Host, e.Port
			return c
		}
		why = "the coordinator of this group is not available yet"
	case coordinatesTxns, coordinatesShares:
		c.ErrorCode, why = protocol.CodeCoordinatorNotAvailable, "this broker coordinates neither transactions nor share groups"
	default:
		c.ErrorCode, why = protocol.CodeInvalidRequest, "an unknown kind of coordinator"
	}
	c.ErrorMessage = &why
	return c
}
