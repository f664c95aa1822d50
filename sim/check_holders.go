package sim

import (
	"slices"

	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// had is how far a replica has ever held its log, and so may have said that it
// does: what it has lost honestly since still counts, since its leader may hear
// of what it had only now. A cut that a leader has asked for does not, nor, once
// it is taken into the ISR anew, what it had before.
type had struct {
	end  int64 // of the log
	disk int64 // what was on the disk for good
}

func (h *had) note(s *host.State) {
	h.end, h.disk = max(h.end, int64(s.LogEnd)), max(h.disk, int64(s.Durable))
}

func (h *had) truncated(to int64) { h.end, h.disk = min(h.end, to), min(h.disk, to) }

// settle begins anew with what there is.
func (r *replica) settle() { r.had = had{r.end, r.floor} }

// checkHolders checks, when a leader's high watermark has risen, that at least
// min.insync.replicas brokers hold what is below, or have lost it honestly since;
// on their disks for good, if the topic says so. The leader's word on them is not
// taken, but for how many there are to be: see unheard.
func (r *replica) checkHolders(old, s *host.State) {
	w, p := r.m.world, r.part
	if len(w.machines) == 1 || isChurn(r.tp.Topic) || s.Role != partition.Leader || s.View == nil ||
		old == nil || old.Role != partition.Leader || old.LeaderEpoch != s.LeaderEpoch || s.HighWatermark <= old.HighWatermark {
		return
	}
	if reg := w.registration(p); reg == nil || reg.LeaderEpoch != s.LeaderEpoch {
		return // it counts who held it in its reign, and has yet to hear that it is over
	}
	holders, least := w.holders(p, int64(s.HighWatermark)), slices.Min(append([]int{s.MinISR, old.MinISR}, r.unheard...))
	if holders < least { // perhaps one is so new that it was not noticed yet
		for _, m := range w.machines {
			if m.node != nil && m.node.broker != nil && m.node.broker.Replicas() != nil {
				if hosted := m.node.broker.Replicas().GetByID(p.id); hosted != nil {
					m.node.look(hosted)
				}
			}
		}
		holders = w.holders(p, int64(s.HighWatermark))
	}
	if holders < least {
		w.fail(8, "%v: the high watermark of broker %d rises from %d to %d, %d brokers hold that, want %d", r.tp, r.m.id, old.HighWatermark, s.HighWatermark, holders, least)
	}
}

// holders counts who has held everything below an offset of a partition.
func (w *World) holders(p *part, end int64) (n int) {
	for _, m := range w.machines {
		if o := m.find(p); o != nil && o.had.end >= end && (!isFlush(p.tp.Topic) || o.had.disk >= end) {
			n++
		}
	}
	return n
}

// told notes what a broker's metadata says that a partition is to wait for.
func (r *replica) told(minISR int) {
	if r.state != nil && r.state.MinISR != minISR && !slices.Contains(r.unheard, minISR) {
		r.unheard = append(r.unheard, minISR)
	}
}

// listen forgets what the partition has been told, once it is certain to have
// heard all of it: nothing waits for it, nor does it wait for the disk, and it
// goes by what the newest metadata says.
func (r *replica) listen() {
	if n := r.m.node; r.host == nil || r.host.Writing() || r.host.Backlog() > 0 || n.delayed[r.tp] > 0 {
		return
	}
	if reg := r.m.node.broker.Image().PartitionByID(r.part.id); reg != nil && r.state.MinISR == min(minISR(r.m.node.broker.Image(), r.tp.Topic), len(reg.Replicas)) {
		r.unheard = nil
	}
}

// checkMinISR checks in a world at rest that the leaders go by the
// min.insync.replicas that the metadata says.
func (w *World) checkMinISR() {
	for _, p := range w.h.order {
		reg := w.registration(p)
		if reg == nil {
			continue
		}
		r := w.replicaOf(p, reg.Leader)
		if r == nil || r.state == nil || !r.leads() {
			continue
		}
		if want := min(minISR(w.meta.img, p.tp.Topic), len(reg.Replicas)); r.state.MinISR != want {
			w.fail(8, "%v: broker %d waits for %d replicas, the setting is %d of %d", p.tp, r.m.id, r.state.MinISR, want, len(reg.Replicas))
		}
	}
}
