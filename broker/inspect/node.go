package inspect

import (
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/broker/telemetry"
	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
	"github.com/tidemark/tidemark/protocol/transport"
)

// Quorum is the metadata quorum as this node sees it, with a vote or without.
type Quorum interface {
	Image() *metadata.Image
	Describe() *quorum.Description
}

// Voter is this node's member of the quorum.
type Voter interface {
	// Touch has done called once the member's loop has got to it.
	Touch(done func())
	// Flushes returns how long flushes of the metadata log took.
	Flushes() metrics.Reading
}

// Parts are those of a node that there is something to tell of. A node without a
// role lacks the parts of that role: they are nil.
type Parts struct {
	Self model.BrokerID
	RT   loop.Runtime
	// Group counts the node's goroutines.
	Group *lifecycle.Group
	// Quorum is never nil.
	Quorum Quorum
	// Voter is the quorum's member here; nil without a vote.
	Voter Voter

	Dirs     *host.Dirs
	Replicas *host.ReplicaManager
	Sessions *host.FetchSessionCache
	// Epoch returns this incarnation's number, NoBrokerEpoch before it registered.
	Epoch func() model.BrokerEpoch
	// Heartbeats returns how many were sent and how many of them had no answer.
	Heartbeats func() (sent, failed int64)
	// Groups counts what this broker coordinates.
	Groups func() GroupCounts
	// Telemetry counts what clients tell of themselves.
	Telemetry func() telemetry.Counts
	// Fetches returns how many wait for data.
	Fetches func() int
	// Session is how long the controller may go unheard before it is likely to
	// have given this broker up.
	Session time.Duration
	// Stall is how long a disk may take before that is an alarm.
	Stall time.Duration
	// Peers returns what went over the connections to other nodes.
	Peers func() []PeerTraffic
	// Depths returns how many messages wait for each of the node's own loops.
	Depths func() []Depth
}

// PeerTraffic is what went over the connections of one class to one node.
type PeerTraffic struct {
	Node  model.BrokerID
	Class string
	*transport.Counts
}

// GroupCounts is what the coordinators of a broker have to tell.
type GroupCounts struct {
	// Empty, Preparing, Completing and Stable are groups by their state.
	Empty, Preparing, Completing, Stable int64
	// Offsets is how many are committed.
	Offsets int64
	// What follows only grows.
	Rebalances, Generations, Evicted, Commits, Expired, Unreadable int64
	Loads, Reloads, LoadedRecords                                  int64
}

// Depth is the length of a queue.
type Depth struct {
	Loop    string
	Waiting int
}

// Node is a node to look at. It exists before its parts do, so that a start that
// takes long can be watched. All methods may be called from any goroutine.
type Node struct {
	version string
	// failure returns why the node can't go on, nil while it can.
	failure   func() error
	elections elections
	parts     atomic.Pointer[Parts]
	server    atomic.Pointer[server.Server]
	stopping  atomic.Bool
	// touchedAt is when the quorum's loop was asked for a sign of life that has
	// not come yet, 0 if it has.
	touchedAt atomic.Int64
}

// New returns a node that has no parts yet.
func New(version string, failure func() error) *Node {
	return &Node{version: version, failure: failure}
}

// Built tells the parts, before any of them runs.
func (n *Node) Built(p Parts) { n.parts.Store(&p) }

// Serving tells that clients are let in.
func (n *Node) Serving(s *server.Server) { n.server.Store(s) }

// Stopping tells that clients are being sent away.
func (n *Node) Stopping() { n.stopping.Store(true) }

// Image counts what the cluster's newest decision changed. It is a
// quorum.Subscriber.
func (n *Node) Image(m *metadata.Image, d *metadata.Delta) { n.elections.count(m, d) }

// elections counts changes of leaders as the metadata log tells them.
type elections struct {
	elected, unclean, lost, dropped atomic.Int64
	// image is the one before.
	image atomic.Pointer[metadata.Image]
}

func (e *elections) count(m *metadata.Image, d *metadata.Delta) {
	before := e.image.Swap(m)
	for i := range d.Topics {
		t := &d.Topics[i]
		if t.Old == nil || t.New == nil || t.Old.ID != t.New.ID {
			continue
		}
		for _, p := range t.Partitions {
			old, now := t.Old.Partition(p), t.New.Partition(p)
			if old == nil {
				continue
			}
			e.change(old, now)
			if before != nil && now.Leader != old.Leader {
				e.dropped.Add(controller.Dropped(before, model.TopicIDPartition{TopicID: t.New.ID, Partition: p}, old, now.Leader))
			}
		}
	}
}

func (e *elections) change(old, now *metadata.PartitionRegistration) {
	switch {
	case now.Leader == old.Leader:
	case now.Leader == model.NoLeader:
		e.lost.Add(1)
	default:
		e.elected.Add(1)
		if !old.InISR(now.Leader) && !old.InELR(now.Leader) {
			e.unclean.Add(1)
		}
	}
}
