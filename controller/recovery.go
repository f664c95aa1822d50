package controller

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// lastKnown chooses a leader for a partition of which nobody is known to be
// complete, among those who were when they lost power: the one that came back
// with the most. As long as one that may have more is not back, wait is set.
// Source: KIP-966, and rule 4.2 of the project: what the others hold is a prefix
// of what the best holds, or was never committed.
func (c *change) lastKnown(p *metadata.PartitionRegistration, t *target) (leader model.BrokerID, wait bool) {
	best, online := candidate{id: model.NoLeader}, candidate{id: model.NoLeader}
	for _, b := range inOrder(t.lastKnown, t.replicas) {
		if c.view.Broker(b) == nil {
			continue // given up by an administrator
		}
		next := candidate{id: b}
		next.end, next.reported = c.view.ReplicaEnd(c.partition(), b)
		if c.damaged(b) && len(t.replicas) > 1 {
			continue // has nothing to offer
		}
		if !next.reported && len(t.lastKnown) > 1 {
			wait = true
		}
		if best.id == model.NoLeader || next.better(best) {
			best = next
		}
		if c.acceptable(p, b) && (online.id == model.NoLeader || next.better(online)) {
			online = next
		}
	}
	wait = (wait || online.id != best.id) && !c.settled && c.election != ElectUncleanNow
	if wait {
		return model.NoLeader, true
	}
	return online.id, false
}

// candidate is a last known member.
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
// replicas that lost their seats. after is the image without its old incarnation.
func ends(after *metadata.Image, b model.BrokerID, facts RegistrationFacts) []metadata.Record {
	damaged := map[model.TopicIDPartition]bool{}
	for _, tp := range facts.Damaged {
		damaged[tp] = true
	}
	found := make(map[model.TopicIDPartition]model.OffsetAndEpoch, len(facts.Ends))
	for _, e := range facts.Ends {
		found[e.TopicIDPartition] = e.End
	}
	var recs []metadata.Record
	for t := range after.Topics() {
		for n, p := range t.Partitions {
			if !slices.Contains(p.LastKnown, b) || !p.HasReplica(b) || p.InISR(b) {
				continue
			}
			tp := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			end, ok := found[tp]
			switch {
			case damaged[tp], !ok && facts.Ends != nil:
				end = metadata.ReplicaDamaged
			case !ok:
				continue // the broker doesn't say
			}
			recs = append(recs, &metadata.ReplicaEnd{Broker: b, TopicID: t.ID, Partition: int32(n), End: end})
		}
	}
	return recs
}
