package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// nemesis does harm to a cluster, of which each part heals before the next.
type nemesis struct {
	c     *cluster
	w     *workload
	parts []tp
	rng   *rand.Rand
}

// harm is one thing that it does; each returns when it is over.
type harm struct {
	name string
	do   func(n *nemesis)
}

func harms() []harm {
	return []harm{
		{"kill a leader", func(n *nemesis) { n.bounce(true, n.leader()) }},
		{"kill the controller", func(n *nemesis) { n.bounce(true, n.c.awaitController()) }},
		{"kill two", func(n *nemesis) { n.bounce(true, n.some(2)...) }},
		{"kill all", func(n *nemesis) { n.bounce(true, n.c.members...) }},
		{"stop one", func(n *nemesis) { n.bounce(false, n.some(1)...) }},
		{"kill one amid its start", func(n *nemesis) {
			m := n.some(1)[0]
			m.kill()
			m.launch()
			pause(time.Duration(n.rng.Int64N(int64(300 * time.Millisecond))))
			n.bounce(true, m)
		}},
		{"power loss of one", func(n *nemesis) { n.power(n.some(1)[0]) }},
		{"pause one", func(n *nemesis) {
			m := n.some(1)[0]
			m.signal(syscall.SIGSTOP)
			n.lasts(4 * time.Second)
			m.signal(syscall.SIGCONT)
		}},
		{"isolate one", func(n *nemesis) {
			m := n.some(1)[0]
			n.c.net.isolate(m.id, n.c.others(m.id)...)
			n.lasts(4 * time.Second)
		}},
		{"cut one link", func(n *nemesis) {
			two := n.some(2)
			n.c.net.cut(two[0].id, two[1].id)
			n.lasts(4 * time.Second)
		}},
		{"cut one way", func(n *nemesis) {
			two := n.some(2)
			n.c.net.set(rule{held: true}, way{two[0].id, two[1].id})
			n.lasts(4 * time.Second)
		}},
		{"isolate a leader and kill another", func(n *nemesis) {
			m := n.leader()
			n.c.net.isolate(m.id, n.c.others(m.id)...)
			n.lasts(2 * time.Second)
			other := n.c.members[n.c.others(m.id)[n.rng.IntN(2)]-1]
			other.kill()
			n.c.net.heal()
			n.lasts(500 * time.Millisecond)
			other.start()
		}},
	}
}

// lasts lets a harm go on for a while.
func (n *nemesis) lasts(most time.Duration) {
	pause(100*time.Millisecond + time.Duration(n.rng.Int64N(int64(most))))
}

// some picks nodes.
func (n *nemesis) some(count int) []*member {
	all := slices.Clone(n.c.members)
	n.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:count]
}

// leader is the leader of some partition.
func (n *nemesis) leader() *member {
	return n.c.member(n.c.awaitLeader(n.parts[n.rng.IntN(len(n.parts))]).leader)
}

// bounce ends nodes, and starts them after a while.
func (n *nemesis) bounce(hard bool, who ...*member) {
	if hard {
		for _, m := range who {
			_ = m.p.Signal(syscall.SIGKILL)
		}
	}
	for _, m := range who {
		m.halt(hard)
	}
	n.lasts(time.Second)
	for _, m := range who {
		m.launch()
	}
	for _, m := range who {
		m.awaitReady()
	}
}

// power kills a node and takes from its partitions a part of what was not synced.
func (n *nemesis) power(m *member) {
	m.kill()
	m.losePower()
	for _, p := range n.parts {
		dir, err := m.replicaDir(p)
		if err != nil {
			continue
		}
		synced, err := checkpointed(filepath.Join(filepath.Dir(dir), "recovery-point-offset-checkpoint"), filepath.Base(dir))
		if err != nil {
			m.t.Fatal(err)
		}
		if err := cutUnsynced(dir, max(synced, 0), n.rng); err != nil {
			m.t.Fatal(err)
		}
	}
	m.start()
}

// cutUnsynced cuts a partition's last segment at a random byte above an offset.
func cutUnsynced(dir string, synced int64, rng *rand.Rand) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s: no segments: %v", dir, err)
	}
	slices.Sort(files)
	last := files[len(files)-1]
	info, err := os.Stat(last)
	if err != nil {
		return err
	}
	r := &replica{}
	if err := r.readSegment(last, 1<<62); err != nil {
		return nil // torn by the kill itself
	}
	low := int64(0)
	for _, b := range r.batches {
		if b.last < synced {
			low += int64(len(b.bytes))
		}
	}
	if low >= info.Size() {
		return nil
	}
	return os.Truncate(last, low+rng.Int64N(info.Size()-low))
}

// TestNemesis: whatever happens to the nodes and links of a cluster, as long as
// no more than one loses power at a time, what was acknowledged stays. A seed in
// TIDEMARK_NEMESIS_SEED does the same again.
func TestNemesis(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TIDEMARK_NEMESIS_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c := startCluster(t, clusterSpec{proxied: true, set: shortSessions()})
	parts := c.create("nemesis", 4, nil, "segment.bytes=1048576")
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	n := &nemesis{c: c, parts: parts, rng: rand.New(rand.NewPCG(seed, 3))}
	n.w = c.work(parts, workSpec{idempotent: 2, plain: 1, consumers: 2})
	t.Logf("seed %d", seed)
	all := harms()
	for i := range rounds(8, 150) {
		h := all[n.rng.IntN(len(all))]
		before := time.Now()
		h.do(n)
		c.net.heal()
		n.w.flowsEverywhere()
		for _, p := range parts {
			c.awaitISR(p, 3)
		}
		t.Logf("%3d %s: over after %s", i, h.name, time.Since(before).Round(time.Millisecond))
	}
	n.w.check()
	c.compare(parts)
}
