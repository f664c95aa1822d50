package sim

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// uncovered is how many of a batch's bytes no CRC covers.
const uncovered = 17

// rotSpot is a segment that was spoilt.
type rotSpot struct {
	path string
	sum  uint32 // of the whole file, spoilt
	// seal is what stood beside it, if only that can tell: only bytes that no CRC
	// covers were changed.
	seal  []byte
	bySum bool
	last  int64 // offset of the batch that was meant
}

// remember notes that a segment was spoilt, in the batch that ends at last. head: where
// no CRC looks.
func (m *machine) remember(rep *replica, path string, last int64, head bool) {
	s := rotSpot{path: path, last: last, bySum: !head}
	b, err := m.disk.Content(path)
	if err != nil {
		return
	}
	s.sum = crc32.Checksum(b, castagnoli)
	if head {
		seal, err := m.disk.Content(sealOf(path))
		if err != nil || len(seal) < 5 || string(seal[:4]) != "TMS2" || seal[4] != 3 {
			return // nobody can tell
		}
		s.seal = append([]byte(nil), seal...)
	}
	rep.spots = append(rep.spots, s)
}

func sealOf(path string) string { return strings.TrimSuffix(path, ".log") + ".seal" }

// awaitScrub lets time pass until whatever is scrubbed was, and then looks for what
// was spoilt and is served still though nobody has touched it.
func (w *World) awaitScrub() {
	spoilt := false
	for _, m := range w.machines {
		for _, r := range m.replicas {
			spoilt = spoilt || len(r.spots) > 0
		}
	}
	if w.o.scrub == 0 || !spoilt {
		return
	}
	until := w.sim.Now() + model.Instant(w.o.scrub+10*time.Second) + w.scrubTime()
	for w.sim.Now() < until {
		if !w.sim.Step() {
			w.fail(0, "nothing is left to happen")
		}
		w.cheapCheck()
	}
	for _, m := range w.machines {
		for _, r := range m.replicas {
			for _, s := range r.spots {
				w.checkSpot(m, r, s)
			}
		}
	}
}

// scrubTime is how long the sealed segments of any machine take at most, all that were
// to be verified before them included: each counts as some more than it has.
func (w *World) scrubTime() model.Instant {
	most := 0
	for _, m := range w.machines {
		n := 0
		for _, r := range m.replicas {
			if r.state != nil && r.state.View != nil {
				n += len(r.state.View.Segments())
			}
		}
		most = max(most, n)
	}
	return 2 * model.Instant(most) * 6 * millisecond
}

func (w *World) checkSpot(m *machine, r *replica, s rotSpot) {
	if !m.up() || r.part.gone || r.removed || r.host == nil || r.state == nil || r.state.View == nil || r.state.Role == partition.Offline {
		return
	}
	b, err := m.disk.Content(s.path)
	if err != nil || crc32.Checksum(b, castagnoli) != s.sum {
		return // cut, compacted, or written on
	}
	for _, o := range r.spots {
		if o.path == s.path && o.last < int64(r.state.View.Start()) {
			return // it was deleted, and nobody is given it: no scrub gets past it
		}
	}
	if seal, err := m.disk.Content(sealOf(s.path)); !s.bySum && (err != nil || !bytes.Equal(seal, s.seal)) {
		return
	}
	all := r.state.View.Segments()
	for _, seg := range all[:len(all)-1] {
		if filepath.Base(s.path) == fmt.Sprintf("%020d.log", seg.Base) && seg.Size == int64(len(b)) {
			w.fail(2, "%v on broker %d: segment %d was spoilt, is not written any more, and no scrub has found it", r.tp, m.id, seg.Base)
		}
	}
}
