package quorum

import (
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"
)

const (
	// standStagger is the head start of each voter over the next in rank when the
	// leader is known to be dead: two that stand at once may both lose.
	standStagger = model.Instant(30 * time.Millisecond)
	// standAgain and standTries: the others may not have noticed yet.
	standAgain = model.Instant(120 * time.Millisecond)
	standTries = 4
)

// failover is what a voter does about a leader that refuses connections.
type failover struct {
	// standAt is when to stand for election, Never if that is not wanted; tries
	// how often.
	standAt model.Instant
	tries   int
	// resigning wait until this node does not lead any more, or until giveUpAt.
	resigning []func()
	giveUpAt  model.Instant
}

// PeerLost says that the connection to a controller broke (refused false), or
// that a connection to it was refused: nobody listens there, so its process is
// dead. Of a leader that refuses connections the voters need not wait for the
// election timeout. A time-out is neither: the process may only be slow.
func (n *Node) PeerLost(node model.BrokerID, refused bool) {
	n.box.Post(message{kind: kindLost, node: node, refused: refused})
}

// lost handles PeerLost.
func (n *Node) lost(now model.Now, node model.BrokerID, refused bool, out *loop.Outbox) {
	if n.phase != phaseMember {
		return
	}
	v := voterOf(n.ctl.Image().Voters(), node)
	if v == nil || node == n.config.NodeID {
		return
	}
	id := metadata.RaftID(v.Node, v.Directory)
	n.raft.ReportUnreachable(id)
	if st := n.raft.BasicStatus(); refused && st.Lead == id && st.RaftState == raft.StateFollower {
		n.logger.Info("the leader refuses connections", zap.Int32("leader", int32(node)), zap.Uint64("term", n.term))
		if err := n.raft.ForgetLeader(); err != nil {
			n.logger.Debug("forget the leader", zap.Error(err))
		}
		n.failover.standAt, n.failover.tries = now.Mono+n.rank(id)*standStagger, standTries
	}
	n.drive(now, out)
}

// rank is this node's place among the voters but the one that is gone.
func (n *Node) rank(gone uint64) (rank model.Instant) {
	for _, v := range n.ctl.Image().Voters() {
		if v.Node < n.config.NodeID && metadata.RaftID(v.Node, v.Directory) != gone {
			rank++
		}
	}
	return rank
}

// stand campaigns if it is time to and there is still no leader.
func (n *Node) stand(now model.Now, out *loop.Outbox) {
	f := &n.failover
	if f.standAt > now.Mono {
		return
	}
	f.standAt = model.Never
	if n.raft.BasicStatus().Lead != raft.None || f.tries == 0 {
		return
	}
	f.tries--
	f.standAt = now.Mono + standAgain
	if err := n.raft.Campaign(); err != nil {
		n.logger.Debug("campaign", zap.Error(err))
	}
	n.drive(now, out)
}

// Resign hands the leadership to another voter, if this node leads and there is
// one, and tells done when this node does not lead any more, or when the others
// did not take it within an election timeout. Call it before Stop; commands are
// refused with NOT_CONTROLLER meanwhile. done is called outside every loop.
func (n *Node) Resign(done func()) { n.box.Post(message{kind: kindResign, done: done}) }

// handOver handles Resign.
func (n *Node) handOver(now model.Now, done func(), out *loop.Outbox) {
	to := uint64(raft.None)
	if n.phase == phaseMember && n.leading && n.failure == nil && !n.closed {
		to = n.successor()
	}
	if to == raft.None {
		out.Add(&called{done})
		return
	}
	n.failover.resigning = append(n.failover.resigning, done)
	n.failover.giveUpAt = now.Mono + n.electionTimeout()
	n.raft.TransferLeader(to)
	n.drive(now, out)
}

// successor is the voter that was heard of lately and holds most of the log.
func (n *Node) successor() (best uint64) {
	match := uint64(0)
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id != n.raftID() && slices.Contains(n.conf.GetVoters(), id) && p.RecentActive && p.Match > match {
			best, match = id, p.Match
		}
	})
	return best
}

// resigned tells those who wait for the end of this node's leadership.
func (n *Node) resigned(now model.Now, out *loop.Outbox) {
	f := &n.failover
	if len(f.resigning) == 0 || n.leading && now.Mono < f.giveUpAt && !n.closed && n.failure == nil {
		return
	}
	for _, done := range f.resigning {
		out.Add(&called{done})
	}
	f.resigning = nil
}

// called runs a function outside every loop.
type called struct{ done func() }

// Deliver implements loop.Delivery.
func (c *called) Deliver(model.Now) { c.done() }

// probe has every unfenced broker looked at: this controller has just begun, and
// what made it begin may have taken a broker too.
func (n *Node) probe(out *loop.Outbox) {
	if n.config.Probe == nil {
		return
	}
	for _, b := range n.ctl.Image().Brokers() {
		if !b.Fenced && b.ID != n.config.NodeID {
			out.Add(&probing{n.config.Probe, b.ID})
		}
	}
}

// probing calls Config.Probe.
type probing struct {
	probe  func(model.BrokerID)
	broker model.BrokerID
}

// Deliver implements loop.Delivery.
func (p *probing) Deliver(model.Now) { p.probe(p.broker) }
