package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
)

// Some orders of faults are so long that chance never gets to their end: each
// step must come when the last one has had its effect, and nothing else may
// interfere. A play is such an order, around one partition. Before it begins the
// world comes to rest; while it is on, the nemesis, the reflexes and the
// administrator keep still, and each step waits for what it needs to see. All
// that it does are faults of the kinds that there are anyway: a cut link, a late
// connection, a killed process. Half of the clusters have plays; the other half
// are what they were without them.

// play is one that is on.
type play struct {
	w     *World
	r     *rand.Rand
	p     *part
	title string
	// leader leads; follower is whom the play is about, other another follower, or
	// nil.
	leader, follower, other *machine
	// wished is told of each wish to change ISRs before it is sent.
	wished func(s *stream, req *kmsg.AlterPartitionRequest)
	// wrote is told of each request between nodes, with its key if it is a command
	// for the active controller; heard, of what comes to the one who serves.
	wrote func(s *stream, key int16)
	heard func(s *stream)
	// pinned are connections whose requests arrive when the play says so.
	pinned []*stream
	// lateDisk is who is not told that its jobs for the disk are done, those that are
	// submitted now; returns tell it.
	lateDisk *node
	lateJobs []host.DiskJob
	returns  []func()
	deaths   int // of the one whom it is about
	// heals: the network is whole again when it ends.
	heals bool
	over  bool
}

// script is a play that there is.
type script struct {
	title    string
	replicas int // at least
	active   int // where the active controller sits among them, if it is one of them
	// spare: one of them can be missing, and writes go on.
	spare bool
	begin func(*play)
	// fits reports whether a world can have it; nil: each can.
	fits func(*World) bool
}

// anywhere as script.active: whoever leads, and is the active controller, stays so.
const anywhere = -1

// playbill are plays about the replicas of a partition.
var playbill = []script{
	{"below the log start", 2, 2, true, (*play).belowStart, nil},
	{"unheard log start", 2, 2, true, (*play).unheardStart, nil},
	{"reborn before the yes", 2, 2, true, func(y *play) { y.reborn(false) }, nil},
	{"reborn before the retry", 2, 2, true, func(y *play) { y.reborn(true) }, nil},
	{"wish out of date", 2, 2, true, (*play).outdatedWish, nil},
	{"late voice", 3, 1, false, (*play).lateVoice, nil},
}

// scene is the partition that plays are about, nil if there is none yet: the first
// that producers write to and that has several replicas.
func (w *World) scene() *part {
	for _, p := range w.h.order {
		if reg := w.registration(p); !p.gone && !isChurn(p.tp.Topic) && p.tp.Topic != groupsTopic && reg != nil && len(reg.Replicas) > 1 {
			return p
		}
	}
	return nil
}

// drawPlays draws whether a world has plays. It has drawRot's chance, and so the
// other half of the worlds: what a play does is no excuse for a record that rot has
// spoilt where another lost it.
func (o *Options) drawPlays(r *rand.Rand) {
	n, second := r.IntN(4), r.IntN(2) == 0
	switch {
	case o.nodes < 3 || o.replicas < 2:
		return
	case o.only != "":
		o.bill = titled(o.only)
	case n%2 == 1:
		o.bill = playbill
	case n == 2 && second:
		o.bill = secondBill
	default:
		return
	}
	o.on[KindPlay], o.on[KindKill], o.on[KindPower] = true, true, true
}

// Patience of a play.
const (
	stepMax   = 5 * second        // for what is sure to come
	playLook  = 2 * millisecond   // between two looks at what it waits for
	playPause = 300 * millisecond // mean, between two plays
)

// stage begins a play, if none is on, and plans the next.
func (w *World) stage() {
	if w.phase != safety {
		return
	}
	if p := w.scene(); w.play == nil && p != nil && w.activeController() != nil {
		w.act(KindPlay, func(r *rand.Rand) {
			s, reg := pick(r, w.o.bill), w.registration(p)
			if n := len(reg.Replicas); n < s.replicas || n <= s.active && reg.HasReplica(w.activeController().id) || s.spare && n <= minISR(w.image(), p.tp.Topic) {
				return
			}
			if s.fits != nil && !s.fits(w) {
				return
			}
			w.play = &play{w: w, r: r, p: p, title: s.title}
			w.trace.line("play       %s, of %v", s.title, p.tp)
			w.counts.kind[KindPlay]++
			w.play.prepare(s.replicas, s.active, s.begin)
		})
	}
	w.at(exp(w.playRand, playPause), w.stage)
}

// prepare brings the world to rest: everybody is up and hears everybody, all
// replicas are in sync, and the active controller is no other replica than the
// given one, least of all the leader, whose wishes would not travel. Then it
// begins.
func (y *play) prepare(least, seat int, begin func(*play)) {
	w := y.w
	w.net.heal()
	for _, m := range w.machines {
		m.faults.countdown, m.faults.countOn = 0, ""
		m.fill(-1)
		y.raise(m)
	}
	y.wait("rest", stepMax, y.calm, func() {
		if seat == anywhere {
			y.heals = true
			begin(y)
			return
		}
		reg := w.registration(y.p)
		order := slices.Clone(reg.Replicas)
		y.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if at := slices.Index(order, w.activeController().id); at >= 0 {
			if seat >= len(order) {
				y.end("the active controller is one of two")
				return
			}
			order[at], order[seat] = order[seat], order[at]
		}
		if len(order) < least {
			y.end("some were taken out")
			return
		}
		y.lead(order, func() {
			y.leader, y.follower = w.machine(order[0]), w.machine(order[1])
			if len(order) > 2 {
				y.other = w.machine(order[2])
			}
			begin(y)
		})
	})
}

// wait goes on with next once cond holds, or ends the play when it does not within
// so long.
func (y *play) wait(what string, most model.Instant, cond func() bool, next func()) {
	until := y.w.sim.Now() + most
	var look func()
	look = func() {
		switch {
		case y.over:
		case cond():
			y.w.trace.line("play       %s", what)
			next()
		case y.w.sim.Now() > until:
			y.end("no " + what)
		default:
			y.w.at(playLook, look)
		}
	}
	look()
}

// after goes on after a while.
func (y *play) after(d model.Instant, next func()) {
	y.w.at(d, func() {
		if !y.over {
			next()
		}
	})
}

// end ends the play and lets go of all that it has held.
func (y *play) end(why string) {
	if y.over {
		return
	}
	w := y.w
	y.over, w.play, w.quiet = true, nil, lively
	w.trace.line("play       ends: %s", why)
	for _, s := range y.pinned {
		s.unpin()
	}
	y.flushReturns()
	w.net.hush = nil
	if y.heals {
		w.net.heal()
	}
	for _, m := range w.machines {
		y.raise(m)
	}
}

// kill ends a process, for so long unless it is raised before.
func (y *play) kill(m *machine, d death, down model.Instant) {
	m.held = y.w.sim.Now() + down
	m.end(d, nil)
}

// raise starts a process that is down.
func (y *play) raise(m *machine) {
	m.held = 0
	y.w.at(exp(y.r, 10*millisecond), m.boot)
}

// reg is what the newest metadata says of the partition.
func (y *play) reg() *metadata.PartitionRegistration { return y.w.registration(y.p) }

// calm reports whether the partition is led, all replicas are in sync, and every
// process knows it.
func (y *play) calm() bool {
	w, reg := y.w, y.reg()
	if y.p.gone || reg == nil || reg.Leader == model.NoLeader || len(reg.ISR) < 2 || len(reg.ISR) != len(reg.Replicas) || reg.Reassigning() || w.activeController() == nil {
		return false
	}
	for _, m := range w.machines {
		if !m.up() || m.node.stopping || m.node.broker.Image().At().Offset < w.meta.img.At().Offset {
			return false
		}
		if r := m.find(y.p); reg.HasReplica(m.id) && (r == nil || r.state == nil || r.state.LeaderEpoch != reg.LeaderEpoch) {
			return false
		}
		if b := w.meta.img.Broker(m.id); b == nil || b.Fenced || b.Epoch != m.node.broker.Epoch() {
			return false
		}
	}
	return true
}

// activeController returns the machine that leads the quorum in the latest term,
// nil if none says so.
func (w *World) activeController() (active *machine) {
	latest := model.LeaderEpoch(-1)
	for _, m := range w.machines {
		if m.node == nil || m.node.broker == nil {
			continue
		}
		if leader, term := m.node.broker.QuorumLeader(); leader == m.id && term > latest {
			active, latest = m, term
		}
	}
	return active
}

// lead has the replicas be named in an order, the first of them lead, and all be
// calm.
func (y *play) lead(order []model.BrokerID, next func()) {
	y.reorder(order, func() {
		if y.reg().Leader == order[0] {
			next()
			return
		}
		y.elect()
		y.wait("elected leader", stepMax, func() bool { return y.calm() && y.reg().Leader == order[0] }, next)
	})
}

// reorder has the replicas be named in an order, which is that in which leaders
// are chosen; the leader stays.
func (y *play) reorder(order []model.BrokerID, next func()) {
	if slices.Equal(y.reg().Replicas, order) {
		next()
		return
	}
	y.command(func(a *admin, c *conn) {
		ids := make([]int32, 0, len(order))
		for _, b := range order {
			ids = append(ids, int32(b))
		}
		a.assign(c, y.target(), ids)
	})
	y.wait("new order", stepMax, func() bool { return y.calm() && slices.Equal(y.reg().Replicas, order) }, next)
}

// elect has the first of the replicas elected.
func (y *play) elect() {
	y.command(func(a *admin, c *conn) { a.elect(c, y.target(), 0) })
}

func (y *play) target() target {
	return target{topic: y.p.tp.Topic, partition: y.p.tp.Partition}
}

// command sends something as the administrator, as soon as one is free.
func (y *play) command(send func(a *admin, c *conn)) {
	a := y.w.admin
	y.wait("answer to the administrator", stepMax, func() bool { return !a.waiting }, func() {
		for _, m := range y.w.machines {
			if c := a.to(m.id); c != nil {
				send(a, c)
				return
			}
		}
		y.end("nobody takes commands")
	})
}

// pin keeps back what a connection carries to the one that serves it.
func (y *play) pin(s *stream) {
	s.pinned = true
	y.pinned = append(y.pinned, s)
}

// unpin lets it arrive.
func (s *stream) unpin() {
	if !s.pinned {
		return
	}
	s.pinned, s.freed = false, true
	s.arrive()
	if s.hanging {
		s.hungUp()
	}
}

// end returns where a machine's replica ends, -1 if that is not known.
func (y *play) endOf(m *machine) int64 {
	if r := m.find(y.p); r != nil && m.node != nil && r.state != nil && r.state.View != nil {
		return int64(r.state.LogEnd)
	}
	return -1
}

// markOf returns a machine's high watermark, -1 if that is not known.
func (y *play) markOf(m *machine) int64 {
	if r := m.find(y.p); r != nil && m.node != nil && r.state != nil && r.state.View != nil {
		return int64(r.state.HighWatermark)
	}
	return -1
}

// part keeps two from hearing each other.
func (y *play) part(a, b *machine, d model.Instant) {
	y.w.net.block(a.id, b.id, d)
	y.w.net.block(b.id, a.id, d)
}

// join lets two hear each other again.
func (y *play) join(a, b *machine) {
	y.w.net.until[a.id][b.id], y.w.net.until[b.id][a.id] = 0, 0
}

// active reports whether a machine's present incarnation is registered and not
// fenced.
func (y *play) active(m *machine) bool {
	if m.node == nil || m.node.broker == nil {
		return false
	}
	b := y.w.meta.img.Broker(m.id)
	return b != nil && !b.Fenced && b.Epoch == m.node.broker.Epoch()
}

// leads reports whether a machine leads by the newest metadata, and knows it.
func (y *play) leads(m *machine) bool {
	r, reg := m.find(y.p), y.reg()
	return reg != nil && reg.Leader == m.id && r != nil && m.node != nil && r.state != nil && r.leads() && r.state.LeaderEpoch == reg.LeaderEpoch
}

// sending reports whether producers wait for answers about a partition.
func (w *World) sending(p *part) bool {
	for _, c := range w.clients {
		q, ok := c.(*producer)
		if ok && slices.ContainsFunc(q.lanes, func(l *lane) bool {
			return l.to.topic == p.tp.Topic && l.to.partition == p.tp.Partition && len(l.batches) > 0
		}) {
			return true
		}
	}
	return false
}
