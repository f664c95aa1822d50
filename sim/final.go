package sim

import (
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// finalCheck looks at everything once more, then has the machine lose power and
// the process die twice in a row: recovering twice is recovering once.
func (w *World) finalCheck() {
	w.final = true
	w.deepCheck()
	w.awaitScrub()
	w.checkMinISR()
	kind := deathKill
	if w.nemesisRand.IntN(2) == 0 {
		kind = deathPower
	}
	w.phase = liveness // so that the processes start again
	w.restart(kind)
	once := w.digests()
	w.restart(deathKill)
	twice := w.digests()
	for _, p := range w.h.order {
		if sum, had := once[p]; had && twice[p] != sum {
			w.fail(13, "%v: what a second recovery found differs from what the first left: %x, %x", p.tp, sum, twice[p])
		}
	}
	w.deepCheck()
	w.phase = over
}

// restart ends all processes and waits until they are up again and settled.
func (w *World) restart(kind death) {
	for _, m := range w.machines {
		m.end(kind, nil)
	}
	began, within := w.sim.Now(), w.endWithin()
	for w.unsettled() != "" || !w.level() {
		if w.sim.Now()-began > within {
			w.fail(0, "%d s after a restart of all: %s", within/second, w.unsettled())
		}
		if !w.sim.Step() {
			w.fail(0, "nothing is left to happen")
		}
		w.cheapCheck()
	}
}

// level reports whether all replicas of each partition have the same log, and
// know that they have.
func (w *World) level() bool {
	for _, p := range w.h.order {
		reg := w.image().PartitionByID(p.id)
		if reg == nil || w.anyHurt(p) {
			continue
		}
		leader := w.replicaOf(p, reg.Leader)
		if reg.Leader == model.NoLeader && p.maimed {
			continue
		}
		if leader == nil || leader.state == nil {
			return false
		}
		for _, b := range reg.Replicas {
			if r := w.replicaOf(p, b); r == nil || r.state == nil || r.state.LogEnd != leader.state.LogEnd || leader.state.HighWatermark != leader.state.LogEnd {
				return false
			}
		}
	}
	return true
}

// digests sums up the content of each log on its leader. A partition that is
// offline has none, nor one that is made only now.
func (w *World) digests() map[*part]uint64 {
	sums := make(map[*part]uint64)
	for _, p := range w.h.order {
		reg := w.image().PartitionByID(p.id)
		if reg == nil || p.tp.Topic == groupsTopic { // coordinators write on
			continue
		}
		r := w.replicaOf(p, reg.Leader)
		if r == nil || r.state == nil || r.state.Role == partition.Offline || r.state.LogEnd == 0 {
			continue // an empty one may have been made between the two
		}
		if len(w.machines) > 1 && (w.anyHurt(p) || w.anyRotten(p)) {
			continue // its replicas need not be level
		}
		s := r.state
		start := int64(s.LogStart)
		if len(w.machines) > 1 {
			start = p.maxStart // another replica's checkpoint of it may be older
		}
		var sum traceHash
		sum.add(uint64(start), uint64(s.LogEnd))
		r.digest(&sum, start)
		sums[p] = uint64(sum)
	}
	return sums
}

// digest adds the batches from an offset on to a sum. Where the segment begins
// that holds the offset is each replica's own affair.
func (r *replica) digest(sum *traceHash, start int64) {
	_, _ = r.scan(r.m.disk, start, func(b *fileBatch) error {
		if b.last >= start {
			sum.add(uint64(b.base), uint64(crc32.Checksum(b.raw, castagnoli)))
		}
		return nil
	})
}
