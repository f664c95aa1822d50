package quorum

import (
	"fmt"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"go.uber.org/zap"
)

var _ loop.Handler[message] = (*Node)(nil)

// Handle implements loop.Handler.
func (n *Node) Handle(now model.Now, msg message, out *loop.Outbox) {
	n.ctl.Wake(now)
	switch msg.kind {
	case kindStop:
		n.stop(now, msg.clean, out)
	case kindSubmit:
		if changesMembers(msg.job.cmd.Request) {
			n.changeMembers(now, msg.job, out)
			break
		}
		n.queue = append(n.queue, msg.job)
		n.group(out)
	case kindGroup:
		n.grouping = false
		n.work(now, out)
	case kindRead:
		n.read(msg.read, out)
	case kindPrivate:
		n.answerPrivate(now, msg.private, out)
	case kindResign:
		n.handOver(now, msg.done, out)
	case kindTouch:
		out.Add(&touched{msg.done})
	default:
		if !n.closed && n.failure == nil {
			n.handle(now, msg, out)
		}
	}
	n.wake(now, out)
}

// handle takes the messages that mean nothing to a node that is out.
func (n *Node) handle(now model.Now, msg message, out *loop.Outbox) {
	switch msg.kind {
	case kindBegin:
		n.begin(now, msg.begin, out)
	case kindRaft:
		n.step(now, msg.raft, out)
	case kindProbed:
		n.probed(now, msg.answer, out)
	case kindPulled:
		n.downloaded(now, msg.answer, out)
	case kindWatched:
		if n.watch != nil {
			n.watch.answered(now, msg.answer, out)
			n.describe()
		}
	case kindAskRead:
		n.askRead(now, out)
	case kindLost:
		n.lost(now, msg.node, msg.refused, out)
	}
}

// group asks for the waiting commands to be computed, after the messages that
// are in the mailbox by now: they go into the log together, at the price of one
// fsync.
func (n *Node) group(out *loop.Outbox) {
	if !n.grouping {
		n.grouping = true
		loop.Send(out, n.box, message{kind: kindGroup})
	}
}

// NextDeadline implements loop.Handler.
func (n *Node) NextDeadline() model.Instant {
	if n.closed || n.failure != nil {
		return model.Never
	}
	at := min(n.tickAt, n.nextPull())
	if n.waiting.empty() {
		at = min(at, max(n.ctl.NextDeadline(), n.fullUntil, n.refusedUntil))
	} // else what is due is decided once the commit is there, which wakes by itself
	if n.watch != nil {
		at = min(at, n.watch.deadline())
	}
	if n.fetching != nil && !n.fetching.out {
		at = min(at, n.fetching.againAt)
	}
	switch n.phase {
	case phaseMember:
		at = min(at, n.failover.standAt)
	case phaseAside:
		at = min(at, n.fullUntil)
	}
	return at
}

// Tick implements loop.Handler.
func (n *Node) Tick(now model.Now, out *loop.Outbox) {
	n.ctl.Wake(now)
	if n.closed || n.failure != nil {
		return
	}
	n.download(now)
	switch n.phase {
	case phaseBirth:
		if now.Mono >= n.tickAt {
			n.askVoters(now)
		}
	case phaseObserving:
		n.watch.tick(now)
	case phaseMember:
		n.tickMember(now, out)
		n.work(now, out)
	case phaseAside:
		if n.watch != nil {
			n.watch.tick(now)
		}
		n.lookForRoom(now, out)
	}
	n.wake(now, out)
}

// tickMember lets a tick of the library's time pass. However long this node did
// not run, it is one: what it missed may wait in its mailbox.
func (n *Node) tickMember(now model.Now, out *loop.Outbox) {
	n.stand(now, out)
	if now.Mono < n.tickAt || n.phase != phaseMember {
		return
	}
	n.tickAt = now.Mono + n.tick()
	n.raft.Tick()
	if n.leading {
		n.missedSnapshots(now)
	}
	n.drive(now, out)
	if n.phase != phaseMember || n.failure != nil {
		return
	}
	n.seekMembership(now)
	n.tickReads(now, out)
	n.reconcile(now, out)
	n.resigned(now, out)
	if n.phase == phaseMember && n.sole() {
		n.tickAt = model.Never
		n.setTicking(now)
	}
}

// work computes the next group of commands if none is on its way.
func (n *Node) work(now model.Now, out *loop.Outbox) {
	if !n.ctl.Active() {
		n.refuse(out)
		return
	}
	if !n.waiting.empty() {
		return // the commit calls again
	}
	view := n.ctl.Image()
	if mutant.On("ctl-expiry-first") {
		if r, expired := n.ctl.Expire(now, view); expired {
			n.proposeAll(now, []*job{{result: r}}, r.Units, out)
			n.drive(now, out)
			return
		}
	}
	room := roomLeft{n: n, now: now}
	jobs := n.queue[:min(len(n.queue), groupMax)]
	var units [][]metadata.Record
	var computed []*job
	last := false
	for _, j := range jobs {
		j.result = n.ctl.Handle(now, view, j.cmd)
		if len(j.result.Units) == 0 && view == n.ctl.Image() {
			n.answer(out, j)
			computed = append(computed, nil)
			continue
		}
		if !keepsBroker(j.cmd.Request) && room.none() && !n.makesRoom(j.cmd.Request) {
			n.giveUp(out, j, codeStorageError, ErrFull)
			computed = append(computed, nil)
			continue
		}
		next, err := apply(view, j.result.Units)
		if err != nil {
			n.logger.Error("records of a command do not fit", zap.Error(err), zap.String("command", j.cmd.Name()))
			n.giveUp(out, j, -1, err)
			computed = append(computed, nil)
			continue
		}
		view = next
		units = append(units, j.result.Units...)
		computed = append(computed, j)
		if last = j.result.Last; last {
			break
		}
	}
	n.queue = n.queue[len(computed):]
	if !last && len(n.queue) == 0 {
		// Deadlines come after the commands, among which a heartbeat may be.
		if r, expired := n.expire(now, view, &room); expired {
			computed = append(computed, &job{result: r})
			units = append(units, r.Units...)
		}
	}
	if mutant.On("ctl-change-before-propose") && view != n.ctl.Image() {
		n.image.Store(view)
	}
	n.proposeAll(now, computed, units, out)
	n.drive(now, out)
	if len(n.queue) > 0 {
		n.group(out)
	}
}

// apply returns view after units, the scratch on which later commands of a group
// are computed. It is thrown away; the image itself moves by Replay only.
func apply(view *metadata.Image, units [][]metadata.Record) (*metadata.Image, error) {
	e := metadata.NewEdit(view)
	// No offset is predicted: this one is only above those that are taken.
	at := model.OffsetAndEpoch{Offset: view.At().Offset.Next(), Epoch: view.At().Epoch}
	for _, u := range units {
		if err := e.Apply(at, u); err != nil {
			return nil, err
		}
	}
	next, _ := e.Done()
	return next, nil
}

// proposeAll hands the records of a group to the library. Commands whose last
// entry is refused are answered with an error; what part of them went in is
// valid by itself.
func (n *Node) proposeAll(now model.Now, computed []*job, units [][]metadata.Record, out *loop.Outbox) {
	ends := make([]int, 0, len(computed)) // records up to and with each command
	total := 0
	for _, j := range computed {
		if j != nil {
			for _, u := range j.result.Units {
				total += len(u)
			}
		}
		ends = append(ends, total)
	}
	k, reached := 0, 0
	var err error
	for _, entry := range controller.Pack(units) {
		reached += len(entry)
		var jobs []*job
		for ; k < len(computed) && ends[k] <= reached; k++ {
			if computed[k] != nil {
				jobs = append(jobs, computed[k])
			}
		}
		if err == nil {
			err = n.propose(metadata.AppendEntry(nil, metadata.Entry{Time: now.Wall, Records: entry}))
		}
		if err != nil {
			// The library takes nothing, as while it hands its leadership on. Only its
			// clock changes that: what is due by itself is not tried again before.
			n.refusedUntil = n.tickAt
			n.giveUpAll(out, jobs, fmt.Errorf("%w: %w", ErrNotActive, err))
			continue
		}
		n.waiting.propose(jobs)
	}
	// Commands without records whose answer rests on those before them.
	for ; k < len(computed); k++ {
		if computed[k] != nil {
			n.answer(out, computed[k])
		}
	}
}

// answer gives a command its own reply.
func (n *Node) answer(out *loop.Outbox, j *job) {
	n.answerAt(out, j, n.ctl.Image().At())
}

// answerAt gives a command the reply that goes with the commit of its last
// entry.
func (n *Node) answerAt(out *loop.Outbox, j *job, at model.OffsetAndEpoch) {
	if j.done == nil {
		return // an expiry
	}
	d := &delivery{done: j.done, resp: j.result.Reply(at), at: at}
	if d.resp == nil {
		d.err = ErrUnserved
	}
	out.Add(d)
}

// The codes that stand for a command which was not decided.
const (
	codeUnknownServerError int16 = -1
	codeNotController      int16 = 41
	codeStorageError       int16 = 56
)

// giveUp answers a command with an error.
func (n *Node) giveUp(out *loop.Outbox, j *job, code int16, err error) {
	if j.done == nil {
		return
	}
	resp := controller.ErrorReply(j.cmd.Request, code, err.Error())
	out.Add(&delivery{done: j.done, resp: resp, at: n.Image().At(), err: err})
}

func (n *Node) giveUpAll(out *loop.Outbox, jobs []*job, err error) {
	for _, j := range jobs {
		n.giveUp(out, j, codeNotController, err)
	}
}

// refuse answers every command that was not yet computed.
func (n *Node) refuse(out *loop.Outbox) {
	err := ErrNotActive
	if n.closed {
		err = ErrStopped
	}
	n.giveUpAll(out, n.queue, err)
	n.queue = nil
}

// resign ends the activity of the controller: what was not committed has an
// unknown outcome.
func (n *Node) resign(out *loop.Outbox, err error) {
	n.leading = false
	n.ctl.Deactivate()
	if !mutant.On("ctl-reply-by-index") {
		n.giveUpAll(out, n.waiting.drop(), err)
	}
	n.refuse(out)
	n.dropReads(false, out)
	n.dropChange(out)
}

// fail ends the node's part in the quorum for good: its disk can't be trusted,
// or its log does not make sense. It keeps the image it has.
func (n *Node) fail(err error, out *loop.Outbox) {
	if n.failure != nil {
		return
	}
	n.failure = err
	n.logger.Error("metadata node failed", zap.Error(err))
	n.resign(out, fmt.Errorf("%w: %w", ErrNotActive, err))
	n.dropReads(true, out)
	n.describe()
	n.resigned(model.Now{}, out)
	if n.config.Failed != nil {
		n.config.Failed(err)
	}
}

// stop ends the node.
func (n *Node) stop(now model.Now, clean bool, out *loop.Outbox) {
	if n.closed {
		return
	}
	n.closed = true
	n.resign(out, ErrStopped)
	n.dropReads(true, out)
	n.resigned(now, out)
	n.describe()
	if n.watch != nil {
		if err := n.watch.close(now, clean && n.failure == nil); err != nil {
			n.logger.Error("close metadata", zap.Error(err))
		}
	}
	if n.store != nil {
		if err := n.store.close(clean && n.failure == nil); err != nil {
			n.logger.Error("close metadata log", zap.Error(err))
		}
	}
	close(n.stopped)
}
