package quorum

import (
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// privateRequest is a request of another controller or of a broker.
type privateRequest struct {
	key   int16
	body  []byte
	reply func(body []byte)
}

// AnswerPrivate takes a private request of another node: one of KeyRaft, KeyPull
// and KeyProbe. reply is called exactly once, outside every loop, possibly
// PullWaitMax later or, while Start has not begun, from within the call. body is
// kept until then. A body that makes no sense gets an empty answer.
func (n *Node) AnswerPrivate(key int16, body []byte, reply func(body []byte)) {
	if !n.running.Load() {
		reply(notRunning(key, n.config.NodeID))
		return
	}
	n.box.Post(message{kind: kindPrivate, private: &privateRequest{key: key, body: body, reply: reply}})
}

// notRunning is the answer of a node that has nothing to say.
func notRunning(key int16, node model.BrokerID) []byte {
	switch key {
	case KeyPull:
		return (&pullAnswer{Status: pullNotReady, Leader: model.NoLeader, Term: model.NoEpoch, Snapshot: noImage()}).encode()
	case KeyProbe:
		return (&probeAnswer{Standing: standingUnknown, Node: node}).encode()
	case KeyRaft:
		return raftAnswer(raftNotRunning)
	}
	return nil
}

// replied is a private answer on its way out.
type replied struct {
	reply func([]byte)
	body  []byte
}

// Deliver implements loop.Delivery.
func (r *replied) Deliver(model.Now) { r.reply(r.body) }

// answerPrivate handles a private request.
func (n *Node) answerPrivate(now model.Now, r *privateRequest, out *loop.Outbox) {
	answer := func(body []byte) { out.Add(&replied{r.reply, body}) }
	if n.closed || n.failure != nil {
		answer(notRunning(r.key, n.config.NodeID))
		return
	}
	switch r.key {
	case KeyRaft:
		status, err := n.receive(now, r.body, out)
		if err != nil {
			n.logger.Warn("message of a controller refused", zap.Error(err))
		}
		answer(raftAnswer(status))
	case KeyProbe:
		q, err := decodeProbeRequest(r.body)
		if err != nil {
			answer(nil)
			return
		}
		answer(n.standing(q).encode())
	case KeyPull:
		q, err := decodePullRequest(r.body)
		if err != nil {
			n.logger.Debug("pull refused", zap.Error(err))
			answer(nil)
			return
		}
		n.pulled(now, &parked{request: q, reply: r.reply}, out)
	default:
		answer(nil)
	}
}

// standing says what this node is to one that asks before there is a quorum.
func (n *Node) standing(q *probeRequest) *probeAnswer {
	a := &probeAnswer{Node: n.config.NodeID, Listed: n.config.listed(), Identity: identity{Directory: n.id, ClusterID: n.Image().ClusterID()}}
	switch n.phase {
	case phaseBirth:
		a.Standing, a.Identity = standingVirgin, *n.birth.own
	case phaseMember:
		a.Standing, a.Voters, a.Bootstrap = standingMember, n.ctl.Image().Voters(), n.store.snapshot.BootstrapHash
		a.Known, a.End = inConf(n.conf, metadata.RaftID(q.Node, q.Directory)), n.ctl.Image().At().Offset.Next()
	case phaseObserving:
		a.Standing = standingStranger
	}
	return a
}

// The outcomes of a KeyRaft request.
const (
	raftTaken uint8 = iota
	raftOtherSet
	raftNotRunning
)

func raftAnswer(status uint8) []byte { return []byte{wireVersion, status} }

// encodeRaft wraps a message of the library with the digest of the voter set
// that the cluster began with: two clusters that were bootstrapped apart never
// understand each other, even under the same names.
func encodeRaft(bootstrap metadata.Hash, m *raftpb.Message) ([]byte, error) {
	e := newEncoder()
	e.id(bootstrap)
	return proto.MarshalOptions{}.MarshalAppend(e.b, m)
}

// decodeRaft is its inverse.
func decodeRaft(b []byte) (bootstrap metadata.Hash, m *raftpb.Message, err error) {
	d := newDecoder(b)
	bootstrap = d.id()
	if d.err != nil {
		return bootstrap, nil, d.err
	}
	m = new(raftpb.Message)
	return bootstrap, m, proto.Unmarshal(d.b, m)
}

// receive takes a message of the library.
func (n *Node) receive(now model.Now, body []byte, out *loop.Outbox) (uint8, error) {
	bootstrap, m, err := decodeRaft(body)
	if err != nil {
		return raftNotRunning, err
	}
	switch n.phase {
	case phaseMember:
		if own := n.store.snapshot.BootstrapHash; own != bootstrap {
			return raftOtherSet, fmt.Errorf("bootstrapped with voter set %s, this node with %s", bootstrap, own)
		}
		if err := n.wellFormed(m); err != nil {
			return raftTaken, err
		}
		n.step(now, m, out)
		return raftTaken, nil
	case phaseObserving:
		n.summoned(now, bootstrap, m)
	}
	return raftNotRunning, nil
}

// wellFormed says what is wrong with a message that comes from another machine:
// the library takes the word of its peers and does not survive some of what it
// would never send itself.
func (n *Node) wellFormed(m *raftpb.Message) error {
	terms, entries, last := m.GetTerm() > 0, m.GetEntries(), n.lastIndex()
	ok := false
	switch m.GetType() {
	case raftpb.MsgApp:
		ok = terms && inOrder(m)
	case raftpb.MsgAppResp:
		ok = terms && (m.GetReject() || m.GetIndex() <= last)
	case raftpb.MsgHeartbeatResp:
		ok = terms && (len(m.GetContext()) == 0 || len(m.GetContext()) == 8)
	case raftpb.MsgReadIndex:
		ok = !terms && len(entries) == 1
	case raftpb.MsgReadIndexResp:
		ok = terms && len(entries) == 1
	case raftpb.MsgSnap:
		ok = terms && len(m.GetSnapshot().GetData()) == 0
	case raftpb.MsgHeartbeat, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
		ok = terms
	}
	if from := m.GetFrom(); !ok || from == raft.None || from == n.raftID() || raft.IsLocalMsgTarget(from) {
		return fmt.Errorf("%s of %x at term %d: %w", m.GetType(), m.GetFrom(), m.GetTerm(), errBody)
	}
	return nil
}

// step gives a message to the library, but for those that this node has to act
// on first.
func (n *Node) step(now model.Now, m *raftpb.Message, out *loop.Outbox) {
	if n.phase != phaseMember {
		return
	}
	if m.GetTo() != n.raftID() {
		n.logger.Debug("message for another voter", zap.Uint64("to", m.GetTo()), zap.Uint64("this", n.raftID()))
		return
	}
	switch m.GetType() {
	case raftpb.MsgSnap:
		// One that is not ahead is answered by the library without a look inside.
		ahead := m.GetSnapshot().GetMetadata().GetIndex() > n.raft.BasicStatus().HardState.GetCommit()
		if ahead && len(m.GetSnapshot().GetData()) == 0 {
			n.wantSnapshot(now, m)
			m = &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: m.From, To: m.To, Term: m.Term} // there is a leader
		}
	case raftpb.MsgHeartbeat:
		if m.GetTerm() >= n.term && m.GetCommit() > n.lastIndex() {
			// This node acknowledged entries that it does not have: its promises
			// are worth nothing any more.
			n.fail(fmt.Errorf("the leader counts on index %d, the log ends at %d", m.GetCommit(), n.lastIndex()), out)
			return
		}
	}
	// The library refuses what it can't use; a peer's mistake is not ours.
	if err := n.raft.Step(m); err != nil {
		n.logger.Debug("message of a peer refused", zap.Error(err))
	}
	n.heardFrom(now, m)
	n.drive(now, out)
}

// inOrder reports whether the entries of a message follow each other.
func inOrder(m *raftpb.Message) bool {
	index, term := m.GetIndex(), m.GetLogTerm()
	for _, e := range m.GetEntries() {
		if e.GetIndex() != index+1 || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
			return false
		}
		index, term = e.GetIndex(), e.GetTerm()
	}
	return true
}

// lastIndex is the end of the log: all is on the disk between two turns.
func (n *Node) lastIndex() uint64 { return n.store.lastIndex() }

// send gives messages to the peers. A quorum of one has none. The bytes of a
// snapshot do not go with the message that announces it.
func (n *Node) send(now model.Now, messages []*raftpb.Message) {
	for _, m := range messages {
		to, known := n.address(m.GetTo())
		if !known || n.config.Peers == nil {
			continue
		}
		if !raft.IsEmptySnap(m.GetSnapshot()) {
			n.snapshotSent(now, m)
		}
		body, err := encodeRaft(n.store.snapshot.BootstrapHash, m)
		if err != nil {
			n.logger.Error("message can't be encoded", zap.Error(err))
			continue
		}
		n.config.Peers.Send(to, body)
	}
}
