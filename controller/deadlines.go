package controller

import (
	"strconv"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// electionsAtOnce is how many elections one look at the leaders makes at most;
// the next look follows at once.
const electionsAtOnce = 1000

// Counters are what the active controller has done since it was made.
type Counters struct {
	// Fenced counts brokers that lost their session or were hinted at.
	Fenced int64
	// Unclean counts leaders that may lack records.
	Unclean int64
	// Recovered counts partitions that got one of several last known members as
	// leader, and Dropped the records that another of them had beyond it.
	Recovered, Dropped int64
}

// Counters returns what was done so far, by this node and its predecessors as
// far as this node replayed it.
func (c *Controller) Counters() Counters { return c.counters }

// NextDeadline returns when Wake and Expire are due next. It is at most half a
// heartbeat interval away while sessions run, so that a pause shows.
func (c *Controller) NextDeadline() model.Instant {
	if !c.active {
		return model.Never
	}
	due := model.Never
	if c.staleELR || c.unpinned {
		due = c.lastRun
	}
	if len(c.sessions) > 0 {
		due = c.lastRun + model.Instant(c.config.HeartbeatInterval)/2
	}
	for _, b := range c.image.Brokers() {
		if s := c.sessions[b.ID]; s != nil && !b.Fenced {
			due = min(due, s.heard+model.Instant(c.config.SessionTimeout))
		}
	}
	if since := c.awaited.oldest(); since != model.Never {
		due = min(due, since+model.Instant(c.config.RecoveryWait))
	}
	if c.image.Offline() > 0 || c.image.Imbalanced() > 0 {
		due = min(due, c.rebalanceAt)
	}
	return due
}

// Expire does the first thing that is due, if any: the cluster's minimum of in-sync
// replicas, where there is none; eligible leaders that another
// minimum chose; then the brokers whose sessions ended, together; then
// partitions that have waited long enough; then leaders that are not where they
// should be. The caller handles the waiting commands first, among which a
// heartbeat may be, and calls again once the records are committed.
func (c *Controller) Expire(now model.Now, view *metadata.Image) (Result, bool) {
	if c.unpinned {
		c.unpinned = false
		return Result{Units: [][]metadata.Record{c.pin(view)}}, true
	}
	if c.staleELR {
		c.staleELR = false
		if units := c.clearNeedless(view); len(units) > 0 {
			return Result{Units: units}, true
		}
	}
	if gone := c.silent(now, view); len(gone) > 0 {
		return Result{Units: c.fence(view, gone...)}, true
	}
	if due := c.awaited.over(now.Mono-model.Instant(c.config.RecoveryWait), electionsAtOnce); len(due) > 0 {
		if recs := c.settle(view, due); len(recs) > 0 {
			return Result{Units: chunked(recs)}, true
		}
	}
	if now.Mono >= c.rebalanceAt {
		if recs := c.rebalance(now, view); len(recs) > 0 {
			return Result{Units: chunked(recs)}, true
		}
	}
	return Result{}, false
}

// pin returns the record that makes the minimum of in-sync replicas which this node
// was configured with the cluster's. From then on only the cluster's counts: if
// every node went by its own file, leaders could commit with fewer members than the
// eligible leaders were chosen for, while the nodes are restarted with a lower one.
// Kafka does the same where eligible leaders are on.
func (c *Controller) pin(view *metadata.Image) []metadata.Record {
	value := strconv.Itoa(c.config.Rules.Topic(view, "").MinISR)
	return []metadata.Record{&metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.BrokerResource}, Key: keyMinISR, Value: &value}}
}

// clearNeedless returns the units that void the eligible leaders which are not
// needed.
func (c *Controller) clearNeedless(view *metadata.Image) [][]metadata.Record {
	s := c.settings(view)
	var recs []metadata.Record
	for t := range view.Topics() {
		for n, p := range t.Partitions {
			if c.needless(s, t, p) {
				r := metadata.NewPartitionChange(t.ID, int32(n))
				r.ELR = []model.BrokerID{}
				recs = append(recs, r)
			}
		}
	}
	return chunked(recs)
}

// silent returns the brokers whose sessions have ended.
func (c *Controller) silent(now model.Now, view *metadata.Image) (gone []*metadata.BrokerRegistration) {
	earliest := now.Mono - model.Instant(c.config.SessionTimeout)
	for _, b := range view.Brokers() {
		if !b.Fenced && c.session(now, b).heard <= earliest {
			gone = append(gone, b)
		}
	}
	return gone
}

// rebalance moves leaderships to the first replica of the assignment where that
// is in sync, and tries again to find leaders where the topic allows an unclean
// one. The share of leaders that are elsewhere doesn't matter, as in Kafka.
func (c *Controller) rebalance(now model.Now, view *metadata.Image) []metadata.Record {
	c.rebalanceAt = now.Mono + model.Instant(c.config.RebalanceInterval)
	if view.Offline() == 0 && (view.Imbalanced() == 0 || !c.config.LeaderRebalance) {
		return nil
	}
	s := c.settings(view)
	var recs []metadata.Record
	for t := range view.Topics() {
		recs = append(recs, c.changesOf(s, t, func(p *metadata.PartitionRegistration) bool {
			return p.Leader == model.NoLeader || c.config.LeaderRebalance && p.Leader != p.Replicas[0]
		}, func(ch *change, p *metadata.PartitionRegistration) {
			if p.Leader != model.NoLeader {
				ch.election = ElectPreferred
			}
		})...)
		if len(recs) >= electionsAtOnce {
			c.rebalanceAt = now.Mono // the rest follows
			break
		}
	}
	return recs
}

// replayPartitions follows a committed entry with the soft state.
func (c *Controller) replayPartitions(now model.Now, delta *metadata.Delta) {
	for _, t := range delta.Topics {
		if t.New == nil {
			for n := range t.Old.Partitions {
				c.awaited.follow(now, model.TopicIDPartition{TopicID: t.Old.ID, Partition: int32(n)}, nil)
			}
			continue
		}
		for _, n := range t.Partitions {
			c.awaited.follow(now, model.TopicIDPartition{TopicID: t.New.ID, Partition: n}, t.New.Partitions[n])
		}
	}
}

// count counts what a committed entry shows; c.image is the one before it.
func (c *Controller) count(next *metadata.Image, delta *metadata.Delta) {
	for _, id := range delta.Brokers {
		old, now := c.image.Broker(id), next.Broker(id)
		if old != nil && now != nil && !old.Fenced && now.Fenced && old.Epoch == now.Epoch && !old.InShutdown {
			c.counters.Fenced++
		}
	}
	for _, t := range delta.Topics {
		if t.Old == nil || t.New == nil {
			continue
		}
		for _, n := range t.Partitions {
			old, now := t.Old.Partition(n), t.New.Partitions[n]
			if old == nil || now.Recovery != metadata.Recovering || now.LeaderEpoch == old.LeaderEpoch || now.Leader == model.NoLeader {
				continue
			}
			c.counters.Unclean++
			if old.Lost() && len(old.LastKnown) > 0 {
				c.counters.Recovered++
				c.counters.Dropped += Dropped(c.image, model.TopicIDPartition{TopicID: t.New.ID, Partition: n}, old, now.Leader)
			}
		}
	}
}

// Dropped returns how many records another member had beyond the one that was
// elected when nobody was known to be complete, as far as both said what they
// had. before is an image that has tp as old.
func Dropped(before *metadata.Image, tp model.TopicIDPartition, old *metadata.PartitionRegistration, leader model.BrokerID) (most int64) {
	elected, ok := before.ReplicaEnd(tp, leader)
	if !ok || !old.Lost() {
		return 0
	}
	for _, b := range old.LastKnown {
		if end, ok := before.ReplicaEnd(tp, b); ok && end.Epoch >= elected.Epoch {
			most = max(most, int64(end.Offset-elected.Offset))
		}
	}
	return most
}
