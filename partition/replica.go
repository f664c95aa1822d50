package partition

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// longAgo is a time at which no replica can have been caught up.
const longAgo = model.Instant(math.MinInt64)

// replica is what the leader knows of another replica in the present epoch.
type replica struct {
	id model.BrokerID
	// brokerEpoch is the incarnation that the last counted fetch came from.
	brokerEpoch model.BrokerEpoch
	// logEnd is the offset of its last counted fetch: it holds everything below.
	// -1 until it has fetched in this leadership.
	logEnd model.Offset
	// logStart is what that fetch said; -1 until it has fetched in this epoch. See
	// durableStart.
	logStart model.Offset
	// lastFetch and leaderEndAtFetch are the time of the last counted fetch and
	// our log end then. leaderEndAtFetch never falls.
	lastFetch        model.Instant
	leaderEndAtFetch model.Offset
	// caughtUpAt is the last moment at which it is known to have had everything
	// that we had.
	caughtUpAt model.Instant
	// lease stands for fetches that are not told; nil when each one is. While it
	// is held, logEnd is our log end, and the times are those of the last fetch
	// that was told.
	lease Lease
}

// reset prepares r for a new leader epoch. How far it is nobody knows until it fetches
// in that epoch: between the last one that this broker has heard of and the new one
// another may have led, and had r cut its log. Apache Kafka keeps what was known where
// the leader stays the same, and so acknowledges what is on this broker alone.
func (r *replica) reset(now model.Now, leaderEnd model.Offset, inISR, ledBefore bool) {
	keeps := mutant.On("part-keeps-follower-ends") && ledBefore
	if !keeps {
		r.logEnd, r.logStart = model.NoOffset, model.NoOffset
	}
	r.caughtUpAt, r.lastFetch = longAgo, longAgo
	if inISR {
		r.caughtUpAt = now.Mono
	}
	if !ledBefore {
		r.leaderEndAtFetch, r.brokerEpoch = model.NoOffset, model.NoBrokerEpoch
		return
	}
	r.leaderEndAtFetch = leaderEnd
	if inISR {
		r.lastFetch = now.Mono
	}
}

// fetched counts a fetch from offset: everything below it is on the replica. A
// replica is caught up now if it asks for our end, and was caught up at its
// previous fetch if it has what was our end then.
func (r *replica) fetched(now model.Now, f *ReplicaFetch, leaderEnd model.Offset) {
	if f.BrokerEpoch != model.NoBrokerEpoch && f.BrokerEpoch != r.brokerEpoch {
		// Another incarnation may have lost what the old one held.
		r.lastFetch, r.leaderEndAtFetch = longAgo, model.NoOffset
		if r.brokerEpoch != model.NoBrokerEpoch {
			r.caughtUpAt = longAgo
		}
		r.brokerEpoch = f.BrokerEpoch
	}
	switch {
	case f.Offset >= leaderEnd:
		r.caughtUpAt = max(r.caughtUpAt, now.Mono)
	case f.Offset >= r.leaderEndAtFetch && r.leaderEndAtFetch != model.NoOffset:
		r.caughtUpAt = max(r.caughtUpAt, r.lastFetch)
	}
	r.logEnd, r.logStart = f.Offset, f.LogStart
	r.leaderEndAtFetch = max(r.leaderEndAtFetch, leaderEnd)
	r.lastFetch = max(r.lastFetch, now.Mono)
}

// caughtUp says whether r has all we have, or had at most lag ago.
func (r *replica) caughtUp(leaderEnd model.Offset, now, lag model.Instant) bool {
	return r.logEnd == leaderEnd || (r.caughtUpAt != longAgo && now-r.caughtUpAt <= lag)
}

// peer returns what the cluster knows of a replica's broker.
func (p *Partition) peer(id model.BrokerID) Peer {
	for i := range p.peers {
		if p.peers[i].ID == id {
			return p.peers[i]
		}
	}
	return Peer{ID: id, Epoch: model.NoBrokerEpoch}
}

func (p *Partition) replica(id model.BrokerID) *replica {
	for i := range p.remote {
		if p.remote[i].id == id {
			return &p.remote[i]
		}
	}
	return nil
}

// eligible says whether r may be in the ISR: its broker is live, not shutting
// down, and the incarnation we heard from is the registered one.
func (p *Partition) eligible(r *replica) bool {
	peer := p.peer(r.id)
	return peer.Eligible && (r.brokerEpoch == model.NoBrokerEpoch || r.brokerEpoch == peer.Epoch)
}

// durableStart is the log start that r's disk has, -1 if that isn't known: what an
// incarnation before the registered one has told may have gone with its directory.
func (p *Partition) durableStart(r *replica) model.Offset {
	if r.brokerEpoch != model.NoBrokerEpoch && r.brokerEpoch < p.peer(r.id).Epoch {
		return model.NoOffset
	}
	return r.logStart
}
