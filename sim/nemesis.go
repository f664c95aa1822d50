package sim

import "github.com/tidemark/tidemark/internal/model"

// disturb does one disturbing thing and plans the next.
func (w *World) disturb() {
	if w.phase != safety {
		return
	}
	k := Kind(w.nemesisRand.IntN(int(kindCount)))
	if w.o.on[k] && w.node != nil {
		w.disturbance(k)
	}
	w.at(exp(w.nemesisRand, model.Instant(w.o.unrest)), w.disturb)
}

func (w *World) disturbance(k Kind) {
	r, n := w.nemesisRand, w.node
	switch k {
	case KindKill:
		w.counts.kind[k]++
		w.end(deathKill, nil)
	case KindPower:
		w.counts.kind[k]++
		w.end(deathPower, nil)
	case KindKillMid, KindPowerMid:
		w.planDeath(100)
	case KindStop:
		w.counts.kind[k]++
		n.stop()
	case KindEIO, KindFsync:
		f := &w.faults
		f.errors, f.errorPct = 1+r.IntN(3), pick(r, []int{1, 10, 50, 100})
		f.errorOn = pick(r, []string{"", ".log", ".log", "-0/", "checkpoint", "__cluster_metadata"})
		f.drops = r.IntN(2) == 0
		w.at(exp(r, 100*millisecond), func() { f.errors = 0 })
	case KindFull:
		w.counts.kind[k]++
		_, _, err := w.disk.Free("/")
		if err != nil {
			return
		}
		w.fill(int64(r.IntN(3000)))
		w.at(exp(r, 300*millisecond), func() { w.fill(-1) })
	case KindStall:
		w.counts.kind[k]++
		n.stalled = w.sim.Now() + exp(r, 2*second)
	case KindClock:
		w.counts.kind[k]++
		jump := r.Int64N(2*3_600_000) - 3_600_000
		if r.IntN(2) == 0 {
			jump = r.Int64N(2000) - 1000
		}
		n.rt.JumpWall(jump)
		w.wall += model.Timestamp(jump)
	case KindCut:
		w.counts.kind[k]++
		if len(n.conns) > 0 {
			pick(r, n.conns).cut()
		}
	}
}

// fill leaves so many bytes free on the disk; negative is no bound.
func (w *World) fill(free int64) {
	if free < 0 {
		w.disk.SetCapacity(0)
		w.filled = false
		return
	}
	avail, total, err := w.disk.Free("/")
	if err != nil {
		return
	}
	w.filled = true
	w.fullLife = w.lives
	w.disk.SetCapacity(total - avail + free)
}

// full reports whether a full disk may explain something now.
func (w *World) full() bool { return w.filled }

// heal ends the safety phase: nothing goes wrong from here on, and a process
// that has met errors starts again.
func (w *World) heal() {
	w.phase = liveness
	w.trace.line("heal")
	w.faults.errors, w.faults.countdown = 0, 0
	w.fill(-1)
	w.healed = w.sim.Now()
	if n := w.node; n != nil {
		n.stalled = 0
		if w.nemesisRand.IntN(2) == 0 && n.up && w.faults.hits == 0 {
			n.stop()
		} else {
			w.end(deathKill, nil)
		}
	}
	for _, c := range w.clients {
		c.finish()
	}
}

// endMax is how much virtual time the world has to come to its end after it was
// healed.
const endMax = 120 * second

// watchEnd looks whether all is done.
func (w *World) watchEnd() {
	if w.sim.Ran()%16 != 0 {
		return
	}
	done := w.node != nil && w.node.up && w.allLed() == ""
	var waits string
	for _, c := range w.clients {
		if what := c.unfinished(); what != "" {
			done, waits = false, what
		}
	}
	switch {
	case done:
		w.phase = over
	case w.sim.Now()-w.healed > endMax:
		w.fail(0, "%d s after the world was healed: node up %v, %s %s", endMax/second, w.node != nil && w.node.up, w.allLed(), waits)
	}
}

// allLed says which partition is not led and not honestly damaged, "" if none.
func (w *World) allLed() string {
	if w.node == nil {
		return "the process is down"
	}
	for _, h := range w.node.hosted {
		if p := w.node.seen[h]; p != nil && !p.hurt && h.State().Role.String() != "leader" {
			return p.tp.String() + " is " + h.State().Role.String() + " " + h.State().Reason
		}
	}
	return ""
}
