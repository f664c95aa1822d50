package sim

import (
	"github.com/tidemark/tidemark/partition"
)

// checkReplicas compares the replicas of a partition with each other and with
// what was acknowledged, as the last look at their files found them.
func (w *World) checkReplicas(p *part) {
	var live []*replica
	for _, m := range w.machines {
		r := m.find(p)
		if r == nil || !m.up() || r.state == nil || r.state.View == nil || r.state.Role == partition.Offline || r.hurt || r.rotten || r.drop || r.hit || len(r.batches) == 0 {
			continue
		}
		live = append(live, r)
	}
	for i, a := range live {
		for _, b := range live[:i] {
			w.checkMatch(p, a, b)
		}
	}
	if w.meta.img == nil || p.pending {
		return
	}
	reg := w.meta.img.PartitionByID(p.id)
	if reg == nil {
		return
	}
	for _, r := range live {
		b := w.meta.img.Broker(r.m.id)
		if !reg.InISR(r.m.id) || r.tainted || b == nil || b.Epoch != r.m.node.broker.Epoch() || r.state.LeaderEpoch < reg.LeaderEpoch {
			continue // it may have to truncate still
		}
		for o := max(int64(r.state.LogStart), p.maxStart); o < min(int64(len(p.recs)), int64(len(r.recs))); o++ {
			if p.recs[o].id != 0 && r.recs[o].id != p.recs[o].id {
				w.fail(4, "%v: offset %d of broker %d, in ISR %v, holds record %d; record %d was acknowledged there", p.tp, o, r.m.id, reg.ISR, r.recs[o].id, p.recs[o].id)
			}
		}
	}
}

// checkMatch compares two logs: where both have the same epoch at an offset they
// have the same batches there and below.
func (w *World) checkMatch(p *part, a, b *replica) {
	last := int64(-1)
	i := 0
	for _, x := range a.batches {
		for i < len(b.batches) && b.batches[i].last < x.last {
			i++
		}
		if i < len(b.batches) && b.batches[i].base <= x.last && b.batches[i].epoch == x.epoch {
			last = x.last
		}
	}
	start := max(int64(a.state.LogStart), int64(b.state.LogStart))
	i = 0
	for _, x := range a.batches {
		if x.last > last || x.base < start {
			continue
		}
		for i < len(b.batches) && b.batches[i].base < x.base {
			i++
		}
		if i == len(b.batches) || b.batches[i] != x {
			w.fail(3, "%v: brokers %d and %d agree at offset %d and differ in the batch at %d", p.tp, a.m.id, b.m.id, last, x.base)
		}
	}
}
