package quorum

import (
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// snapshotPatience is how long the leader waits for a member that was sent a
// snapshot and does not fetch it.
const snapshotPatience = model.Instant(3 * time.Second)

// replicaProgress is what the leader knows of one that follows, in the terms of
// DescribeQuorum: a voter that acknowledges, an observer that pulls. The rules
// are those of Kafka's leader (KIP-595).
type replicaProgress struct {
	node      model.BrokerID
	directory metadata.DirectoryID
	// end is the exclusive end of its log, leaderEnd what the leader's was when it
	// last spoke.
	end, leaderEnd          model.Offset
	lastFetch, lastCaughtUp model.Timestamp
	// heard is when it last spoke, pieceAt when it was last sent a piece of a
	// snapshot or the word that it needs one.
	heard, pieceAt model.Instant
}

func newProgress(node model.BrokerID, dir metadata.DirectoryID) *replicaProgress {
	return &replicaProgress{node: node, directory: dir, end: model.NoOffset, leaderEnd: model.NoOffset,
		lastFetch: model.NoTimestamp, lastCaughtUp: model.NoTimestamp}
}

// spoke notes that it holds everything below end while the leader's log ends at
// leaderEnd. One that holds what the leader had when it spoke before was caught
// up then.
func (p *replicaProgress) spoke(now model.Now, end, leaderEnd model.Offset) {
	switch {
	case end >= leaderEnd:
		p.lastCaughtUp = max(p.lastCaughtUp, now.Wall)
	case p.leaderEnd > 0 && end >= p.leaderEnd:
		p.lastCaughtUp = max(p.lastCaughtUp, p.lastFetch)
	}
	p.lastFetch = max(p.lastFetch, now.Wall)
	p.end, p.leaderEnd, p.heard = end, leaderEnd, now.Mono
}

// state returns it as it is described.
func (p *replicaProgress) state() ReplicaState {
	return ReplicaState{Node: p.node, Directory: p.directory, LogEndOffset: p.end, LastFetch: p.lastFetch, LastCaughtUp: p.lastCaughtUp}
}

// heardFrom follows the members while this node leads, and when the leader spoke
// while it does not.
func (n *Node) heardFrom(now model.Now, m *raftpb.Message) {
	if t := m.GetType(); (t == raftpb.MsgApp || t == raftpb.MsgHeartbeat || t == raftpb.MsgSnap) && m.GetTerm() >= n.term {
		n.heardAt = now.Mono
	}
	if t := m.GetType(); t != raftpb.MsgAppResp && t != raftpb.MsgHeartbeatResp {
		return
	}
	if st := n.raft.BasicStatus(); st.RaftState != raft.StateLeader || m.GetTerm() != st.HardState.GetTerm() {
		return
	}
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == m.GetFrom() && p.Match > 0 {
			n.progressOf(id).spoke(now, offsetOf(p.Match).Next(), n.store.plog.LogEnd())
		}
	})
}

// progressOf returns what is known of a member.
func (n *Node) progressOf(id uint64) *replicaProgress {
	p := n.progress[id]
	if p == nil {
		v, _ := n.address(id)
		p = newProgress(v.Node, v.Directory)
		n.progress[id] = p
	}
	return p
}

// noteObserver follows those that pull from the leader.
func (n *Node) noteObserver(now model.Now, q *pullRequest) {
	if !n.leading || voterOf(n.ctl.Image().Voters(), q.Node) != nil && member(n.ctl.Image().Voters(), metadata.RaftID(q.Node, q.Directory)) != nil {
		return
	}
	s := &n.serving
	i, found := slices.BinarySearchFunc(s.observers, q.Node, func(p *replicaProgress, node model.BrokerID) int { return int(p.node) - int(node) })
	if !found {
		s.observers = slices.Insert(s.observers, i, newProgress(q.Node, q.Directory))
	} else if s.observers[i].directory != q.Directory {
		s.observers[i] = newProgress(q.Node, q.Directory)
	}
	s.observers[i].spoke(now, q.At.Offset.Next(), n.store.plog.LogEnd())
	s.observers = slices.DeleteFunc(s.observers, func(p *replicaProgress) bool { return now.Mono-p.heard > observerMax })
	n.describe()
}

// snapshotSent notes that a member was told to fetch a snapshot.
func (n *Node) snapshotSent(now model.Now, m *raftpb.Message) {
	n.progressOf(m.GetTo()).pieceAt = now.Mono
}

// notePiece notes that a member fetches.
func (n *Node) notePiece(now model.Now, q *pullRequest) {
	if p := n.progress[metadata.RaftID(q.Node, q.Directory)]; p != nil {
		p.pieceAt = now.Mono
	}
}

// missedSnapshots tells the library of members that do not fetch the snapshot
// they were sent: it would wait for them for ever.
func (n *Node) missedSnapshots(now model.Now) {
	var missed []uint64
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.State == tracker.StateSnapshot && now.Mono-n.progressOf(id).pieceAt > snapshotPatience {
			missed = append(missed, id)
		}
	})
	for _, id := range missed {
		n.progressOf(id).pieceAt = now.Mono
		n.raft.ReportSnapshot(id, raft.SnapshotFailure)
	}
}

// ledBy follows the change of the leader.
func (n *Node) ledBy(lead uint64) {
	if n.lead == lead {
		return
	}
	n.lead = lead
	n.progress = map[uint64]*replicaProgress{}
	n.serving.observers = nil
}
