package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/partition/host"
)

// dataDir is the log directory of the simulated broker.
const dataDir = "/data"

// node is one incarnation of the broker.
type node struct {
	world  *World
	m      *machine
	broker *broker.Broker
	rt     *simtime.Runtime
	// up: clients may connect. stopping: an orderly stop is under way.
	up, stopping bool
	conns        []*conn
	flushers     []*flusher
	// delayed counts the writes of partitions that the disk has not come to yet.
	delayed map[model.TopicPartition]int
	// stalled is until when the disk makes no progress.
	stalled model.Instant
	// images are those that it took over and nobody has looked at.
	images []*metadata.Image
	// fenced is when it last had metadata by which a broker was not live.
	fenced map[model.BrokerID]model.Instant
	// incarnations are those of the newest metadata that was looked at.
	incarnations map[model.BrokerID]metadata.Incarnation
	// followed: it had the newest metadata of all when it last took some over.
	followed bool
	// hosted are its partitions, as far as the checkers have noticed, and looked
	// what they know of each.
	hosted []*host.Hosted
	looked []*replica
	seen   map[*host.Hosted]*replica
	// unclaimed are replicas that had a directory when it began, and that no metadata
	// which it has seen gives to it.
	unclaimed []*replica
}

// boot starts a process on the disk as it is.
func (m *machine) boot() {
	w := m.world
	if m.node != nil || w.phase == over {
		return
	}
	if wait := m.held - w.sim.Now(); wait > 0 && w.phase == safety {
		w.at(wait, m.boot)
		return
	}
	w.act(KindWipe, func(r *rand.Rand) { m.wipe(r) })
	w.act(KindRot, func(r *rand.Rand) { m.rot(r) })
	m.lives++
	w.counts.boots++
	w.era++
	if m.filled {
		m.fullLife = m.lives
	}
	r := rand.New(rand.NewPCG(w.nodeRand.Uint64(), w.nodeRand.Uint64()))
	n := &node{world: w, m: m, seen: make(map[*host.Hosted]*replica), delayed: make(map[model.TopicPartition]int), fenced: make(map[model.BrokerID]model.Instant),
		incarnations: make(map[model.BrokerID]metadata.Incarnation)}
	n.rt = w.sim.Runtime(simtime.Clocks{
		Wall: m.wall, DriftPPM: w.nodeRand.Int64N(20_001) - 10_000, Started: model.Instant(1 + w.nodeRand.Int64N(int64(1000*second))),
	}, model.Instant(w.o.spare))
	m.node = n
	n.noteDirectories()
	for _, rep := range m.replicas {
		rep.host, rep.state, rep.online, rep.unheard = nil, nil, false, nil
	}
	m.dark = false
	m.line("boot")
	bootID := fmt.Sprintf("boot-%d-%d", m.id, m.bootID)
	b, err := broker.New(broker.Config{
		Settings: m.settings(), Logger: zap.New(&logCore{m: m}),
		World: &broker.World{
			RT: n.rt, FS: faultfs.Wrap(m.disk, &m.faults), Rand: r,
			Machine:  host.Machine{BootID: func() string { return bootID }, Mount: func(string) string { return bootID }},
			Executor: (*executor)(n), Flusher: n.newFlusher, Topic: w.shrinkTopic, Images: n.applied, Net: (*dialer)(n),
		},
	})
	if err != nil {
		w.fail(0, "broker.New: %v", err)
	}
	n.broker = b
	m.lifeOf[b.Incarnation()] = m.lives
	m.mayDie(15)
	if err := b.Boot(func(err error) { n.booted(err) }); err != nil && m.faults.dying == deathNone {
		n.failed(fmt.Errorf("boot: %w", err))
	}
}

// mayDie plans a death in so many percent of the cases.
func (m *machine) mayDie(percent int) {
	for _, k := range []Kind{KindKillMid, KindPowerMid} {
		m.world.act(k, func(r *rand.Rand) {
			if r.IntN(200) < percent {
				m.planDeath(r, k)
			}
		})
	}
}

// planDeath has the process die at one of its next disk operations.
func (m *machine) planDeath(r *rand.Rand, k Kind) {
	m.faults.plan = deathKill
	if k == KindPowerMid {
		m.faults.plan = deathPower
	}
	m.faults.countdown = 1 + r.IntN(pick(r, []int{5, 30, 100}))
}

// failed ends a process that says that it can't go on. A full disk is no reason for
// a voter of several that was serving.
func (n *node) failed(err error) {
	n.m.line("exit       %v", err)
	full := n.m.filled && (!n.up || n.world.o.voters == 1)
	if n.m.faults.hits == 0 && !full {
		n.world.fail(0, "broker %d gave up on a sound disk: %v", n.m.id, err)
	}
	n.m.end(deathKill, nil)
}

// alive reports whether the incarnation runs still.
func (n *node) alive() bool { return n.m.node == n && n.m.faults.dying == deathNone }

// booted is told that the node's partitions are led.
func (n *node) booted(err error) {
	if !n.alive() {
		return
	}
	n.world.at(0, func() {
		switch {
		case !n.alive():
		case err != nil:
			n.failed(fmt.Errorf("join: %w", err))
		default:
			n.serve()
		}
	})
}

func (n *node) serve() {
	n.up = true
	n.m.line("up         metadata %v", n.broker.Image().At())
	n.notice()
	n.checkStrays()
	n.m.booted()
}

// gone takes everything of the incarnation off the heap and cuts its
// connections.
func (n *node) gone() {
	n.rt.Stop()
	n.up = false
	for _, c := range n.conns {
		c.lost()
	}
	n.conns = nil
	n.world.net.gone(n)
}

// stop stops the node in order: it hands over what it leads, connections are
// drained, then it halts.
func (n *node) stop() {
	w, m := n.world, n.m
	if !n.up || n.stopping {
		return
	}
	n.stopping = true
	m.line("stop       in order")
	n.broker.Leave(func() {
		w.at(0, func() {
			if n.alive() {
				n.drain()
			}
		})
	})
}

// drain ends a stop in order: no more requests are taken, those that there are
// get their time, then the broker halts.
func (n *node) drain() {
	w, m := n.world, n.m
	m.line("drain")
	for _, c := range slices.Clone(n.conns) {
		c.local.Drain()
	}
	w.at(exp(w.nodeRand, 30*millisecond), func() {
		if m.node != n {
			return
		}
		n.up = false
		for _, h := range w.held {
			if h.node == n {
				h.region.Release()
			}
		}
		w.held = slices.DeleteFunc(w.held, func(h held) bool { return h.node == n })
		m.mayDie(25)
		for _, c := range n.conns {
			c.local.Close()
		}
		n.noteCuts()
		clean := n.broker.Halt(true)
		if m.faults.dying != deathNone {
			return
		}
		if clean != nil && m.faults.hits == 0 && !m.filled && !m.anyDropped() {
			w.fail(0, "an orderly stop of broker %d on a sound disk: %v", m.id, clean)
		}
		m.end(deathKill, nil)
	})
}

// settings are the broker's, the same for every incarnation.
func (m *machine) settings() *config.Broker {
	w := m.world
	b, _, _, err := config.Load(config.Sources{Flags: append([]string{
		"log.dirs=" + dataDir, "tidemark.kept.dir=" + keptDir, "auto.create.topics.enable=false",
	}, m.place()...)})
	if err != nil {
		w.fail(0, "settings: %v", err)
	}
	b.Storage.HighWatermarkInterval = w.o.checkpoints
	b.Storage.RecoveryPointInterval = w.o.checkpoints
	b.Storage.LogStartInterval = w.o.checkpoints
	b.Quorum.SegmentBytes = int32(w.o.metadataBytes)
	b.Quorum.SnapshotBytesMax = w.o.metadataBytes
	b.Own.MemoryLimitBytes = 64 << 20
	b.Own.Scrub.Enable, b.Own.Scrub.Period = w.o.scrub > 0, w.o.scrub
	w.o.cluster(b)
	w.o.groups(b)
	return b
}

// clientPort and controllerPort are those of every machine.
const (
	clientPort         = 9092
	controllerPort     = 9093
	clientListener     = "PLAINTEXT"
	controllerListener = "CONTROLLER"
)

// place is where the broker stands in the cluster, as settings.
func (m *machine) place() []string {
	o := &m.world.o
	if o.nodes == 1 {
		return []string{fmt.Sprintf("listeners=PLAINTEXT://%s:%d", m.host(), clientPort)}
	}
	var voters []string
	for i := range o.voters {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", i+1, hostOf(model.BrokerID(i+1)), controllerPort))
	}
	s := []string{
		fmt.Sprintf("node.id=%d", m.id), "controller.listener.names=CONTROLLER", "controller.quorum.voters=" + strings.Join(voters, ","),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
	}
	client := fmt.Sprintf(clientListener+"://%s:%d", m.host(), clientPort)
	if int(m.id) > o.voters {
		return append(s, "process.roles=broker", "listeners="+client)
	}
	return append(s, "process.roles=broker,controller", fmt.Sprintf("listeners=%s,CONTROLLER://%s:%d", client, m.host(), controllerPort))
}

// shrinkTopic makes segments as small as the seed wants them.
func (w *World) shrinkTopic(t *config.Topic) {
	t.SegmentBytes = w.o.segmentBytes
	t.IndexIntervalBytes = w.o.indexInterval
}

// delay draws how long a disk operation takes now.
func (n *node) delay(kind Kind, mean time.Duration) model.Instant {
	w := n.world
	d := model.Instant(0)
	if w.o.on[kind] && w.phase == safety {
		d = exp(w.diskRand, model.Instant(mean))
	}
	return max(d, n.stalled-w.sim.Now())
}

// executor is a node as the host.Executor.
type executor node

// Start implements host.Executor.
func (e *executor) Start(work *host.Work) bool {
	n := (*node)(e)
	d := n.delay(KindWrite, n.world.o.write)
	if d <= 0 || n.stalled <= n.world.sim.Now() && n.world.diskRand.IntN(2) == 0 {
		return true
	}
	n.world.counts.kind[KindWrite]++
	tp := work.Partition()
	n.delayed[tp]++
	n.rt.After(d, do(func() {
		n.delayed[tp]--
		work.Proceed()
	}))
	return false
}

// flusher is the host.Flusher of one incarnation: one job after another.
type flusher struct {
	node  *node
	jobs  []host.DiskJob // submitted, not yet run
	freed model.Instant  // when the last one submitted will have run
}

func (n *node) newFlusher(string) host.Flusher {
	f := &flusher{node: n}
	n.flushers = append(n.flushers, f)
	return f
}

// Submit implements host.Flusher.
func (f *flusher) Submit(j host.DiskJob, urgent bool) {
	n := f.node
	now := n.world.sim.Now()
	d := n.delay(KindFlush, n.world.o.flush)
	if d > 0 {
		n.world.counts.kind[KindFlush]++
	}
	at := now + d
	if !urgent {
		at = max(at, f.freed)
	}
	f.freed = max(f.freed, at)
	f.jobs = append(f.jobs, j)
	if y := n.world.play; y != nil && y.lateDisk == n {
		y.lateJobs = append(y.lateJobs, j)
	}
	n.rt.After(at-now, do(func() { f.run(j) }))
}

// run does one job, unless Stop has done it. What it found may take its time to
// come back.
func (f *flusher) run(j host.DiskJob) {
	for i := range f.jobs {
		if f.jobs[i] == j {
			f.jobs = append(f.jobs[:i:i], f.jobs[i+1:]...)
			j.Run()
			late := f.node.delay(KindFlush, f.node.world.o.flush) / 4
			if y := f.node.world.play; y != nil && slices.Contains(y.lateJobs, j) {
				y.returns = append(y.returns, func() { f.node.rt.After(0, do(j.Done)) })
				return
			}
			f.node.rt.After(late, do(j.Done))
			return
		}
	}
}

// Stop implements host.Flusher.
func (f *flusher) Stop() {
	jobs := f.jobs
	f.jobs = nil
	for _, j := range jobs {
		j.Run()
		j.Done()
	}
}
