package controller

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// lastKnown chooses a leader for a partition of which nobody is known to be
// complete, among those who were when they lost power: the one that came back
// with the most. As long as one that may have more is not back, wait is set. Once
// all are back, whoever noted its end earlier and has even more is taken instead.
// Source: KIP-966, and rule 4.2 of the project: what the others hold is a prefix
// of what the best holds, or was never committed.
func (c *change) lastKnown(p *metadata.PartitionRegistration, t *target) (leader model.BrokerID, wait bool) {
	e := runoff{c: c, p: p, best: candidate{id: model.NoLeader}, online: candidate{id: model.NoLeader}}
	whole := true
	for _, b := range inOrder(t.lastKnown, t.replicas) {
		if c.view.Broker(b) == nil || (c.damaged(b) || b == c.lost) && len(t.replicas) > 1 {
			whole = false // given up by an administrator, or with nothing to offer
			continue
		}
		if !e.run(b) {
			whole = false
			wait = wait || len(t.lastKnown) > 1
		}
	}
	if whole {
		last := e.best
		for _, b := range minus(t.replicas, t.lastKnown) {
			if end, noted := c.view.ReplicaEnd(c.partition(), b); noted && (candidate{b, end, true}).better(last) {
				e.run(b)
			}
		}
	}
	wait = (wait || e.online.id != e.best.id) && !c.settled && c.election != ElectUncleanNow
	if wait {
		return model.NoLeader, true
	}
	return e.online.id, false
}

// runoff finds the best of several candidates, and the best that can lead now.
type runoff struct {
	c            *change
	p            *metadata.PartitionRegistration
	best, online candidate
}

// run adds a candidate, and reports whether it said what it has.
func (e *runoff) run(b model.BrokerID) bool {
	next := candidate{id: b}
	next.end, next.reported = e.c.view.ReplicaEnd(e.c.partition(), b)
	if e.best.id == model.NoLeader || next.better(e.best) {
		e.best = next
	}
	if e.c.acceptable(e.p, b) && (e.online.id == model.NoLeader || next.better(e.online)) {
		e.online = next
	}
	return next.reported
}

// candidate is a replica that may lead.
type candidate struct {
	id       model.BrokerID
	end      model.OffsetAndEpoch
	reported bool
}

// better reports whether a has more of the log than b. Who said nothing comes
// last.
func (a candidate) better(b candidate) bool {
	if a.reported != b.reported {
		return a.reported
	}
	if a.end.Epoch != b.end.Epoch {
		return a.end.Epoch > b.end.Epoch
	}
	return a.end.Offset > b.end.Offset
}

// awaited are the partitions that wait for their last known members. Soft state:
// a new active controller starts the waits anew.
type awaited struct {
	// since is when the wait began; model.Never once it is over, so that whoever
	// comes first is elected.
	since map[model.TopicIDPartition]model.Instant
	// order is what began to wait, oldest first, with some that wait no more.
	order []begun
}

// begun is the beginning of a wait, which goes on while since says the same.
type begun struct {
	tp model.TopicIDPartition
	at model.Instant
}

// follow takes note of one changed partition; p is nil if it is gone.
func (a *awaited) follow(now model.Now, tp model.TopicIDPartition, p *metadata.PartitionRegistration) {
	_, waits := a.since[tp]
	switch lost := p != nil && p.Lost(); {
	case lost && !waits:
		if a.since == nil {
			a.since = map[model.TopicIDPartition]model.Instant{}
		}
		a.since[tp] = now.Mono
		a.order = append(a.order, begun{tp, now.Mono})
	case !lost && waits:
		delete(a.since, tp)
		a.trim()
	}
}

// trim drops from the front of the order what waits no more.
func (a *awaited) trim() {
	for len(a.order) > 0 {
		if since, ok := a.since[a.order[0].tp]; ok && since == a.order[0].at {
			return
		}
		a.order = a.order[1:]
	}
}

// oldest returns when the oldest wait began, or Never.
func (a *awaited) oldest() model.Instant {
	if len(a.order) == 0 {
		return model.Never
	}
	return a.order[0].at
}

// settled reports whether the wait of a partition is over.
func (a *awaited) settled(tp model.TopicIDPartition) bool {
	since, ok := a.since[tp]
	return ok && since == model.Never
}

// over ends up to limit waits that began at or before from, and returns their
// partitions.
func (a *awaited) over(from model.Instant, limit int) (due []model.TopicIDPartition) {
	for len(a.order) > 0 && len(due) < limit && a.oldest() <= from {
		tp := a.order[0].tp
		a.since[tp] = model.Never
		due = append(due, tp)
		a.trim()
	}
	return due
}

// settle elects the best of those who are back where the wait is over.
func (c *Controller) settle(view *metadata.Image, due []model.TopicIDPartition) []metadata.Record {
	s := c.settings(view)
	var recs []metadata.Record
	for _, tp := range due {
		t := view.TopicByID(tp.TopicID)
		if t == nil || t.Partition(tp.Partition) == nil {
			continue
		}
		if r := c.change(s, t, tp.Partition).build(); r != nil {
			recs = append(recs, r)
		}
	}
	return recs
}

// ends returns the records that note what a broker found on its disk of the
// replicas that lost their seats. after is the image without its old incarnation,
// view the one before, reg its registration to come.
func ends(view, after *metadata.Image, reg *metadata.RegisterBroker, facts RegistrationFacts) []metadata.Record {
	damaged := map[model.TopicIDPartition]bool{}
	for _, tp := range facts.Damaged {
		damaged[tp] = true
	}
	found := make(map[model.TopicIDPartition]model.OffsetAndEpoch, len(facts.Ends))
	for _, e := range facts.Ends {
		found[e.TopicIDPartition] = e.End
	}
	same := sameDirectories(view.Broker(reg.ID), reg)
	var recs []metadata.Record
	for t := range after.Topics() {
		for n, p := range t.Partitions {
			if !slices.Contains(p.LastKnown, reg.ID) || !p.HasReplica(reg.ID) || p.InISR(reg.ID) {
				continue
			}
			tp := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			before, known := view.ReplicaEnd(tp, reg.ID)
			end, ok := found[tp]
			gone := damaged[tp] && !ok
			if !ok || end.Epoch == model.NoEpoch { // there is nothing
				end = model.OffsetAndEpoch{Offset: 0, Epoch: model.NoEpoch}
			}
			switch dir := p.Directory(reg.ID); {
			case gone:
				end = metadata.ReplicaDamaged
			case facts.Ends == nil && known:
				end = before
			case facts.Ends == nil:
				continue // the broker doesn't say
			case end.Epoch != model.NoEpoch:
			case known && before == metadata.ReplicaDamaged:
				end = before // an empty log doesn't mend what is lost
			case slices.Contains(reg.Directories, dir), dir == metadata.DirectoryUnassigned && same:
				// The disk is the one that was there: nothing had been written.
			default:
				end = metadata.ReplicaDamaged
			}
			recs = append(recs, &metadata.ReplicaEnd{Broker: reg.ID, TopicID: t.ID, Partition: int32(n), End: end})
		}
	}
	return recs
}

// sameDirectories reports whether a broker comes with all the directories that it
// had.
func sameDirectories(old *metadata.BrokerRegistration, reg *metadata.RegisterBroker) bool {
	if old == nil {
		return false
	}
	for _, d := range old.Directories {
		if !slices.Contains(reg.Directories, d) {
			return false
		}
	}
	return true
}
