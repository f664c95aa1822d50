package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/partition"
)

// ProducerInfo is one idempotent producer as DescribeProducers shows it.
// Source: KIP-664.
type ProducerInfo struct {
	ID               model.ProducerID
	Epoch            model.ProducerEpoch
	LastSequence     model.Sequence
	LastTimestamp    model.Timestamp
	CoordinatorEpoch int32
	// TxnStart is the first offset of the open transaction, -1 if none.
	TxnStart model.Offset
}

// ProducersWaiter is told a partition's producers.
type ProducersWaiter interface {
	// ProducersDone is called exactly once, after the loop's release; the
	// producers are sorted by id.
	ProducersDone(slot int32, code Code, producers []ProducerInfo)
}

// producersOp is a DescribeProducers on its way.
type producersOp struct {
	waiter  ProducersWaiter
	slot    int32
	code    Code
	found   []ProducerInfo
	emitted bool
}

// DescribeProducers lists the producers that the partition knows. Only the
// leader answers.
func (h *Hosted) DescribeProducers(w ProducersWaiter, slot int32) {
	h.box.Enter(&producersOp{waiter: w, slot: slot})
}

func (op *producersOp) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	op.emitted = true
	out.Add(op)
	if op.code = h.State().ReadCode(true, model.NoEpoch); op.code != partition.CodeNone {
		return
	}
	h.plog.Producers().Each(func(e *producer.Entry) {
		op.found = append(op.found, ProducerInfo{
			ID: e.ProducerID, Epoch: e.Epoch, LastSequence: e.LastSeq(),
			LastTimestamp: e.LastTimestamp, CoordinatorEpoch: e.CoordinatorEpoch, TxnStart: e.TxnFirstOffset,
		})
	})
}

// Deliver tells the waiter.
func (op *producersOp) Deliver(model.Now) { op.waiter.ProducersDone(op.slot, op.code, op.found) }
