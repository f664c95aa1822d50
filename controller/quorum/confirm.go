package quorum

import (
	"encoding/binary"
	"time"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"go.etcd.io/raft/v3"
)

// readAgain is after how long a read that got no answer is asked for anew: its
// messages may have been lost, or there was no leader.
const readAgain = model.Instant(150 * time.Millisecond)

// read is somebody who waits until this node has applied everything that was
// committed before it asked. Exactly one of its fields says who.
type read struct {
	// confirm wants to know whether this node is the active controller, and that
	// the quorum says so too.
	confirm func(ok bool)
	// caughtUp is the start of this node.
	caughtUp bool
	// pull is an observer that asked for it; it gives up at until.
	pull  *parked
	until model.Instant
}

// reads collects them: those that wait while a question is on its way go with
// the next.
type reads struct {
	waiting []*read
	// asked is the batch whose question is out, with the number of the question.
	asked   []*read
	seq     uint64
	askedAt model.Instant
	// index is what the answer said, 0 before; the batch is done once it is
	// applied.
	index uint64
	// coming: a kindAskRead is in the mailbox.
	coming bool
}

// Confirm tells done whether this node is the active controller and a quorum
// confirms, after the call, that it still is in its term. Many questions share
// one round trip. done is called exactly once, outside every loop.
func (n *Node) Confirm(done func(ok bool)) {
	n.box.Post(message{kind: kindRead, read: &read{confirm: done}})
}

// read lets r wait for the next question, which is asked after the messages that
// are in the mailbox by now.
func (n *Node) read(r *read, out *loop.Outbox) {
	if n.phase != phaseMember || n.failure != nil || n.closed || r.confirm != nil && !n.ctl.Active() {
		n.answerRead(r, false, out)
		return
	}
	if r.confirm != nil && mutant.On("ctl-confirm-by-memory") {
		n.answerRead(r, true, out)
		return
	}
	n.reads.waiting = append(n.reads.waiting, r)
	if !n.reads.coming {
		n.reads.coming = true
		loop.Send(out, n.box, message{kind: kindAskRead})
	}
}

// askRead asks the quorum for all that wait, unless a question is out.
func (n *Node) askRead(now model.Now, out *loop.Outbox) {
	n.reads.coming = false
	if n.phase != phaseMember || len(n.reads.asked) > 0 || len(n.reads.waiting) == 0 {
		return
	}
	n.reads.asked, n.reads.waiting = n.reads.waiting, nil
	n.askReadAgain(now)
	n.drive(now, out)
}

func (n *Node) askReadAgain(now model.Now) {
	n.reads.seq++
	n.reads.askedAt, n.reads.index = now.Mono, 0
	n.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, n.reads.seq))
}

// readStates takes the library's answers.
func (n *Node) readStates(states []raft.ReadState) {
	for _, s := range states {
		if len(s.RequestCtx) == 8 && binary.BigEndian.Uint64(s.RequestCtx) == n.reads.seq {
			n.reads.index = max(s.Index, 1)
		}
	}
}

// finishReads answers the batch whose index was applied, and has the next one
// asked for.
func (n *Node) finishReads(out *loop.Outbox) {
	r := &n.reads
	if r.index == 0 || indexOf(n.ctl.Image().At().Offset) < r.index {
		return
	}
	done := r.asked
	r.asked, r.index = nil, 0
	for _, d := range done {
		n.answerRead(d, d.confirm == nil || n.ctl.Active(), out)
	}
	if len(r.waiting) > 0 && !r.coming {
		r.coming = true
		loop.Send(out, n.box, message{kind: kindAskRead})
	}
}

// tickReads asks again for what was not answered, and lets those go that do not
// wait longer.
func (n *Node) tickReads(now model.Now, out *loop.Outbox) {
	r := &n.reads
	r.waiting = n.impatient(now, r.waiting, out)
	r.asked = n.impatient(now, r.asked, out)
	switch {
	case len(r.asked) == 0 && len(r.waiting) > 0:
		n.askRead(now, out)
	case len(r.asked) > 0 && r.index == 0 && now.Mono-r.askedAt >= readAgain:
		n.askReadAgain(now)
		n.drive(now, out)
	}
}

func (n *Node) impatient(now model.Now, all []*read, out *loop.Outbox) (kept []*read) {
	for _, r := range all {
		if r.pull != nil && r.until <= now.Mono {
			n.answerRead(r, false, out)
		} else {
			kept = append(kept, r)
		}
	}
	return kept
}

// dropReads answers those that only an active controller can serve, or all.
func (n *Node) dropReads(all bool, out *loop.Outbox) {
	drop := func(reads []*read) (kept []*read) {
		for _, r := range reads {
			if all || r.confirm != nil {
				n.answerRead(r, false, out)
			} else {
				kept = append(kept, r)
			}
		}
		return kept
	}
	n.reads.asked, n.reads.waiting = drop(n.reads.asked), drop(n.reads.waiting)
}

// answerRead tells one of them.
func (n *Node) answerRead(r *read, ok bool, out *loop.Outbox) {
	switch {
	case r.confirm != nil:
		out.Add(&confirmed{r.confirm, ok})
	case r.pull != nil && ok:
		r.pull.confirmed = true
		n.park(r.pull, out)
	case r.pull != nil:
		n.replyPull(r.pull, n.nothing(r.pull), out)
	case r.caughtUp && ok:
		n.started(nil, out)
	}
}

// confirmed tells who asked for a confirmation.
type confirmed struct {
	done func(ok bool)
	ok   bool
}

// Deliver implements loop.Delivery.
func (c *confirmed) Deliver(model.Now) { c.done(c.ok) }
