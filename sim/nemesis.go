package sim

import (
	"math/rand/v2"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// act is one thing that the nemesis does. Each has chance of its own, by its
// kind and number, so that leaving one out changes nothing of the others.
func (w *World) act(k Kind, do func(r *rand.Rand)) {
	w.acts[k]++
	n := w.acts[k]
	if w.phase != safety || !w.o.on[k] || w.o.skips(k, n) || w.play != nil {
		return
	}
	w.trace.line("act        %s:%d", k, n)
	do(rand.New(rand.NewPCG(w.o.Seed, uint64(k)<<32+n)))
}

// disturb does one disturbing thing and plans the next.
func (w *World) disturb() {
	if w.phase != safety {
		return
	}
	if w.play != nil || w.breathless() {
		w.at(exp(w.nemesisRand, model.Instant(w.o.unrest)), w.disturb)
		return
	}
	k := KindKill
	if n := len(w.o.drawn); n > 0 {
		k = pick(w.nemesisRand, w.o.drawn)
	}
	m := pick(w.nemesisRand, w.machines)
	if w.nemesisRand.IntN(3) > 0 && k.chosen() {
		if of := w.seated(); len(of) > 0 {
			m = pick(w.nemesisRand, of)
		}
	}
	if m.node != nil || k.ofCluster() {
		w.act(k, func(r *rand.Rand) { w.disturbance(r, k, m) })
	}
	w.at(exp(w.nemesisRand, model.Instant(w.o.unrest)), w.disturb)
}

// breathless reports whether the cluster has done nothing for its clients for so
// long that more disturbance would show nothing.
func (w *World) breathless() bool {
	return w.sim.Now()-w.lastAck > 500*millisecond && w.nemesisRand.IntN(20) > 0
}

// seated are the machines that hold the victim, if the nemesis keeps to one.
func (w *World) seated() (of []*machine) {
	p := w.victim()
	if p == nil || !w.o.focus {
		return nil
	}
	for _, b := range w.registration(p).Replicas {
		of = append(of, w.machine(b))
	}
	return of
}

// victim is the partition that stories are about, nil if there is none yet: the
// first of those with several replicas.
func (w *World) victim() *part {
	for _, p := range w.h.order {
		if reg := w.registration(p); !p.gone && !isChurn(p.tp.Topic) && reg != nil && len(reg.Replicas) > 1 {
			return p
		}
	}
	return nil
}

// registration is what the newest metadata says of a partition, nil if nothing.
func (w *World) registration(p *part) *metadata.PartitionRegistration {
	if w.meta.img == nil {
		return nil
	}
	return w.meta.img.PartitionByID(p.id)
}

func (w *World) disturbance(r *rand.Rand, k Kind, m *machine) {
	if k.ofCluster() {
		w.clusterDisturbance(r, k, m)
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
		m.planDeath(r, k)
	case KindStop:
		w.counts.kind[k]++
		n.stop()
	case KindEIO, KindFsync:
		if !w.mayFail(m) {
			return
		}
		f := &m.faults
		f.errors, f.errorPct = 1+r.IntN(3), pick(r, []int{1, 10, 50, 100})
		f.errorOn = pick(r, []string{"", ".log", ".log", "-0/", "checkpoint", "__cluster_metadata"})
		f.drops = r.IntN(2) == 0
		w.at(exp(r, 100*millisecond), func() { f.errors = 0 })
	case KindFull:
		if !w.mayFail(m) {
			return
		}
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
func (w *World) clusterDisturbance(r *rand.Rand, k Kind, m *machine) {
	other := pick(r, w.machines)
	if of := w.seated(); len(of) > 0 && r.IntN(2) == 0 {
		other = pick(r, of)
	}
	switch k {
	case KindPartition:
		w.counts.kind[k]++
		w.net.split(r)
	case KindOneWay:
		w.counts.kind[k]++
		w.net.block(m.id, other.id, exp(r, second))
	case KindClog:
		w.counts.kind[k]++
		w.net.clog(r, m.id, other.id, exp(r, second))
	case KindReset:
		w.counts.kind[k]++
		w.net.reset(m.id, other.id)
	case KindLate:
		w.counts.kind[k]++
		w.net.orphan(r, m.id, other.id)
	case KindLaggard:
		w.counts.kind[k]++
		w.net.lag(r, m.id, exp(r, pick(r, []model.Instant{second, 2 * second, 5 * second})))
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
	case KindStory:
		if p := w.victim(); p != nil {
			w.counts.kind[k]++
			w.story(r, p)
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
	r := m.world.nodeRand
	hits := m.faults.hits
	m.faults.errors, m.faults.countdown = 0, 0
	m.fill(-1)
	m.held = 0
	n := m.node
	if n == nil {
		m.world.at(exp(r, 30*millisecond), m.boot)
		return
	}
	n.stalled = 0
	switch {
	case len(m.world.machines) > 1 && (hits == 0 || m.refills()) && r.IntN(2) == 0:
		if hits > 0 { // it may go on, and has to make whole what was hit
			m.line("goes on    after %d disk errors", hits)
			m.world.spared = true
		}
	case r.IntN(2) == 0 && n.up && hits == 0:
		n.stop()
	default:
		m.end(deathKill, nil)
	}
}

// refills reports whether the errors that a machine's disk has met are such as a broker
// comes back from by itself: its directory has met none, and none has ended the process.
func (m *machine) refills() bool { return m.dirHit != m.lives && m.node.up }

// abandoned reports whether a replica is offline though its broker could fill it anew:
// the cluster counts on others, or could, and one leads.
func (r *replica) abandoned(reg *metadata.PartitionRegistration, s *host.State) bool {
	b := r.m.id
	return r.hurt && !r.rotten && s.Role == partition.Offline && s.Code == protocol.CodeKafkaStorageError && r.m.refills() &&
		reg.HasReplica(b) && (reg.Leader != model.NoLeader && reg.Leader != b && !reg.InISR(b) && !reg.InELR(b) || len(reg.ISR) > 1 && reg.InISR(b))
}

// endMax is how much virtual time the world has to come to its end after it was
// healed; see endWithin.
const endMax = 60 * second

// backOffMax is how long a broker may rest between filling a replica anew and doing it
// again, where the disk was as bad as ours.
const backOffMax = 8 * 60 * second

// endWithin is endMax, and what fetching the longest log takes in as many requests as
// that may need: a fetch brings one batch at least, and otherwise no more bytes than it
// asks for, and of no more than one segment.
func (w *World) endWithin() model.Instant {
	longest := 0
	for _, p := range w.h.order {
		if !p.gone {
			longest = max(longest, len(p.recs))
		}
	}
	const (
		perFetch  = 4   // latencies: there and back, and some are longer
		perRecord = 100 // bytes besides the padding, at most
	)
	fetches := longest / max(1, min(int(w.o.fetchMax), int(w.o.segmentBytes))/(w.o.padMax+perRecord))
	within := endMax + perFetch*model.Instant(w.o.latency)*model.Instant(fetches)
	if w.spared {
		within += backOffMax
	}
	return within
}

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
	case w.sim.Now()-w.healed > w.endWithin():
		w.fail(0, "%d s after the world was healed: %s", (w.sim.Now()-w.healed)/second, waits)
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
		if m.node.broker.Image().At().Offset < img.At().Offset {
			return "broker " + utoa(uint64(m.id)) + " has not heard of the newest metadata"
		}
		for _, hosted := range m.node.hosted {
			r := m.node.seen[hosted]
			if r == nil || r.part.gone {
				continue
			}
			reg := img.PartitionByID(r.part.id)
			if reg == nil {
				continue
			}
			s := hosted.State()
			if r.abandoned(reg, s) {
				return r.tp.String() + " is not filled anew on broker " + utoa(uint64(m.id)) + ": " + s.Reason
			}
			if r.hurt {
				continue
			}
			switch {
			case reg.Leader == m.id && !r.leads():
				return r.tp.String() + " is " + s.Role.String() + " on its leader: " + s.Reason
			case reg.Leader == m.id && r.unheard != nil:
				return r.tp.String() + " has not heard of its min.insync.replicas"
			case reg.Leader == model.NoLeader && r.part.maimed: // nobody may be elected
			case reg.Leader == model.NoLeader:
				return r.tp.String() + " has no leader"
			case len(reg.ISR) != len(reg.Replicas) && !w.anyHurt(r.part):
				return r.tp.String() + " is out of sync"
			}
		}
	}
	return ""
}

// mayFail reports whether a machine's disk may fail: in a cluster only one does,
// and only while others have all that was acknowledged of what it holds.
func (w *World) mayFail(m *machine) bool {
	if len(w.machines) == 1 {
		return true
	}
	if w.frail == nil {
		w.frail = m
	}
	if w.frail != m {
		return false
	}
	for _, r := range m.replicas {
		if reg := w.registration(r.part); !r.part.gone && reg != nil && reg.HasReplica(m.id) && !w.othersWhole(r) {
			return false
		}
	}
	return true
}

// anyHurt reports whether a replica of a partition is honestly damaged. One that
// was taken out of the assignment is nobody's concern.
func (w *World) anyHurt(p *part) bool {
	reg := w.registration(p)
	for _, m := range w.machines {
		if r := m.find(p); r != nil && r.hurt && (reg == nil || reg.HasReplica(m.id)) {
			return true
		}
	}
	return false
}
