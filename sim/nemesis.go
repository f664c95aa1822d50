package sim

import "github.com/tidemark/tidemark/internal/model"

// disturb does one disturbing thing and plans the next.
func (w *World) disturb() {
	if w.phase != safety {
		return
	}
	k := Kind(w.nemesisRand.IntN(int(kindCount)))
	m := pick(w.nemesisRand, w.machines)
	if w.o.on[k] && k != KindMove && (m.node != nil || k.ofCluster()) {
		w.disturbance(k, m)
	}
	w.at(exp(w.nemesisRand, model.Instant(w.o.unrest)), w.disturb)
}

func (w *World) disturbance(k Kind, m *machine) {
	r := w.nemesisRand
	if k.ofCluster() {
		w.clusterDisturbance(k, m)
		return
	}
	n := m.node
	switch k {
	case KindKill:
		w.counts.kind[k]++
		m.end(deathKill, nil)
	case KindPower:
		w.counts.kind[k]++
		m.end(deathPower, nil)
	case KindKillMid, KindPowerMid:
		m.planDeath(100)
	case KindStop:
		w.counts.kind[k]++
		n.stop()
	case KindEIO, KindFsync:
		f := &m.faults
		f.errors, f.errorPct = 1+r.IntN(3), pick(r, []int{1, 10, 50, 100})
		f.errorOn = pick(r, []string{"", ".log", ".log", "-0/", "checkpoint", "__cluster_metadata"})
		f.drops = r.IntN(2) == 0
		w.at(exp(r, 100*millisecond), func() { f.errors = 0 })
	case KindFull:
		w.counts.kind[k]++
		_, _, err := m.disk.Free("/")
		if err != nil {
			return
		}
		m.fill(int64(r.IntN(3000)))
		w.at(exp(r, 300*millisecond), func() { m.fill(-1) })
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
		m.wall += model.Timestamp(jump)
	case KindCut:
		w.counts.kind[k]++
		if len(n.conns) > 0 {
			pick(r, n.conns).cut()
		}
	}
}

// clusterDisturbance is a fault of several nodes or of the network between them.
func (w *World) clusterDisturbance(k Kind, m *machine) {
	r := w.nemesisRand
	switch k {
	case KindPartition:
		w.counts.kind[k]++
		w.net.split(r)
	case KindOneWay:
		w.counts.kind[k]++
		w.net.block(m.id, pick(r, w.machines).id, exp(r, second))
	case KindClog:
		w.counts.kind[k]++
		w.net.clog(m.id, pick(r, w.machines).id, exp(r, second))
	case KindReset:
		w.counts.kind[k]++
		w.net.reset(m.id, pick(r, w.machines).id)
	case KindLaggard:
		w.counts.kind[k]++
		w.net.lag(m.id, exp(r, 2*second))
	case KindLeader:
		if m = w.foremost(r.IntN(3) == 0); m == nil {
			return
		}
		w.counts.kind[k]++
		m.end(deathKill, nil)
	case KindBlackout:
		w.counts.kind[k]++
		all := r.IntN(3) == 0
		for _, m := range w.machines {
			if m.node != nil && (all || r.IntN(2) == 0) {
				m.end(deathPower, nil)
			}
		}
	}
}

// foremost returns the running machine that leads most partitions, or the one
// that leads the quorum; nil if there is none.
func (w *World) foremost(quorum bool) *machine {
	var best *machine
	most := 0
	for _, m := range w.machines {
		if m.node == nil {
			continue
		}
		leads := 0
		if leader, _ := m.node.broker.QuorumLeader(); quorum && leader == m.id {
			leads = 1
		}
		for _, rep := range m.replicas {
			if !quorum && rep.state != nil && rep.leads() {
				leads++
			}
		}
		if leads > most {
			best, most = m, leads
		}
	}
	return best
}

// heal ends the safety phase: nothing goes wrong from here on, and a process
// that has met errors starts again.
func (w *World) heal() {
	w.phase = liveness
	w.trace.line("heal")
	w.healed = w.sim.Now()
	w.net.heal()
	for _, m := range w.machines {
		m.heal()
	}
	for _, c := range w.clients {
		c.finish()
	}
}

func (m *machine) heal() {
	r := m.world.nemesisRand
	hits := m.faults.hits
	m.faults.errors, m.faults.countdown = 0, 0
	m.fill(-1)
	n := m.node
	if n == nil {
		return
	}
	n.stalled = 0
	switch {
	case len(m.world.machines) > 1 && hits == 0 && r.IntN(2) == 0: // it may go on
	case r.IntN(2) == 0 && n.up && hits == 0:
		n.stop()
	default:
		m.end(deathKill, nil)
	}
}

// endMax is how much virtual time the world has to come to its end after it was
// healed.
const endMax = 60 * second

// watchEnd looks whether all is done.
func (w *World) watchEnd() {
	if w.sim.Ran()%16 != 0 {
		return
	}
	waits := w.unsettled()
	for _, c := range w.clients {
		if what := c.unfinished(); waits == "" && what != "" {
			waits = what
		}
	}
	switch {
	case waits == "":
		w.phase = over
	case w.sim.Now()-w.healed > endMax:
		w.fail(0, "%d s after the world was healed: %s", endMax/second, waits)
	}
}

// unsettled says what is not as it should be in a healthy cluster, "" if all is:
// every process serves, and every partition that is not honestly damaged is led,
// with all its replicas in sync.
func (w *World) unsettled() string {
	for _, m := range w.machines {
		if !m.up() {
			return "broker " + utoa(uint64(m.id)) + " is not up"
		}
	}
	img := w.image()
	for _, m := range w.machines {
		for _, hosted := range m.node.hosted {
			r := m.node.seen[hosted]
			if r == nil || r.hurt || r.part.gone {
				continue
			}
			reg := img.PartitionByID(r.part.id)
			if reg == nil {
				continue
			}
			s := hosted.State()
			switch {
			case reg.Leader == m.id && !r.leads():
				return r.tp.String() + " is " + s.Role.String() + " on its leader: " + s.Reason
			case reg.Leader == model.NoLeader:
				return r.tp.String() + " has no leader"
			case len(reg.ISR) != len(reg.Replicas) && !w.anyHurt(r.part):
				return r.tp.String() + " is out of sync"
			}
		}
	}
	return ""
}

// anyHurt reports whether a replica of a partition is honestly damaged.
func (w *World) anyHurt(p *part) bool {
	for _, m := range w.machines {
		if r := m.find(p); r != nil && r.hurt {
			return true
		}
	}
	return false
}
