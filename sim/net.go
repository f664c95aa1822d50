package sim

import (
	"math/rand/v2"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/transport"
)

// outside is where the clients are.
const outside model.BrokerID = 0

// net is the network between the machines, and between them and the clients.
// Bytes of a connection keep their order; what is blocked waits, as TCP's
// retransmissions do, or the connection breaks.
type net struct {
	world *World
	// until is when a direction opens again: [from][to].
	until [][]model.Instant
	// slow is until when a direction is slow, and by how much.
	slow [][]slowness
	// laggards are those that hear of the metadata late.
	laggards []slowness
	// hush says which bytes of a class of connections a play keeps back; nil: none.
	hush func(c transport.Class, from, to model.BrokerID) bool
	// streams are the connections between nodes, until their opener has seen
	// the end.
	streams []*stream
}

type slowness struct {
	until model.Instant
	by    model.Instant
}

func (n *net) init(w *World) {
	n.world = w
	size := len(w.machines) + 1
	n.laggards = make([]slowness, size)
	n.until, n.slow = make([][]model.Instant, size), make([][]slowness, size)
	for i := range size {
		n.until[i], n.slow[i] = make([]model.Instant, size), make([]slowness, size)
	}
}

// open reports whether bytes get from one place to another now.
func (n *net) open(from, to model.BrokerID) bool {
	return from == to || n.until[from][to] <= n.world.sim.Now()
}

// hears reports whether bytes of a class of connections get from one place to
// another now.
func (n *net) hears(c transport.Class, from, to model.BrokerID) bool {
	return n.open(from, to) && (n.hush == nil || !n.hush(c, from, to))
}

// extra is what a direction adds to the latency now.
func (n *net) extra(from, to model.BrokerID) model.Instant {
	if s := n.slow[from][to]; s.until > n.world.sim.Now() {
		return exp(n.world.nodeRand, s.by)
	}
	return 0
}

// retransmit draws when blocked bytes are sent again.
func (n *net) retransmit() model.Instant { return millisecond + exp(n.world.nodeRand, 20*millisecond) }

// block closes a direction for a while.
func (n *net) block(from, to model.BrokerID, d model.Instant) {
	n.world.trace.line("net        %d to %d is blocked for %d ms", from, to, d/millisecond)
	n.until[from][to] = max(n.until[from][to], n.world.sim.Now()+d)
}

// clog slows a direction down for a while.
func (n *net) clog(r *rand.Rand, from, to model.BrokerID, d model.Instant) {
	by := pick(r, []model.Instant{20 * millisecond, 100 * millisecond, 500 * millisecond})
	n.world.trace.line("net        %d to %d is slow by %d ms for %d ms", from, to, by/millisecond, d/millisecond)
	n.slow[from][to] = slowness{n.world.sim.Now() + d, by}
}

// split parts the machines, and the clients, into two that don't reach each
// other for a while: one alone, halves, or one from the others but not from the
// clients.
func (n *net) split(r *rand.Rand) {
	w := n.world
	side := make([]int, len(w.machines)+1)
	side[outside] = r.IntN(3) - 1 // -1: the clients reach all
	switch alone := w.foremost(r.IntN(2) == 0); {
	case r.IntN(3) == 0:
		for i := range w.machines {
			side[i+1] = r.IntN(2)
		}
	case alone != nil && r.IntN(2) == 0:
		side[alone.id] = 1
	default:
		side[pick(r, w.machines).id] = 1
	}
	d := exp(r, pick(r, []model.Instant{200 * millisecond, second, 3 * second}))
	oneWay := r.IntN(4) == 0
	w.trace.line("net        parts %v for %d ms, one way %v", side, d/millisecond, oneWay)
	for i := range side {
		for j := range side {
			if side[i]+side[j] == 1 && side[i] >= 0 && side[j] >= 0 && (!oneWay || side[i] == 1) {
				n.until[i][j] = max(n.until[i][j], w.sim.Now()+d)
			}
		}
	}
}

// heal opens everything.
func (n *net) heal() {
	for i := range n.until {
		clear(n.until[i])
		clear(n.slow[i])
	}
	clear(n.laggards)
	n.hush = nil
}

// lag delays what a machine hears of the metadata, for a while.
func (n *net) lag(r *rand.Rand, b model.BrokerID, d model.Instant) {
	by := pick(r, []model.Instant{100 * millisecond, 400 * millisecond, second, 3 * second})
	n.world.trace.line("net        broker %d hears of the metadata %d ms late for %d ms", b, by/millisecond, d/millisecond)
	n.laggards[b] = slowness{n.world.sim.Now() + d, by}
}

// late is what a machine's lagging adds to the latency of a class of
// connections.
func (n *net) late(c transport.Class, to model.BrokerID) model.Instant {
	if l := n.laggards[to]; l.until > n.world.sim.Now() && (c == transport.ClassImage || c == transport.ClassRaft) {
		return exp(n.world.nodeRand, l.by)
	}
	return 0
}
