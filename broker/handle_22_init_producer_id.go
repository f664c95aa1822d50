package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// InitProducerId (22), versions 0-5.
//
// A producer without a transactional id gets a new producer id at epoch 0,
// whatever it sent (KIP-98). With one it would need a transaction coordinator,
// and there is none yet: COORDINATOR_NOT_AVAILABLE. An empty transactional id
// is INVALID_REQUEST.
func (b *Broker) handleInitProducerID(r *server.Request) {
	req := r.Msg.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = int64(model.NoProducerID), int16(model.NoProducerEpoch)
	if id := req.TransactionalID; id != nil {
		resp.ErrorCode = protocol.CodeCoordinatorNotAvailable
		if *id == "" {
			resp.ErrorCode = protocol.CodeInvalidRequest
		}
		r.Reply(resp)
		return
	}
	b.producerIDs.next(func(id model.ProducerID, code protocol.Code) {
		resp.ErrorCode = code
		if code == protocol.CodeNone {
			resp.ProducerID, resp.ProducerEpoch = int64(id), 0
		}
		r.Reply(resp)
	})
}
