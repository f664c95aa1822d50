package quorum

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Description is the state of the quorum as DescribeQuorum reports it; a value
// that is never changed after it was published.
type Description struct {
	// Leader is the active controller's node id, or model.NoLeader.
	Leader model.BrokerID
	// Epoch is the term.
	Epoch model.LeaderEpoch
	// HighWatermark is the exclusive end of what is committed.
	HighWatermark model.Offset
	// Active: this node leads and its controller takes commands.
	Active bool
	// Aside: this node is a voter that takes no part, since its disk has no room.
	Aside  bool
	Voters []ReplicaState
	// Observers are the nodes that follow the log without a vote.
	Observers []ReplicaState
}

// ReplicaState is one member as the leader sees it.
type ReplicaState struct {
	Node      model.BrokerID
	Directory metadata.DirectoryID
	Listeners []metadata.Listener
	// LogEndOffset is NoOffset where this node does not know it.
	LogEndOffset model.Offset
	// LastFetch is when the member last spoke, LastCaughtUp when it last held
	// all that the leader held; NoTimestamp if not known. The leader's own are
	// the time of the question, as Kafka has it.
	LastFetch, LastCaughtUp model.Timestamp
}

// Describe returns the newest description; never nil.
func (n *Node) Describe() *Description {
	d := *n.description.Load()
	if d.Active {
		now := n.config.RT.Now().Wall
		d.Voters = append([]ReplicaState(nil), d.Voters...)
		for i := range d.Voters {
			if d.Voters[i].Node == d.Leader {
				d.Voters[i].LastFetch, d.Voters[i].LastCaughtUp = now, now
			}
		}
	}
	return &d
}

// Leader returns the leader that the newest description names, and its epoch,
// without making one.
func (n *Node) Leader() (model.BrokerID, model.LeaderEpoch) {
	d := n.description.Load()
	return d.Leader, d.Epoch
}

// describe publishes the present state.
func (n *Node) describe() {
	aside := n.phase == phaseAside
	if n.watch != nil || aside {
		d := &Description{Leader: model.NoLeader, Epoch: model.LeaderEpoch(n.term)}
		if n.watch != nil {
			d = n.watch.describe()
		}
		d.Aside = aside
		n.description.Store(d)
		return
	}
	if n.raft == nil || n.store == nil {
		return
	}
	st := n.raft.BasicStatus()
	d := &Description{
		Leader:        n.nodeOf(st.Lead),
		Epoch:         model.LeaderEpoch(st.HardState.GetTerm()),
		HighWatermark: offsetOf(st.HardState.GetCommit()).Next(),
		Active:        n.ctl.Active(),
	}
	if n.failure != nil || n.closed {
		d.Leader = model.NoLeader
	}
	for _, v := range n.ctl.Image().Voters() {
		s := ReplicaState{LogEndOffset: model.NoOffset, LastFetch: model.NoTimestamp, LastCaughtUp: model.NoTimestamp}
		id := metadata.RaftID(v.Node, v.Directory)
		if p := n.progress[id]; p != nil && n.leading {
			s = p.state()
		}
		s.Node, s.Directory, s.Listeners = v.Node, v.Directory, v.Listeners
		if id == n.raftID() {
			s.LogEndOffset = n.store.plog.LogEnd()
		}
		d.Voters = append(d.Voters, s)
	}
	if n.leading {
		for _, p := range n.serving.observers {
			d.Observers = append(d.Observers, p.state())
		}
	}
	n.description.Store(d)
}

// nodeOf returns the node id of a voter.
func (n *Node) nodeOf(raftID uint64) model.BrokerID {
	for _, v := range n.ctl.Image().Voters() {
		if raftID != 0 && metadata.RaftID(v.Node, v.Directory) == raftID {
			return v.Node
		}
	}
	return model.NoLeader
}
