//go:build mutants

package partition_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// fetchLeased is a fetch of a session that offers a lease.
func (w *world) fetchLeased(id model.BrokerID, from model.Offset, l *sessionLease) bool {
	l.last = w.now.Mono
	f := &partition.ReplicaFetch{
		Replica: id, BrokerEpoch: -1, CurrentEpoch: 5, Offset: from, LastEpoch: -1, Lease: l,
	}
	w.step(partition.Input{Kind: partition.KindReplicaFetch, Replica: f})
	l.held = f.Result.Leased
	return l.held
}

func TestMutantLeaseOutlivesAppend(t *testing.T) {
	kill(t, "part-lease-outlives-append", func() bool {
		w, l := leaderOf(1, 2), &sessionLease{}
		w.fetchLeased(2, 0, l)
		w.send(1, -1, 0)
		return l.held // the follower's next fetch would not be told that there is a record
	})
}

func TestMutantLeaseOutsideISR(t *testing.T) {
	kill(t, "part-lease-outside-isr", func() bool {
		w, l := leaderOf(1, 2), &sessionLease{}
		reg := w.reg
		reg.ISR, reg.PartitionEpoch = []model.BrokerID{1}, 1
		w.step(partition.Input{Kind: partition.KindRegistration, Registration: &reg})
		return w.fetchLeased(2, 0, l) // should the controller refuse it, it would not ask again
	})
}

func TestMutantLeaseUncounted(t *testing.T) {
	kill(t, "part-lease-uncounted", func() bool {
		w, l := leaderOf(1, 2), &sessionLease{}
		w.fetchLeased(2, 0, l)
		w.now.Mono += 100_000 * ms
		l.last = w.now.Mono // fetches that were not told
		w.send(1, -1, 0)
		w.now.Mono += 16_000 * ms
		w.step(partition.Input{Kind: partition.KindTick})
		return strings.Contains(w.written.String(), "isr-proposed") // 2 was caught up 16 s ago
	})
}

func TestMutantLeaseBelowEnd(t *testing.T) {
	kill(t, "part-lease-below-end", func() bool {
		w, l := leaderOf(1, 2, 3), &sessionLease{}
		w.send(1, -1, 0)
		return w.fetchLeased(2, 1, l) // 3 holds the high watermark back
	})
}
