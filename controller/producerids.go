package controller

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDBlock is how many ids a broker gets at once. Source: KIP-730.
const producerIDBlock = 1000

// allocateProducerIDs hands the next block of ids to a broker.
func (c *Controller) allocateProducerIDs(view *metadata.Image, req *kmsg.AllocateProducerIDsRequest) Result {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	id, epoch := model.BrokerID(req.BrokerID), model.BrokerEpoch(req.BrokerEpoch)
	if b := view.Broker(id); b == nil || b.Epoch != epoch {
		resp.ErrorCode = codeStaleBrokerEpoch
		return Result{reply: resp}
	}
	first := view.NextProducerID()
	if first > math.MaxInt64-producerIDBlock {
		return Result{reply: ErrorReply(req, codeUnknownServerError, fmt.Sprintf("producer ids are used up at %d", first))}
	}
	resp.ProducerIDStart, resp.ProducerIDLen = int64(first), producerIDBlock
	return Result{reply: resp, Units: [][]metadata.Record{{
		&metadata.ProducerIDs{Broker: id, Epoch: epoch, Next: first + producerIDBlock},
	}}}
}
