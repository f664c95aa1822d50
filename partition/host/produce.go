package host

import (
	"sync"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// ProduceWaiter is told the result of each partition of a produce request.
type ProduceWaiter interface {
	// ProduceDone is called exactly once for each Produce, after the partition's
	// loop was released, on whichever goroutine completed it; possibly before
	// Produce returns.
	ProduceDone(slot int32, r ProduceResult)
}

// ProduceResult is the answer to a Produce.
type ProduceResult = partition.ProduceResult

// ProduceMsg asks to append one validated batch.
type ProduceMsg struct {
	// Prepared is what record.Validate made of the bytes.
	Prepared record.Prepared
	// Reject is what it found wrong, unless that is Early: an early rejection is
	// the handler's to report, before the partition is asked.
	Reject *record.Rejection
	// Acks is 0, 1 or -1.
	Acks int16
	// Deadline is when a waiting acks=-1 is answered REQUEST_TIMED_OUT.
	Deadline model.Instant
	Waiter   ProduceWaiter
	// Slot is handed back to the Waiter.
	Slot int32
	// Frame holds the bytes of Prepared; Produce retains it until the append is
	// done, which is earlier than the answer. May be nil.
	Frame Frame
}

// produceOp is a produce on its way: the core's Produce, the message in the
// mailbox and the delivery of the answer in one object.
type produceOp struct {
	partition.Produce
	h       *Hosted
	waiter  ProduceWaiter
	slot    int32
	frame   Frame
	emitted bool

	// List of unanswered produces, under h.unanswered.mu.
	prev, next *produceOp
	listed     bool
}

// produceOps recycles produceOps: a produce allocates none in steady state.
type produceOps struct{ pool sync.Pool }

func (p *produceOps) get() *produceOp {
	if op, ok := p.pool.Get().(*produceOp); ok {
		return op
	}
	return &produceOp{}
}

func (p *produceOps) put(op *produceOp) {
	*op = produceOp{}
	p.pool.Put(op)
}

// Produce hands a batch to the partition. It returns when the batch has been
// decided or queued; it never blocks for replication or the disk's fsync.
func (h *Hosted) Produce(m ProduceMsg) {
	if h.stalled.Load() {
		m.Waiter.ProduceDone(m.Slot, stalledResult())
		return
	}
	op := h.m.ops.get()
	op.h, op.waiter, op.slot, op.frame = h, m.Waiter, m.Slot, m.Frame
	op.Prepared, op.Rejection, op.Acks, op.Deadline = m.Prepared, m.Reject, m.Acks, m.Deadline
	op.ControllerHeard = model.Instant(h.m.heardAt.Load())
	if op.frame != nil {
		op.frame.Retain()
	}
	h.unanswered.add(op)
	h.box.Enter(op)
}

func stalledResult() ProduceResult {
	return ProduceResult{
		Code: partition.CodeStorageError, Message: "the disk does not answer",
		BaseOffset: model.NoOffset, LogStart: model.NoOffset, AppendTime: model.NoTimestamp,
		Leader: model.NoLeader, LeaderEpoch: model.NoEpoch,
	}
}

func (op *produceOp) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	op.Token = op
	h.in = partition.Input{Kind: partition.KindProduce, Produce: &op.Produce}
	h.step(now, out)
	if !h.core.Busy() {
		op.releaseFrame()
	}
}

// releaseFrame gives the request's bytes back: they are in the log or refused.
func (op *produceOp) releaseFrame() {
	if op.frame != nil {
		op.frame.Release()
		op.frame = nil
	}
	op.Prepared = record.Prepared{}
	op.Rejection = nil
}

// emit has the answer delivered after the loop's release.
func (op *produceOp) emit(out *loop.Outbox) {
	op.releaseFrame()
	op.emitted = true
	out.Add(op)
}

// Deliver tells the waiter, unless the watchdog did.
func (op *produceOp) Deliver(model.Now) {
	h, waiter, slot, result := op.h, op.waiter, op.slot, op.Result
	answer := h.unanswered.remove(op)
	if answer {
		waiter.ProduceDone(slot, result)
	}
	h.m.ops.put(op)
}

// unanswered lists a partition's produces that have no answer yet, so that a
// watchdog can answer them while the loop is stuck in a write.
type unanswered struct {
	mu    sync.Mutex
	first *produceOp
	n     int
}

func (u *unanswered) add(op *produceOp) {
	u.mu.Lock()
	op.next, op.prev, op.listed = u.first, nil, true
	if u.first != nil {
		u.first.prev = op
	}
	u.first = op
	u.n++
	u.mu.Unlock()
}

// remove takes op out and says whether it was there, so that it still wants an
// answer.
func (u *unanswered) remove(op *produceOp) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !op.listed {
		return false
	}
	op.listed = false
	if op.prev == nil {
		u.first = op.next
	} else {
		op.prev.next = op.next
	}
	if op.next != nil {
		op.next.prev = op.prev
	}
	op.prev, op.next = nil, nil
	u.n--
	return true
}

// stranded is an answer that the watchdog owes.
type stranded struct {
	waiter ProduceWaiter
	slot   int32
}

// strand empties the list; whoever was in it is answered by the caller. The
// operations themselves still belong to the loop.
func (u *unanswered) strand() []stranded {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]stranded, 0, u.n)
	for op := u.first; op != nil; {
		next := op.next
		all = append(all, stranded{op.waiter, op.slot})
		op.listed, op.prev, op.next = false, nil, nil
		op = next
	}
	u.first, u.n = nil, 0
	return all
}
