package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// DeleteRecordsWaiter is told the result of a DeleteRecords.
type DeleteRecordsWaiter interface {
	// DeleteRecordsDone is called exactly once, after the loop's release. low is
	// the low watermark, -1 on failure.
	DeleteRecordsDone(slot int32, code Code, low model.Offset)
}

// deleteOp is a DeleteRecords on its way.
type deleteOp struct {
	partition.DeleteRecords
	waiter  DeleteRecordsWaiter
	slot    int32
	emitted bool
}

// DeleteRecords raises the log start to offset (-1: the high watermark) and
// answers once every live replica has followed, or at the deadline. The caller
// has refused internal topics. Source: KIP-107.
func (h *Hosted) DeleteRecords(offset model.Offset, deadline model.Instant, w DeleteRecordsWaiter, slot int32) {
	op := &deleteOp{waiter: w, slot: slot}
	op.Offset, op.Deadline, op.Token = offset, deadline, op
	h.box.Enter(op)
}

func (op *deleteOp) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindDeleteRecords, Delete: &op.DeleteRecords}
	h.step(now, out)
}

// Deliver tells the waiter.
func (op *deleteOp) Deliver(model.Now) {
	op.waiter.DeleteRecordsDone(op.slot, op.Code, op.LowWatermark)
}
