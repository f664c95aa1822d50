package quorum

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// download asks for the next piece of the snapshot that is being fetched.
func (n *Node) download(now model.Now) {
	d := n.fetching
	if d == nil || d.out && now.Mono-d.sentAt < askMax || d.againAt > now.Mono && d.againAt != model.Never {
		return
	}
	d.out, d.sentAt, d.againAt = true, now.Mono, model.Never
	d.seq++
	seq := d.seq
	q := d.request("", n.config.NodeID, n.id)
	n.config.Ask(d.from, KeyPull, q.encode(), func(body []byte, err error) {
		n.box.Post(message{kind: kindPulled, answer: answer{seq: seq, body: body, err: err}})
	})
}

// downloaded takes a piece.
func (n *Node) downloaded(now model.Now, a answer, out *loop.Outbox) {
	d := n.fetching
	if d == nil || !d.out || a.seq != d.seq {
		return
	}
	d.out = false
	whole := false
	p, err := decodePullAnswer(a.body)
	if a.err != nil {
		err = a.err
	} else if err == nil {
		whole, err = d.take(p)
	}
	switch {
	case err != nil:
		n.logger.Debug("snapshot could not be fetched", zap.Int32("from", int32(d.from.Node)), zap.Error(err))
		if !d.failed(now) {
			n.fetching, n.pending = nil, nil
		}
	case !whole:
		n.download(now)
	default:
		n.fetching = nil
		n.install(now, d, out)
	}
}

// install uses a snapshot that was fetched.
func (n *Node) install(now model.Now, d *download, out *loop.Outbox) {
	switch {
	case n.phase == phaseBirth:
		n.joined(now, d, out)
	case n.phase == phaseObserving:
		n.promoted(now, d, out)
	case n.phase == phaseMember && n.pending != nil:
		m := n.pending
		n.pending = nil
		conf, err := confOf(d.header)
		if err != nil {
			n.logger.Warn("snapshot refused", zap.Error(err))
			return
		}
		m.Snapshot = &raftpb.Snapshot{
			Data:     d.buf,
			Metadata: &raftpb.SnapshotMetadata{ConfState: conf, Index: new(indexOf(d.at.Offset)), Term: new(uint64(d.at.Epoch))},
		}
		n.step(now, m, out)
	}
}

// wantSnapshot takes the leader's word that this node needs a snapshot. The
// message carries its place only; the bytes are fetched, and then the library is
// told.
func (n *Node) wantSnapshot(now model.Now, m *raftpb.Message) {
	if n.fetching != nil {
		return // one at a time; the leader will say it again
	}
	from, ok := n.address(m.GetFrom())
	if !ok {
		return
	}
	n.pending, n.fetching = m, newDownload(from)
	n.download(now)
}

// addressOfNode returns how a node is reached: by what its own configuration
// says, else by what the voter set says.
func (n *Node) addressOfNode(node model.BrokerID, voters []metadata.Voter) *metadata.Voter {
	v := metadata.Voter{Node: node}
	if known := voterOf(voters, node); known != nil {
		v = *known
	}
	if c := voterOf(n.config.Voters, node); c != nil && len(c.Listeners) > 0 {
		v.Listeners = c.Listeners
	}
	return &v
}

// address returns the voter with a raft id and how it is reached.
func (n *Node) address(id uint64) (metadata.Voter, bool) {
	voters := n.ctl.Image().Voters()
	v := member(voters, id)
	if v == nil && n.change != nil && n.change.raftID() == id {
		v = &n.change.voter
	}
	if v == nil {
		return metadata.Voter{}, false
	}
	to := *n.addressOfNode(v.Node, voters)
	to.Directory = v.Directory
	if len(to.Listeners) == 0 {
		to.Listeners = v.Listeners
	}
	return to, true
}
