package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// Lease is a follower's fetch session as one partition sees it. A follower that
// has everything fetches from the same offset over and over; in a session it
// does so without naming the partition (KIP-227). While the partition grants the
// lease, every fetch of the session counts as one from that offset, and the
// partition is not told: it asks for the last one when it needs to know. It ends
// the lease before anything changes that such a fetch would have to look at.
type Lease interface {
	// LastFetch returns when the session's last fetch came.
	LastFetch() model.Instant
	// End tells the session that its next fetch is to be told to the partition
	// again, and then returns LastFetch: a fetch that came before either counts by
	// what End returns, or is told.
	End() model.Instant
}

// grant gives a follower's session the lease that it offers, if its next fetch
// from the same offset would change nothing but times: the follower has
// everything, is in the in-sync set, and nothing is held back. A replica outside
// the set is judged at each fetch, since each may be the one that lets it join;
// and a high watermark that is held back is looked at again at each fetch of
// anybody, since whoever holds it back may have been away for too long by then.
func (p *Partition) grant(r *replica, f *ReplicaFetch) {
	held := p.mark.HighWatermark < p.mark.LogEnd && !mutant.On("part-lease-below-end")
	if f.Lease == nil || r.logEnd != p.mark.LogEnd || held {
		return
	}
	if !p.isr.inCommitted(r.id) && !mutant.On("part-lease-outside-isr") {
		return
	}
	r.lease, f.Result.Leased = f.Lease, true
}

// endLease counts the fetches that a lease stood for: they asked for the end of
// our log, which is still what it was when the lease was granted.
func (r *replica) endLease() {
	if r.lease == nil {
		return
	}
	at := r.lease.End()
	r.lease = nil
	if mutant.On("part-lease-uncounted") {
		return
	}
	r.caughtUpAt, r.lastFetch = max(r.caughtUpAt, at), max(r.lastFetch, at)
}

// heard is when the replica's last fetch came that counts, told or not.
func (r *replica) heard() model.Instant {
	if r.lease == nil {
		return r.lastFetch
	}
	return max(r.lastFetch, r.lease.LastFetch())
}

// endLeases ends all of them: the next fetches have something to look at.
func (p *Partition) endLeases() {
	for i := range p.remote {
		p.remote[i].endLease()
	}
}
