package broker

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

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
