package quorum

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3"
)

// seedsFrom returns the range of seeds to run: QUORUM_SEEDS=from-to or the
// default.
func seedsFrom(t testing.TB, count uint64) (from, to uint64) {
	text := os.Getenv("QUORUM_SEEDS")
	if text == "" {
		return 0, count
	}
	if n, err := fmt.Sscanf(text, "%d-%d", &from, &to); n == 2 && err == nil {
		return from, to
	}
	one, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return one, one + 1
}

// TestSeeds runs clusters under faults that the seed draws, then heals them: one
// leader a term, one image an offset, nothing acknowledged is lost, no image
// falls, and all work again.
func TestSeeds(t *testing.T) {
	count := uint64(40)
	if testing.Short() {
		count = 8
	}
	from, to := seedsFrom(t, count)
	var sum tally
	for seed := from; seed < to; seed++ {
		c := runSeed(t, seed, &sum)
		if c.first != nil {
			t.Logf("seed %d", seed)
			c.check()
		}
	}
	t.Log(sum.String())
}

// tally counts what happened.
type tally struct {
	seeds, events, acked, unknown, crashes, powers, stalls, cuts, disks, elections, wiped, changes, confirmed, full, aside int
	virtual                                                                                                                model.Instant
}

func (s *tally) String() string {
	return fmt.Sprintf("%d seeds, %d events, %.0f s of virtual time: %d commands acknowledged, %d unknown, %d elections, %d kills, %d power losses, %d stalls, %d cuts, %d disk faults, %d disks wiped, %d changes of the voter set, %d confirmed reads, %d disks run full, %d voters aside",
		s.seeds, s.events, float64(s.virtual)/1e9, s.acked, s.unknown, s.elections, s.crashes, s.powers, s.stalls, s.cuts, s.disks, s.wiped, s.changes, s.confirmed, s.full, s.aside)
}

// nemesis is what a seed lets happen, and how often.
type nemesis struct {
	c   *cluster
	sum *tally
	// weights of the kinds; some are off in most seeds.
	kill, power, stall, cut, oneway, disk, submit, confirm, member, wipe, bounce int
	end                                                                          model.Instant
}

func runSeed(t testing.TB, seed uint64, sum *tally) *cluster {
	c := seeded(t, seed, []int{3, 3, 5}[seed%3])
	rng := c.rng
	on := func(pct, weight int) int {
		if rng.IntN(100) < pct {
			return 1 + rng.IntN(weight)
		}
		return 0
	}
	n := &nemesis{c: c, sum: sum, kill: on(70, 6), power: on(70, 6), stall: on(50, 6), cut: on(60, 6), oneway: on(30, 4), disk: on(40, 3), submit: 100 + rng.IntN(1500), confirm: on(70, 300), member: on(60, 20), wipe: on(50, 4), bounce: on(40, 6)}
	c.delayMax = []model.Instant{2 * ms, 10 * ms, 60 * ms}[rng.IntN(3)]
	c.lossPct = []int{0, 0, 2, 10}[rng.IntN(4)]
	c.deaf = rng.IntN(3) == 0
	if rng.IntN(2) == 0 {
		for _, m := range c.all {
			m.adjust = tinyLog
		}
	}
	for i := range rng.IntN(3) {
		o := c.addObserver(model.BrokerID(10 + i))
		o.adjust = func(o *Config) { o.SnapshotBytes = 1500 }
	}
	for _, m := range c.all {
		c.after(model.Instant(rng.Int64N(int64(1000*ms))), func() {
			if !m.up {
				m.start()
			}
		})
	}
	n.end = model.Instant(15_000+rng.IntN(15_000)) * ms
	n.next()
	if full := rand.New(rand.NewPCG(seed, 78)); full.IntN(2) == 0 {
		n.fillDisks(full)
	}
	c.run(n.end)
	c.settle()
	sum.seeds++
	sum.events += int(c.events)
	sum.virtual += c.sim.Now()
	sum.elections += c.elected
	return c
}

// next lets one thing happen after a while, and then the next.
func (n *nemesis) next() {
	c := n.c
	c.after(model.Instant(c.rng.Int64N(int64(60*ms))), func() {
		if c.sim.Now() < n.end {
			n.act()
			n.next()
		}
	})
}

// act lets one thing happen.
func (n *nemesis) act() {
	c := n.c
	m := c.all[c.rng.IntN(len(c.all))]
	kinds := []int{n.submit, n.kill, n.power, n.stall, n.cut, n.oneway, n.disk, n.confirm, n.member, n.wipe, n.bounce}
	total := 0
	for _, k := range kinds {
		total += k
	}
	pick, k := c.rng.IntN(total), 0
	for ; pick >= kinds[k]; k++ {
		pick -= kinds[k]
	}
	if m.up && m.failed != nil {
		k = 1
	}
	back := model.Instant(c.rng.Int64N(int64(2500 * ms)))
	switch {
	case k == 0:
		n.command(m)
	case (k == 1 || k == 2) && m.up:
		n.sum.crashes, n.sum.powers = n.sum.crashes+2-k, n.sum.powers+k-1
		m.crash(k == 2)
		if c.rng.IntN(3) == 0 {
			back /= 200
		}
		n.restart(m, back)
	case k == 3 && m.up && !m.pause.paused:
		n.sum.stalls++
		m.stall()
		life := m.life
		c.after(back, func() {
			if m.up && m.life == life && m.node != nil {
				c.confirm(m, func() { n.sum.confirmed++ })
			}
			m.resume()
		})
	case k == 4 || k == 5:
		n.sum.cuts++
		n.isolate(m, k == 5, back)
	case k == 6 && m.up && m.inject == nil:
		n.sum.disks++
		n.failDisk(m)
	case k == 7 && m.up && m.node != nil:
		c.confirm(m, func() { n.sum.confirmed++ })
	case k == 8:
		n.changeVoters()
	case k == 9 && m.node != nil:
		n.wipeDisk(m)
	case k == 10 && c.leader() != nil:
		n.killAgain(c.leader())
	}
}

// killAgain kills the leader, and whoever comes back in its place again and again
// while the others elect: what it promised must be on its disk.
func (n *nemesis) killAgain(m *simNode) {
	c := n.c
	again := func() {
		if m.up && !c.calm {
			n.sum.crashes++
			m.crash(false)
			m.start()
		}
	}
	again()
	for _, o := range c.all {
		if o != m && o.node != nil {
			life := o.life
			c.after(c.delay(), func() {
				if o.up && o.life == life {
					o.node.PeerLost(m.id, true)
				}
			})
		}
	}
	end := c.sim.Now() + 4*c.delayMax + 100*ms
	var watch func()
	watch = func() {
		if c.sim.Now() < end && !c.calm {
			for _, o := range c.all {
				if o != m && o.up && o.node != nil && o.node.raft != nil && o.node.raft.BasicStatus().RaftState == raft.StateCandidate && c.rng.IntN(8) == 0 {
					c.after(model.Instant(c.rng.Int64N(int64(2*c.delayMax))), again)
				}
			}
			c.after(5*ms, watch)
		}
	}
	watch()
}

// changeVoters removes a voter that is none any more, or adds one that is not,
// or one time out of four removes a good one.
func (n *nemesis) changeVoters() {
	c, l := n.c, n.c.leader()
	if l == nil {
		return
	}
	voters := l.image().Voters()
	m := c.all[c.rng.IntN(len(c.static))]
	if !m.up || m.node == nil || m.node.phase != phaseMember && m.node.phase != phaseObserving {
		return
	}
	dir, _ := m.node.Identity()
	v := voterOf(voters, m.id)
	var req kmsg.Request
	switch {
	case v != nil && v.Directory != dir:
		req = removeVoter(m.id, v.Directory)
	case v == nil:
		req = addVoter(m.id, dir)
	case len(voters) == len(c.static) && c.rng.IntN(4) == 0 && n.whole():
		req = removeVoter(m.id, dir)
	default:
		return
	}
	l.node.Submit(controller.Command{Request: req}, completed(func(resp kmsg.Response, _ model.OffsetAndEpoch, _ error) {
		code := int16(-2)
		switch r := resp.(type) {
		case *kmsg.AddRaftVoterResponse:
			code = r.ErrorCode
		case *kmsg.RemoveRaftVoterResponse:
			code = r.ErrorCode
		}
		c.note("%T of %d: code %d", req, m.id, code)
		if code == 0 {
			n.sum.changes++
		}
	}))
}

// whole reports whether every listed voter is up and a member.
func (n *nemesis) whole() bool {
	for _, o := range n.c.all[:len(n.c.static)] {
		if o.node == nil || !o.started || o.node.phase != phaseMember || len(o.image().Voters()) < len(n.c.static) {
			return false
		}
	}
	return true
}

// wipeDisk takes all that a voter knows, if the others can go on without it.
func (n *nemesis) wipeDisk(m *simNode) {
	c := n.c
	if m.observer || !n.whole() {
		return
	}
	n.sum.wiped++
	c.note("%d is wiped", m.id)
	dir, _ := m.node.Identity()
	c.gone[dir] = true
	m.crash(true)
	m.disk, m.used, m.seen = newDisk(), c.rng.IntN(2) == 0, model.NoOffset // used: only the metadata is gone
	n.restart(m, model.Instant(c.rng.Int64N(int64(1000*ms))))
}

func (n *nemesis) restart(m *simNode, back model.Instant) {
	n.c.after(back, func() {
		if !m.up {
			m.start()
		}
	})
}

func (n *nemesis) command(m *simNode) {
	c := n.c
	if l := c.leader(); l != nil && c.rng.IntN(4) > 0 {
		m = l
	}
	if !m.up || m.node == nil {
		return
	}
	o := c.register(m)
	c.after(3000*ms, func() {
		if o.calls > 1 {
			c.broken("a command was answered %d times", o.calls)
		}
		if o.calls == 1 && o.err == nil {
			n.sum.acked++
		} else {
			n.sum.unknown++
		}
	})
}

// isolate cuts a node off from some of the others, both ways or one.
func (n *nemesis) isolate(m *simNode, oneway bool, back model.Instant) {
	c := n.c
	inbound := c.rng.IntN(2) == 0
	if m == c.leader() && c.rng.IntN(2) == 0 {
		n.depose(m)
	}
	for _, o := range c.all {
		if o == m || c.rng.IntN(4) == 0 {
			continue
		}
		in, out := [2]model.BrokerID{o.id, m.id}, [2]model.BrokerID{m.id, o.id}
		if !oneway || inbound {
			c.cut[in] = true
		}
		if !oneway || !inbound {
			c.cut[out] = true
		}
		c.after(back, func() {
			delete(c.cut, in)
			delete(c.cut, out)
		})
	}
}

// depose makes the others believe that the leader is dead, and asks it for some
// time whether it still leads.
func (n *nemesis) depose(m *simNode) {
	c, life := n.c, m.life
	for _, o := range c.all {
		if o != m && o.node != nil {
			life := o.life
			c.after(c.delay(), func() {
				if o.up && o.life == life {
					o.node.PeerLost(m.id, true)
				}
			})
		}
	}
	for range 10 {
		c.after(model.Instant(c.rng.Int64N(int64(900*ms))), func() {
			if m.up && m.life == life {
				c.confirm(m, func() { n.sum.confirmed++ })
			}
		})
	}
}

// failDisk gives the next life a disk that dies at one of its operations.
func (n *nemesis) failDisk(m *simNode) {
	c := n.c
	m.crash(c.rng.IntN(2) == 0)
	rng := c.rng
	fault := []*faultfs.Fault{faultfs.EIO(), faultfs.FsyncFails(), faultfs.ShortWriteAnywhere(rng)}[rng.IntN(3)]
	m.inject = faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(1+rng.Int64N(80))), fault))
	m.inject.On()
	n.restart(m, model.Instant(rng.Int64N(int64(1000*ms))))
	c.after(model.Instant(2000+rng.Int64N(3000))*ms, func() {
		if c.calm {
			return
		}
		m.inject = nil
		if m.up {
			m.crash(c.rng.IntN(2) == 0)
			n.restart(m, model.Instant(c.rng.Int64N(int64(1000*ms))))
		}
	})
}

// fillDisks lets disks run full and have room again, with chance of its own.
func (n *nemesis) fillDisks(rng *rand.Rand) {
	c := n.c
	c.after(model.Instant(rng.Int64N(int64(3000*ms))), func() {
		if c.calm {
			return
		}
		n.sum.full++
		m := c.all[rng.IntN(len(c.all))]
		m.fill(c.t, rng.Int64N(1500))
		c.after(model.Instant(rng.Int64N(int64(4000*ms))), func() {
			if !c.calm {
				n.sum.aside += btoi(m.node != nil && m.aside())
				m.empty()
			}
		})
		n.fillDisks(rng)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSameSeedSameRun: a seed is one course of events.
func TestSameSeedSameRun(t *testing.T) {
	trace := func() string {
		var sum tally
		c := runSeed(t, 7, &sum)
		c.check()
		return fmt.Sprint(c.events, c.sim.Now(), c.trace)
	}
	first, second := trace(), trace()
	if first != second {
		t.Fatal("two runs of one seed differ")
	}
}

// runDuels lets the leader of three voters die and come back again and again
// while the two others stand for its place.
func runDuels(t testing.TB, seed uint64) *cluster {
	c := seeded(t, seed, 3)
	c.delayMax = 60 * ms
	n := &nemesis{c: c, sum: &tally{}}
	c.startAll()
	for range 60 {
		if !c.until(10_000*ms, func() bool { return c.leader() != nil }) {
			break
		}
		c.run(model.Instant(c.rng.Int64N(int64(300 * ms))))
		if l := c.leader(); l != nil {
			c.register(l)
			n.killAgain(l)
		}
		c.run(model.Instant(c.rng.Int64N(int64(500 * ms))))
	}
	c.settle()
	return c
}

// TestDuels: no term has two leaders, however often a voter forgets what is not
// on its disk.
func TestDuels(t *testing.T) {
	elections := 0
	for seed := range uint64(8) {
		c := runDuels(t, seed)
		c.check()
		elections += c.elected
	}
	t.Logf("%d elections", elections)
}
