package integration

import (
	"testing"
	"time"
)

// Tests of links that are cut between nodes, by a proxy that every link passes
// through. Clients reach every node unless said otherwise.

// shortSessions make a cut show soon.
func shortSessions() []string {
	return []string{"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=400", "replica.lag.time.max.ms=2000",
		"replica.socket.timeout.ms=2000", "controller.quorum.request.timeout.ms=1000"}
}

// underCut runs a story: a cluster under load, a cut, what must be so while it
// lasts, a heal, and the checks.
func underCut(t *testing.T, cut func(c *cluster, p tp, s state), during func(c *cluster, w *workload, p tp, s state)) {
	t.Helper()
	c := startCluster(t, clusterSpec{proxied: true, set: shortSessions()})
	p := c.create("cut", 1, nil)[0]
	s := c.awaitISR(p, 3)
	w := c.work([]tp{p}, workSpec{idempotent: 2, plain: 1, consumers: 1})
	w.flows(300)
	cut(c, p, s)
	during(c, w, p, s)
	c.net.heal()
	c.awaitISR(p, 3)
	w.flowsEverywhere()
	w.check()
	c.compare([]tp{p})
	for _, class := range []string{"fetch", "raft", "controller"} {
		if c.net.seen[class] == 0 {
			t.Errorf("no connection of class %s went through the proxy: %v", class, c.net.seen)
		}
	}
}

// awaitNewLeader waits until the rest of the cluster has another leader in a
// later epoch.
func awaitNewLeader(c *cluster, p tp, s state) state {
	c.t.Helper()
	return c.await(p, 60*time.Second, "another leader", func(now state) bool {
		return now.leader > 0 && now.leader != s.leader && now.epoch > s.epoch
	})
}

// TestLeaderIsolated: a leader that hears no other node. The others elect; it
// must not acknowledge what they don't have.
func TestLeaderIsolated(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) { c.net.isolate(int(s.leader), c.others(int(s.leader))...) },
		func(c *cluster, w *workload, p tp, s state) {
			awaitNewLeader(c, p, s)
			w.flowsEverywhere()
		})
}

// TestFollowerIsolated: a follower that hears no other node leaves the ISR; records
// flow.
func TestFollowerIsolated(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) {
		for _, id := range s.isr {
			if id != s.leader {
				c.net.isolate(int(id), c.others(int(id))...)
				return
			}
		}
	}, func(c *cluster, w *workload, p tp, s state) {
		c.await(p, 60*time.Second, "the cut replica has left the ISR", func(now state) bool { return len(now.isr) == 2 })
		w.flowsEverywhere()
	})
}

// TestOneWayOut: what the leader sends does not arrive, what it is sent does.
func TestOneWayOut(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) {
		for _, o := range c.others(int(s.leader)) {
			c.net.set(rule{held: true}, way{int(s.leader), o})
		}
	}, func(c *cluster, w *workload, p tp, s state) {
		awaitNewLeader(c, p, s)
		w.flowsEverywhere()
	})
}

// TestOneWayIn: what the leader is sent does not arrive, what it sends does.
func TestOneWayIn(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) {
		for _, o := range c.others(int(s.leader)) {
			c.net.set(rule{held: true}, way{o, int(s.leader)})
		}
	}, func(c *cluster, w *workload, p tp, s state) {
		awaitNewLeader(c, p, s)
		w.flowsEverywhere()
	})
}

// TestFollowerHearsNothing: a follower whose requests arrive and who gets no
// answers looks alive and gets nothing (N5): it leaves the ISR, records flow.
func TestFollowerHearsNothing(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) {
		for _, id := range s.isr {
			if id != s.leader {
				c.net.set(rule{held: true}, way{int(s.leader), int(id)})
				return
			}
		}
	}, func(c *cluster, w *workload, p tp, s state) {
		c.await(p, 60*time.Second, "the deaf replica has left the ISR", func(now state) bool { return len(now.isr) == 2 })
		w.flowsEverywhere()
	})
}

// TestFlappingLinks: links between all nodes break and heal again and again;
// records flow in between and the processes stay.
func TestFlappingLinks(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, _ state) {
		for i := range rounds(10, 100) {
			a := i%3 + 1
			b := a%3 + 1
			c.net.cut(a, b)
			pause(200 * time.Millisecond)
			c.net.heal()
			c.net.reset(a, b)
			pause(200 * time.Millisecond)
		}
	}, func(c *cluster, w *workload, p tp, s state) {
		w.flowsEverywhere()
		for _, m := range c.members {
			if !m.running() {
				t.Errorf("node %d ended", m.id)
			}
		}
	})
}

// TestSlowLink: a node behind 100 ms each way keeps up or leaves the ISR;
// records flow.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	underCut(t, func(c *cluster, _ tp, s state) {
		for _, id := range s.isr {
			if id != s.leader {
				for _, o := range c.others(int(id)) {
					c.net.set(rule{delay: 100 * time.Millisecond}, way{int(id), o}, way{o, int(id)})
				}
				return
			}
		}
	}, func(c *cluster, w *workload, p tp, s state) { w.flows(500) })
}
