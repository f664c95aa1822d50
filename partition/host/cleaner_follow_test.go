package host

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/partition"
)

// TestFollowingACompactedLog: a follower that was away copies what its leader has
// left of the log, with the holes; each replica compacts on its own, and either
// may lead.
func TestFollowingACompactedLog(t *testing.T) {
	p := newPair(t, 1, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
	p.settle()
	for id := range 2 {
		n := p.nodes[id]
		n.set(n.m.Get("t", 0), func(c *config.Topic) { c.SegmentBytes = 200 })
	}
	leader := p.nodes[0]
	send := func(n *node, batches ...string) {
		for _, words := range batches {
			n.send(n.m.Get("t", 0), 1, n.keyed(words))
			n.flushAll()
		}
	}
	send(leader, "a=1 b=1", "a=2 c=1", "b=2")
	p.wait(600)
	p.wires[1].cut = true
	p.settle()
	p.elect(1, 1)
	send(leader, "a=3", "d=1", "b", "a=4", "e=1", "a=5", "e=2")
	leader.look()
	leader.look()
	// The follower has what the leader has compacted away, and lacks the rest.
	want := text(t, p.hosted(1))
	if strings.Contains(want, "a=1") || strings.Contains(want, "a=3") || !strings.Contains(text(t, p.hosted(2)), "a=2") {
		t.Fatalf("the leader has %s, the follower %s", want, text(t, p.hosted(2)))
	}
	p.wires[1].cut = false
	p.wait(3000)
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != p.hosted(1).State().LogEnd {
		t.Fatalf("the follower has %+v", s.Mark)
	}
	if got := text(t, p.hosted(2)); !strings.HasSuffix(got, want[strings.Index(want, "7:"):]) || strings.Contains(got, "a=3") {
		t.Fatalf("the follower has %s, the leader %s, %+v %+v", got, want, p.hosted(1).State().Mark, p.hosted(2).State().Mark)
	}
	for range 3 {
		p.nodes[1].look()
		p.wait(100)
	}
	if got := text(t, p.hosted(2)); strings.Contains(got, "a=1") || strings.Contains(got, "a=2") {
		t.Fatalf("the follower has compacted to %s", got)
	}
	p.elect(2, 1, 2)
	p.wait(2000)
	send(p.nodes[1], "f=1", "a=6")
	p.wait(600)
	if a, b := p.hosted(1).State(), p.hosted(2).State(); a.LogEnd != b.LogEnd || a.Role != partition.Follower || a.LastStable != b.LastStable {
		t.Fatalf("%+v and %+v", a.Mark, b.Mark)
	}
	for id := range 2 {
		got := text(t, p.nodes[id].m.Get("t", 0))
		for _, word := range []string{":d=1", ":b", ":e=2", ":f=1", ":a=6"} {
			if !strings.Contains(got, word) {
				t.Errorf("%s is not in %s of node %d", word, got, id+1)
			}
		}
	}
}
