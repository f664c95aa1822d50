package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// ReplicaFetchWaiter is told the leader's verdict on a follower's fetch.
type ReplicaFetchWaiter interface {
	// ReplicaFetchDone is called exactly once, after the loop's release. The
	// State may be read up to r.Mark.LogEnd.
	ReplicaFetchDone(slot int32, r partition.ReplicaResult, s *State)
}

// ReplicaFetchMsg reports a follower's fetch to the leader. Fields as in
// partition.ReplicaFetch; its Token is not used.
type ReplicaFetchMsg struct {
	partition.ReplicaFetch
	// Suspect: what came at this offset was no batch, twice. The fetch is refused
	// with KAFKA_STORAGE_ERROR until the segment has been verified.
	Suspect bool
	Waiter  ReplicaFetchWaiter
	Slot    int32
	// Part is what the follower's session knows of the partition, nil if there is
	// no session. The partition watches it, as by Watch, and its watch is offered
	// as a lease.
	Part *FetchPartition
}

// replicaFetchOp is a follower's fetch on its way.
type replicaFetchOp struct {
	partition.ReplicaFetch
	h       *Hosted
	waiter  ReplicaFetchWaiter
	slot    int32
	suspect bool
	watch   *watch // nil without a session
	emitted bool
}

// ReplicaFetch counts a follower's progress and judges its fetch. One of a partition
// whose disk does not answer is refused at once: the others of the same request would
// wait with it.
func (h *Hosted) ReplicaFetch(m ReplicaFetchMsg) {
	if h.stalled.Load() {
		r := partition.ReplicaResult{
			Code: partition.CodeStorageError, Diverging: model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch},
		}
		m.Waiter.ReplicaFetchDone(m.Slot, r, h.State())
		return
	}
	op := &replicaFetchOp{ReplicaFetch: m.ReplicaFetch, h: h, waiter: m.Waiter, slot: m.Slot, suspect: m.Suspect}
	op.Token = op
	if m.Part != nil {
		op.watch = &m.Part.watch
		op.Lease = op.watch
		op.watch.begin(h, partition.BoundLogEnd)
	}
	h.box.Enter(op)
}

func (op *replicaFetchOp) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if op.watch != nil {
		h.hold(op.watch)
	}
	h.in = partition.Input{Kind: partition.KindReplicaFetch, Replica: &op.ReplicaFetch}
	h.step(now, out)
	if op.suspect && op.Result.Code == partition.CodeNone && !h.vouchedFor(now, op.Offset) {
		op.Result.Code = partition.CodeStorageError
	}
}

// Deliver tells the waiter.
func (op *replicaFetchOp) Deliver(model.Now) {
	if op.watch != nil {
		op.watch.still.Store(false) // judged: what comes next counts again
	}
	op.waiter.ReplicaFetchDone(op.slot, op.Result, op.h.State())
}

// AlterAnswered brings the controller's answer to an AlterPartition that the
// partition had asked to be sent.
func (h *Hosted) AlterAnswered(a partition.AlterAnswer) { h.box.Enter(&alterMsg{a}) }
