package host

import (
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/scrub"
)

// scrubbing is the verification of one segment. It waits for the partition's loop
// once, for a copy of the leader epochs, and then only reads.
type scrubbing struct {
	s   *scrubber
	h   *Hosted
	seg scrub.Segment

	// Set by the loop before it answers; view is nil if there is no log.
	view   *log.View
	epochs *epoch.Cache
	newest model.LeaderEpoch

	found log.Scrubbed
	err   error
	spent int           // bytes that the bucket doesn't know of
	until model.Instant // when those that it knows of are paid for

	mu                     sync.Mutex
	idle                   *sync.Cond
	answered, due, aborted bool
}

func newScrubbing(s *scrubber, h *Hosted, seg scrub.Segment) *scrubbing {
	sc := &scrubbing{s: s, h: h, seg: seg}
	sc.idle = sync.NewCond(&sc.mu)
	return sc
}

// work does all of it on a goroutine that may wait.
func (sc *scrubbing) work() {
	sc.ask()
	sc.mu.Lock()
	for !sc.answered && !sc.aborted {
		sc.idle.Wait()
	}
	sc.mu.Unlock()
	sc.read()
	sc.s.done(sc)
}

// ask has the loop say what the log looks like.
func (sc *scrubbing) ask() { sc.h.box.Post(&scrubMsg{sc: sc}) }

// Deliver does it where nobody may wait. What was read too fast has the next segment
// wait for the next look.
func (sc *scrubbing) Deliver(now model.Now) {
	sc.read()
	sc.s.done(sc)
	if sc.until > now.Mono {
		return
	}
	if next := sc.s.next(); next != nil {
		next.ask()
	}
}

// read reads the segment.
func (sc *scrubbing) read() {
	sc.mu.Lock()
	view, epochs, newest := sc.view, sc.epochs, sc.newest
	if sc.aborted || !sc.answered {
		view = nil
	}
	sc.mu.Unlock()
	if view == nil {
		sc.err = errLeft
		return
	}
	if sc.s.buf == nil {
		sc.s.buf = make([]byte, scrubBuffer)
	}
	sc.found, sc.err = view.Scrub(sc.seg.Base, log.Scrubbing{Epochs: epochs, Newest: newest, Buf: sc.s.buf, Spend: sc.spend})
	sc.spent += scrubOpening
	_ = sc.pay() // what was found stands, also if it is to end now
}

// spend notes bytes that were read, pauses if that was too fast, and fails if the
// verification is to end.
func (sc *scrubbing) spend(n int) error {
	sc.s.counts.bytes.Add(int64(n))
	if sc.spent += n; sc.spent < spendAtOnce {
		return nil
	}
	return sc.pay()
}

// pay tells the bucket what was spent, and pauses as spend does.
func (sc *scrubbing) pay() error {
	n := sc.spent
	sc.spent = 0
	sc.until = sc.s.take(n)
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.until > 0 && sc.s.m.deps.Group != nil {
		sc.due = false
		sc.s.m.deps.RT.SetDeadline(sc, sc.until)
		for !sc.due && !sc.aborted {
			sc.idle.Wait()
		}
	}
	if sc.aborted {
		return errLeft
	}
	return nil
}

// TickAt ends a pause.
func (sc *scrubbing) TickAt(model.Now) {
	sc.mu.Lock()
	sc.due = true
	sc.idle.Broadcast()
	sc.mu.Unlock()
}

// abort has it end soon.
func (sc *scrubbing) abort() {
	sc.mu.Lock()
	sc.aborted = true
	sc.idle.Broadcast()
	sc.mu.Unlock()
}

// answer is called after the loop was released.
func (sc *scrubbing) answer(m *scrubMsg) {
	sc.mu.Lock()
	sc.view, sc.epochs, sc.newest, sc.answered = m.view, m.epochs, m.newest, true
	sc.idle.Broadcast()
	sc.mu.Unlock()
	if sc.s.m.deps.Group == nil {
		sc.s.m.deps.RT.Spare(sc)
	}
}

// scrubMsg asks the loop for what a verification needs to know.
type scrubMsg struct {
	sc     *scrubbing
	view   *log.View
	epochs *epoch.Cache
	newest model.LeaderEpoch
}

func (m *scrubMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	if h.plog != nil {
		m.view, m.epochs, m.newest = h.plog.View(), h.plog.Epochs().Clone(), h.State().LeaderEpoch
	}
	out.Add(m)
}

// Deliver hands the answer over.
func (m *scrubMsg) Deliver(model.Now) { m.sc.answer(m) }

// mendMsg has the log store what a scrub has made anew beside its segments, and epochs
// that were mended.
type mendMsg struct{}

func (mendMsg) handle(h *Hosted, _ model.Now, _ *loop.Outbox) {
	if h.plog == nil {
		return
	}
	if job := h.plog.StartMend(); job != nil {
		h.dir.flusher.Submit(&mendJob{h: h, job: job}, false)
	}
}

// mendJob is a Mend on its way to the disk and back.
type mendJob struct {
	h   *Hosted
	job *log.Mend
	err error
}

// Run waits for the disk.
func (j *mendJob) Run() { j.err = j.job.Run() }

// Done hands the result to the partition.
func (j *mendJob) Done() { j.h.box.Post(&mendedMsg{j}) }

// mendedMsg ends a mendJob. What could not be stored serves from memory.
type mendedMsg struct{ j *mendJob }

func (m *mendedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if m.j.err != nil {
		h.m.logger.Warn("what was made anew beside segments could not be stored; it serves from memory", name(h), zap.Error(m.j.err))
	}
	if h.plog == nil {
		return
	}
	h.plog.FinishMend(m.j.job)
	if m.j.err == nil {
		mendMsg{}.handle(h, now, out) // there may be more
	}
}

var (
	_ loop.Ticker   = (*scrubbing)(nil)
	_ loop.Delivery = (*scrubbing)(nil)
)
