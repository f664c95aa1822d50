package sim

import (
	"hash/crc32"

	"github.com/tidemark/tidemark/partition"
)

// finalCheck looks at everything once more, then has the machine lose power and
// the process die twice in a row: recovering twice is recovering once.
func (w *World) finalCheck() {
	w.deepCheck()
	kind := deathKill
	if w.nemesisRand.IntN(2) == 0 {
		kind = deathPower
	}
	w.phase = liveness // so that the process starts again
	w.restart(kind)
	once := w.digest()
	w.restart(deathKill)
	if twice := w.digest(); once != twice {
		w.fail(13, "what a second recovery found differs from what the first left: %x, %x", once, twice)
	}
	w.phase = over
}

// restart ends the process and waits until it is up again.
func (w *World) restart(kind death) {
	w.end(kind, nil)
	until := w.sim.Now() + endMax
	for w.node == nil || !w.node.up {
		if w.sim.Now() > until {
			w.fail(0, "the process did not come up again")
		}
		w.sim.Step()
		w.cheapCheck()
	}
}

// digest sums up the content of all logs.
func (w *World) digest() uint64 {
	var sum traceHash
	for _, hosted := range w.node.hosted {
		s := hosted.State()
		if s.Role == partition.Offline {
			continue
		}
		tp := hosted.TopicPartition()
		sum.add(uint64(tp.Partition), uint64(s.LogStart), uint64(s.LogEnd), uint64(len(tp.Topic)))
		_, _ = scan(w.disk, partDir(tp), int64(s.LogStart), func(h *batchHead, raw []byte) error {
			sum.add(uint64(h.base), uint64(crc32.Checksum(raw, castagnoli)))
			return nil
		})
	}
	return uint64(sum)
}
