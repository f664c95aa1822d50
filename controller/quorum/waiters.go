package quorum

import (
	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// job is a command on its way.
type job struct {
	cmd    controller.Command
	done   Completion
	result controller.Result
}

// proposal is an entry that was handed to the library.
type proposal struct {
	index, term uint64 // 0 until the library has put it into the log
	jobs        []*job // commands that this entry completes
}

// waiters keeps proposals from Propose to the commit, in order. An index alone
// does not name an entry: when the leadership is lost and won again, another
// entry may stand at it.
type waiters struct {
	// unplaced were proposed and not yet seen in a Ready; placed have an index.
	unplaced, placed []*proposal
}

// propose adds a proposal that the library accepted.
func (w *waiters) propose(jobs []*job) { w.unplaced = append(w.unplaced, &proposal{jobs: jobs}) }

// place tells where the next unplaced proposal went.
func (w *waiters) place(index, term uint64) {
	if len(w.unplaced) == 0 {
		return
	}
	p := w.unplaced[0]
	w.unplaced = w.unplaced[1:]
	p.index, p.term = index, term
	w.placed = append(w.placed, p)
}

// committed takes the commands that the committed entry completes, and those
// whose entry it took the place of.
func (w *waiters) committed(index, term uint64) (done, lost []*job) {
	for len(w.placed) > 0 && w.placed[0].index <= index {
		p := w.placed[0]
		w.placed = w.placed[1:]
		if p.index == index && (p.term == term || mutant.On("ctl-reply-by-index")) {
			done = append(done, p.jobs...)
		} else {
			lost = append(lost, p.jobs...)
		}
	}
	return done, lost
}

// empty reports whether nothing waits for a commit.
func (w *waiters) empty() bool { return len(w.unplaced)+len(w.placed) == 0 }

// drop takes every command.
func (w *waiters) drop() (lost []*job) {
	for _, p := range w.placed {
		lost = append(lost, p.jobs...)
	}
	for _, p := range w.unplaced {
		lost = append(lost, p.jobs...)
	}
	w.placed, w.unplaced = nil, nil
	return lost
}

// delivery tells a Completion its outcome after the loop was released.
type delivery struct {
	done Completion
	resp kmsg.Response
	at   model.OffsetAndEpoch
	err  error
}

// Deliver implements loop.Delivery.
func (d *delivery) Deliver(model.Now) { d.done.Done(d.resp, d.at, d.err) }
