package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker"
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
	broker *broker.Broker
	rt     *simtime.Runtime
	// up: clients may connect. stopping: an orderly stop is under way.
	up, stopping bool
	conns        []*conn
	flushers     []*flusher
	// stalled is until when the disk makes no progress.
	stalled model.Instant
	// hosted are its partitions, as far as the checkers have noticed.
	hosted []*host.Hosted
	seen   map[*host.Hosted]*part
}

// boot starts a process on the disk as it is.
func (w *World) boot() {
	if w.node != nil || w.phase == over {
		return
	}
	w.lives++
	w.counts.boots++
	if w.filled {
		w.fullLife = w.lives
	}
	r := rand.New(rand.NewPCG(w.nodeRand.Uint64(), w.nodeRand.Uint64()))
	n := &node{world: w, seen: make(map[*host.Hosted]*part)}
	n.rt = w.sim.Runtime(simtime.Clocks{
		Wall: w.wall, DriftPPM: w.nodeRand.Int64N(20_001) - 10_000, Started: model.Instant(1 + w.nodeRand.Int64N(int64(1000*second))),
	}, model.Instant(w.o.spare))
	w.node = n
	w.trace.line("boot       life %d", w.lives)
	bootID := fmt.Sprintf("boot-%d", w.bootID)
	b, err := broker.New(broker.Config{
		Settings: w.settings(), Logger: zap.New(&logCore{world: w}),
		World: &broker.World{
			RT: n.rt, FS: faultfs.Wrap(w.disk, &w.faults), Rand: r,
			Machine:  host.Machine{BootID: func() string { return bootID }, Mount: func(string) string { return bootID }},
			Executor: (*executor)(n), Flusher: n.newFlusher, Topic: w.shrinkTopic,
		},
	})
	if err != nil {
		w.fail(0, "broker.New: %v", err)
	}
	n.broker = b
	w.planDeath(15)
	if err := b.Boot(func(err error) { n.booted(err) }); err != nil && w.faults.dying == deathNone {
		n.failed(fmt.Errorf("boot: %w", err))
	}
}

// planDeath has the process die at one of its next disk operations, in so many
// percent of the cases.
func (w *World) planDeath(percent int) {
	kill, power := w.o.on[KindKillMid], w.o.on[KindPowerMid]
	if w.phase != safety || !kill && !power || w.nemesisRand.IntN(100) >= percent {
		return
	}
	w.faults.plan = deathKill
	if !kill || power && w.nemesisRand.IntN(2) == 0 {
		w.faults.plan = deathPower
	}
	w.faults.countdown = 1 + w.nemesisRand.IntN(pick(w.nemesisRand, []int{5, 30, 100}))
}

// failed ends a process that says that it can't go on.
func (n *node) failed(err error) {
	w := n.world
	w.trace.line("exit       %v", err)
	if w.faults.hits == 0 && !w.full() {
		w.fail(0, "the broker gave up on a sound disk: %v", err)
	}
	w.end(deathKill, nil)
}

// booted is told that the node's partitions are led.
func (n *node) booted(err error) {
	w := n.world
	if w.faults.dying != deathNone || w.node != n {
		return
	}
	if err != nil {
		w.at(0, func() {
			if w.node == n {
				n.failed(fmt.Errorf("join: %w", err))
			}
		})
		return
	}
	w.at(0, func() {
		if w.node == n && w.faults.dying == deathNone {
			n.serve()
		}
	})
}

func (n *node) serve() {
	w := n.world
	n.up = true
	w.trace.line("up         metadata %v", n.broker.Image().At())
	n.notice()
	w.h.booted()
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
}

// stop stops the node in order: connections are drained, then it halts.
func (n *node) stop() {
	w := n.world
	if !n.up || n.stopping {
		return
	}
	n.stopping = true
	w.trace.line("stop       in order")
	for _, c := range n.conns {
		c.local.Drain()
	}
	w.at(exp(w.nemesisRand, 30*millisecond), func() {
		if w.node != n {
			return
		}
		n.up = false
		for _, h := range w.held {
			if h.life == w.lives {
				h.region.Release()
			}
		}
		w.held = nil
		w.planDeath(25)
		for _, c := range n.conns {
			c.local.Close()
		}
		clean := n.broker.Halt(true)
		if w.faults.dying != deathNone {
			return
		}
		if clean != nil && w.faults.hits == 0 && !w.full() && !w.h.anyDropped() {
			w.fail(0, "an orderly stop on a sound disk: %v", clean)
		}
		w.end(deathKill, nil)
	})
}

// settings are the broker's, the same for every incarnation.
func (w *World) settings() *config.Broker {
	b, _, _, err := config.Load(config.Sources{Flags: []string{
		"listeners=PLAINTEXT://sim:9092", "log.dirs=" + dataDir, "tidemark.kept.dir=" + dataDir + "/.kept",
		"auto.create.topics.enable=false",
	}})
	if err != nil {
		w.fail(0, "settings: %v", err)
	}
	b.Storage.HighWatermarkInterval = w.o.checkpoints
	b.Storage.RecoveryPointInterval = w.o.checkpoints
	b.Storage.LogStartInterval = w.o.checkpoints
	b.Quorum.SegmentBytes = int32(w.o.metadataBytes)
	b.Quorum.SnapshotBytesMax = w.o.metadataBytes
	b.Own.MemoryLimitBytes = 64 << 20
	return b
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
	n.rt.After(d, do(work.Proceed))
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
	n.rt.After(at-now, do(func() { f.run(j) }))
}

// run does one job, unless Stop has done it. What it found may take its time to
// come back.
func (f *flusher) run(j host.DiskJob) {
	for i := range f.jobs {
		if f.jobs[i] == j {
			f.jobs = append(f.jobs[:i:i], f.jobs[i+1:]...)
			j.Run()
			f.node.rt.After(f.node.delay(KindFlush, f.node.world.o.flush)/4, do(j.Done))
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
