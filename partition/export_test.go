package partition

import (
	"fmt"
)

// Standings shows what a leader knows of its followers, as of the last fetches
// that it was told or that its leases stand for.
func Standings(p *Partition) string {
	s := ""
	for i := range p.remote {
		r := p.remote[i]
		if r.lease != nil {
			at := r.lease.LastFetch()
			r.caughtUpAt, r.lastFetch = max(r.caughtUpAt, at), max(r.lastFetch, at)
		}
		s += fmt.Sprintf("%d: %d at %d, end then %d, caught up %d; ", r.id, r.logEnd, r.lastFetch,
			r.leaderEndAtFetch, r.caughtUpAt)
	}
	return s
}
