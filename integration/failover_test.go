package integration

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Tests of what a cluster does when nodes die, stop and come back. How long each
// failover took is logged; that it ends at all is asserted, by the records that
// flow again.

// TestClusterServes: three nodes form a cluster, every replica gets in sync, and
// all copies are the same bytes.
func TestClusterServes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	parts := c.create("serves", 6, nil)
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w := c.work(parts, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(2000)
	w.check()
	if w.failed.Load() > 0 {
		t.Errorf("%d records were given up", w.failed.Load())
	}
	c.compare(parts)
}

// failover is what a kill of one node cost.
type failover struct {
	leader time.Duration // until the metadata has another leader
	gap    time.Duration // the longest time without an acknowledgement
}

// String rounds both.
func (f failover) String() string {
	return fmt.Sprintf("another leader after %s, records after %s", f.leader.Round(time.Millisecond), f.gap.Round(time.Millisecond))
}

// killAndWait kills a partition's leader under load, waits until records flow
// again, brings it back and waits until it is in sync.
func (c *cluster) killAndWait(w *workload, p tp, m *member) failover {
	c.t.Helper()
	w.forgetGaps()
	before := time.Now()
	m.kill()
	c.awaitLeader(p, int32(m.id))
	f := failover{leader: time.Since(before)}
	w.flowsEverywhere()
	f.gap = w.longestGap(p)
	m.start()
	c.awaitISR(p, 3)
	return f
}

// worstOf is the median and the worst of each.
func worstOf(all []failover) string {
	if len(all) == 0 {
		return "never"
	}
	pick := func(which func(failover) time.Duration) (median, worst failover) {
		byIt := slices.SortedFunc(slices.Values(all), func(a, b failover) int { return cmp.Compare(which(a), which(b)) })
		return byIt[len(byIt)/2], byIt[len(byIt)-1]
	}
	middle, worst := pick(func(f failover) time.Duration { return f.leader })
	m2, w2 := pick(func(f failover) time.Duration { return f.gap })
	middle.gap, worst.gap = m2.gap, w2.gap
	return fmt.Sprintf("%d times; median: %v; worst: %v", len(all), middle, worst)
}

// TestLeaderIsKilled: kill -9 of a partition's leader that is not the active
// controller; nothing acknowledged is lost, another replica leads soon.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	active := c.awaitController()
	leader := c.others(active.id)[0]
	p := c.create("fails", 1, []int32{int32(leader), int32(active.id), int32(c.others(active.id, leader)[0])})[0]
	c.awaitISR(p, 3)
	w := c.work([]tp{p}, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(500)
	var alone, also []failover // of leaders that were not, and that were, the active controller
	for range rounds(3, 30) {
		s := c.awaitISR(p, 3)
		to := &alone
		if int32(c.awaitController().id) == s.leader {
			to = &also
		}
		*to = append(*to, c.killAndWait(w, p, c.member(s.leader)))
	}
	w.check()
	t.Logf("leader killed: %s", worstOf(alone))
	t.Logf("leader and active controller killed: %s", worstOf(also))
	c.compare([]tp{p})
}

// TestLeaderAndControllerIsKilled: the same for a leader that is the active
// controller too.
func TestLeaderAndControllerIsKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	active := c.awaitController()
	rest := c.others(active.id)
	p := c.create("fails", 1, []int32{int32(active.id), int32(rest[0]), int32(rest[1])})[0]
	c.awaitISR(p, 3)
	w := c.work([]tp{p}, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(500)
	f := c.killAndWait(w, p, active)
	w.check()
	t.Logf("leader and active controller killed: %v", f)
	c.compare([]tp{p})
}

// TestMinorityAndMajority: with one node of three gone records flow; with two
// gone none are acknowledged, and all that were are there when they are back.
func TestMinorityAndMajority(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	parts := c.create("m", 3, nil)
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w := c.work(parts, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(500)
	c.members[0].kill()
	w.flowsEverywhere()
	c.members[1].kill()
	// What is under way may still be acknowledged by the last in-sync replica
	// of nobody: min.insync.replicas forbids it. Give it a second to be wrong in.
	pause(200 * time.Millisecond)
	before := w.acked.Load()
	pause(time.Second)
	if n := w.acked.Load() - before; n > 0 {
		t.Errorf("%d records were acknowledged by one node of three", n)
	}
	c.members[1].start()
	w.flowsEverywhere()
	c.members[0].start()
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w.check()
	c.compare(parts)
}

// TestAllAreKilled: every node dies at once, under load, again and again.
func TestAllAreKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	parts := c.create("all", 3, nil)
	w := c.work(parts, workSpec{idempotent: 2, plain: 1, consumers: 1})
	for range rounds(3, 20) {
		w.flows(500)
		for _, m := range c.members {
			_ = m.p.Signal(syscall.SIGKILL)
		}
		for _, m := range c.members {
			m.kill()
		}
		c.start()
		w.flowsEverywhere()
	}
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w.check()
	c.compare(parts)
}

// TestShortStopIsNoFailover: a process that does not run for 200 ms keeps its
// leaderships, and the quorum its leader.
func TestShortStopIsNoFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	parts := c.create("short", 3, nil)
	before := map[tp]state{}
	for _, p := range parts {
		before[p] = c.awaitISR(p, 3)
	}
	active := c.awaitController()
	w := c.work(parts, workSpec{idempotent: 1, consumers: 1})
	w.flows(200)
	for range rounds(3, 20) {
		for _, m := range c.members {
			m.signal(syscall.SIGSTOP)
			pause(200 * time.Millisecond)
			m.signal(syscall.SIGCONT)
			w.flowsEverywhere()
		}
	}
	for _, p := range parts {
		s, err := c.state(p)
		if err != nil {
			t.Fatal(err)
		}
		if s.leader != before[p].leader || s.epoch != before[p].epoch {
			t.Errorf("%v: leader %d in epoch %d, was %d in epoch %d", p, s.leader, s.epoch, before[p].leader, before[p].epoch)
		}
	}
	if now := c.awaitController(); now != active {
		t.Errorf("node %d is the active controller, it was node %d", now.id, active.id)
	}
	w.check()
	c.compare(parts)
}

// TestLongStop: a process that does not run for longer than its session is
// replaced, and is no leader of anything when it runs again.
func TestLongStop(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{set: []string{"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=400"}})
	p := c.create("long", 1, nil)[0]
	s := c.awaitISR(p, 3)
	w := c.work([]tp{p}, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(200)
	m := c.member(s.leader)
	m.signal(syscall.SIGSTOP)
	now := c.await(p, 60*time.Second, "another leader", func(now state) bool { return now.leader > 0 && now.leader != s.leader })
	if now.epoch <= s.epoch {
		t.Errorf("epoch %d after %d", now.epoch, s.epoch)
	}
	w.flowsEverywhere()
	m.signal(syscall.SIGCONT)
	c.awaitISR(p, 3)
	w.check()
	c.compare([]tp{p})
}

// TestRollingRestart: every node is stopped in order and started, one after
// another, under load; no producer is refused for good and nothing is lost.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := startCluster(t, clusterSpec{})
	parts := c.create("rolls", 6, nil)
	for _, p := range parts {
		c.awaitISR(p, 3)
	}
	w := c.work(parts, workSpec{idempotent: 2, plain: 1, consumers: 1})
	for range rounds(1, 10) {
		for _, m := range c.members {
			w.flows(200)
			before := time.Now()
			m.stop()
			stopped := time.Since(before)
			w.flowsEverywhere()
			m.start()
			for _, p := range parts {
				c.awaitISR(p, 3)
			}
			t.Logf("node %d stopped in %s", m.id, stopped.Round(time.Millisecond))
		}
	}
	var worst time.Duration
	for _, p := range parts {
		worst = max(worst, w.longestGap(p))
	}
	w.check()
	if n := w.failed.Load(); n > 0 {
		t.Errorf("%d records were given up: %v", n, w.firstErr)
	}
	t.Logf("the longest time without an acknowledgement was %s", worst.Round(time.Millisecond))
	c.compare(parts)
}

// rounds is how often something is done: often in the long run.
func rounds(few, many int) int {
	if long() {
		return many
	}
	return few
}

// cell is one row of the replication matrix. Idempotent and plain producers share
// it, on topics of their own.
type cell struct {
	hard       bool // kill -9, or SIGTERM
	bounces    int  // 0: one shutdown; else so often stopped and started, whoever it is now
	controller bool // the active controller, or the partition's leader
}

// String names the cell.
func (x cell) String() string {
	how, what, who := "clean", "shutdown", "leader"
	if x.hard {
		how = "hard"
	}
	if x.bounces > 0 {
		what = fmt.Sprintf("%d bounces", x.bounces)
	}
	if x.controller {
		who = "controller"
	}
	return how + " " + what + " of the " + who
}

// TestReplicationMatrix is the test that Kafka's own system tests begin with:
// replication factor 3, min.insync.replicas 2, acks=all, and a node that is
// stopped, or stopped and started five times, each time the one that leads by
// then; what was acknowledged is read.
func TestReplicationMatrix(t *testing.T) {
	for _, hard := range []bool{false, true} {
		for _, bounces := range []int{0, 5} {
			for _, controller := range []bool{false, true} {
				for round := range rounds(1, 10) {
					x := cell{hard: hard, bounces: bounces, controller: controller}
					t.Run(fmt.Sprintf("%v round %d", x, round), func(t *testing.T) {
						t.Parallel()
						runCell(t, x)
					})
				}
			}
		}
	}
}

// runCell runs a cell for idempotent and plain producers, side by side on topics
// of their own.
func runCell(t *testing.T, x cell) {
	c := startCluster(t, clusterSpec{set: []string{"broker.session.timeout.ms=6000", "broker.heartbeat.interval.ms=500"}})
	parts := c.create("idempotent", 3, nil)
	plain := c.create("plain", 3, nil)
	for _, p := range append(parts, plain...) {
		c.awaitISR(p, 3)
	}
	w, v := c.work(parts, workSpec{idempotent: 2, consumers: 1}), c.work(plain, workSpec{plain: 2, consumers: 1})
	flows := func() {
		t.Helper()
		w.flowsEverywhere()
		v.flowsEverywhere()
	}
	flows()
	target := func(not ...int32) *member {
		t.Helper()
		if x.controller {
			return c.awaitController(not...)
		}
		return c.member(c.awaitLeader(parts[0], not...).leader)
	}
	m := target()
	m.halt(x.hard)
	for range x.bounces {
		next := target(int32(m.id))
		flows()
		m.start()
		for _, p := range append(parts, plain...) {
			c.awaitISR(p, 3)
		}
		m = next
		m.halt(x.hard)
	}
	target(int32(m.id))
	flows()
	m.start()
	for _, p := range append(parts, plain...) {
		c.awaitISR(p, 3)
	}
	w.check()
	v.check()
	c.compare(append(parts, plain...))
}
