package broker

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// suspects is a Dialer whose connects come out as a script says, one after
// another; the last line holds for all further ones.
type suspects struct {
	sim    *simtime.Sim
	rt     *simtime.Runtime
	script []connect
	at     []model.Instant
}

// connect is what one attempt comes to: taken or not, then what ends it and how
// soon; nil never ends.
type connect struct {
	taken bool
	after time.Duration
	err   error
}

func (s *suspects) Open(_ transport.Address, _ transport.Class, events transport.StreamEvents) transport.Stream {
	c := s.script[min(len(s.at), len(s.script)-1)]
	s.at = append(s.at, s.sim.Now())
	if c.taken {
		s.rt.After(0, later(events.Up))
	}
	if c.err != nil {
		s.rt.After(model.Instant(c.after)+1, later(func() { events.Down(c.err) }))
	}
	return suspect{}
}

type later func()

func (l later) Deliver(model.Now) { l() }

type suspect struct{}

func (suspect) Write([]byte) {}
func (suspect) Close()       {}

// TestProbe: a node is gone if two connects some time apart were refused, also if
// the first ones were still taken by a process amid its death; whoever keeps a
// connection, or turns it away, or says nothing, is not gone.
func TestProbe(t *testing.T) {
	refused := connect{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}
	dying := connect{taken: true, err: io.EOF}
	for _, c := range []struct {
		name     string
		script   []connect
		gone     bool
		connects int
	}{
		{"refused", []connect{refused}, true, 2},
		{"refused once", []connect{refused, {taken: true}}, false, 2},
		{"serves", []connect{{taken: true}}, false, 1},
		{"dies amid the first connect", []connect{dying, refused}, true, 3},
		{"resets amid the first connects", []connect{dying, {taken: true, err: syscall.ECONNRESET}, refused}, true, 4},
		{"dies, and is back", []connect{dying, refused, {taken: true}}, false, 3},
		{"turns connections away", []connect{dying}, false, brokenMax},
		{"silent", []connect{{}}, false, 1},
		{"unreachable", []connect{{err: syscall.EHOSTUNREACH}}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := simtime.New(1)
			rt := sim.Runtime(simtime.Clocks{Started: 1}, 0)
			net := &suspects{sim: sim, rt: rt, script: c.script}
			b := &Broker{rt: rt, world: World{Net: net}}
			p := newProber(b)
			gone, since := 0, model.Instant(0)
			at := transport.Address{Node: 2, Host: "h", Port: 1}
			p.probe(at, 2, func(first model.Instant) { gone++; since = first })
			p.probe(at, 2, func(model.Instant) { t.Error("a node is probed twice at a time") })
			sim.RunUntil(model.Instant(time.Minute))
			if (gone == 1) != c.gone || gone > 1 {
				t.Errorf("given up %d times, want %v", gone, c.gone)
			}
			if len(net.at) != c.connects {
				t.Errorf("%d connects, want %d", len(net.at), c.connects)
			}
			for i := 1; i < len(net.at); i++ {
				if gap := net.at[i] - net.at[i-1]; gap < 50_000_000 {
					t.Errorf("connects %d ns apart", gap)
				}
			}
			if c.gone && since < net.at[c.connects-2] {
				t.Errorf("refused since %d, the first refusal came after %d", since, net.at[c.connects-2])
			}
			if len(p.active) != 0 {
				t.Error("the probing goes on")
			}
		})
	}
}

// TestGoneTogether: brokers that are found gone at about the same time are told
// together; one that answers after all, or is only waited for, holds nobody up
// longer than a probe takes.
func TestGoneTogether(t *testing.T) {
	refused := connect{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		name   string
		second connect // of the other broker; its first is refused
		later  time.Duration
		want   string
	}{
		{"both", refused, 10 * time.Millisecond, "[[2 3]]"},
		{"the other serves", connect{taken: true}, 10 * time.Millisecond, "[[2]]"},
		{"the other is silent", connect{}, 10 * time.Millisecond, "[[2]]"},
		{"far apart", refused, time.Second, "[[2] [3]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := simtime.New(1)
			rt := sim.Runtime(simtime.Clocks{Started: 1}, 0)
			first, other := &suspects{sim: sim, rt: rt, script: []connect{refused}}, &suspects{sim: sim, rt: rt, script: []connect{refused, c.second}}
			b := &Broker{rt: rt, world: World{Net: byNode{2: first, 3: other}}}
			p := newProber(b)
			var told [][]model.BrokerID
			p.tell = func(hints []controller.FenceHint) {
				var ids []model.BrokerID
				for _, h := range hints {
					ids = append(ids, h.Broker)
				}
				told = append(told, ids)
			}
			probe := func(id model.BrokerID) {
				p.probe(transport.Address{Node: id, Host: "h", Port: uint16(id)}, 2, func(since model.Instant) {
					p.gone(controller.FenceHint{Broker: id, Since: since})
				})
			}
			probe(2)
			rt.After(model.Instant(c.later), later(func() { probe(3) }))
			start := sim.Now()
			for len(told) == 0 && sim.Step() {
			}
			if took := sim.Now() - start; took > 3*probeGap {
				t.Errorf("told after %d ms", took/1e6)
			}
			sim.RunUntil(model.Instant(time.Minute))
			if got := fmt.Sprint(told); got != c.want {
				t.Errorf("told %s, want %s", got, c.want)
			}
		})
	}
}

// byNode has a Dialer for each node.
type byNode map[model.BrokerID]*suspects

func (n byNode) Open(at transport.Address, c transport.Class, events transport.StreamEvents) transport.Stream {
	return n[at.Node].Open(at, c, events)
}
