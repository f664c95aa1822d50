package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/partition"
)

// producersBelowMsg asks which batches tell the producers' state.
type producersBelowMsg struct {
	cl    *cleaning
	below model.Offset
	found []producer.Last
	err   error
}

func (m *producersBelowMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	if h.plog == nil {
		m.err = errLeft
	} else {
		m.found = h.plog.Producers().LastBelow(m.below, nil)
	}
	out.Add(m)
}

// Deliver hands the answer over.
func (m *producersBelowMsg) Deliver(model.Now) {
	m.cl.producers = m.found
	m.cl.answerWith(m.err, nil)
}

// swapMsg has the log show a rewritten segment in the place of its sources.
type swapMsg struct {
	cl      *cleaning
	rewrite *log.Rewrite
}

func (m *swapMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	if h.plog == nil {
		out.Add(&cleaningAnswer{m.cl, errLeft, m.rewrite})
		return
	}
	s, err := h.plog.StartSwap(m.rewrite)
	if err != nil {
		out.Add(&cleaningAnswer{m.cl, err, m.rewrite})
		return
	}
	out.Add(&swapJob{h: h, cl: m.cl, swap: s})
}

// cleaningAnswer has a cleaning go on.
type cleaningAnswer struct {
	cl      *cleaning
	err     error
	refused *log.Rewrite
}

// Deliver hands the answer over.
func (a *cleaningAnswer) Deliver(model.Now) { a.cl.answerWith(a.err, a.refused) }

// swapJob is the renaming of a swap's files on its way to the disk and back.
type swapJob struct {
	h    *Hosted
	cl   *cleaning
	swap *log.Swap
	err  error
}

// Deliver hands the job to the directory's flusher.
func (j *swapJob) Deliver(model.Now) { j.h.dir.flusher.Submit(j, false) }

// Run renames the files.
func (j *swapJob) Run() { j.err = j.swap.Run() }

// Done has the partition take it into account.
func (j *swapJob) Done() { j.h.box.Post(&swappedMsg{j}) }

// swappedMsg completes a swapJob.
type swappedMsg struct{ j *swapJob }

func (m *swappedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if h.plog == nil {
		out.Add(&cleaningAnswer{m.j.cl, errLeft, nil})
		return
	}
	err := h.plog.FinishSwap(m.j.swap, m.j.err)
	out.Add(&cleaningAnswer{m.j.cl, err, nil})
	if err != nil {
		h.fault = err
		h.goOffline(now, partition.CodeStorageError, err.Error(), out)
		return
	}
	h.m.unlinkLater(h.dir, m.j.swap, nanos(h.topic.FileDeleteDelayMs))
}
