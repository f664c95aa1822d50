package quorum

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// drive does what the library asks for until it asks for nothing more. The order
// is fixed: make durable, then send, then apply, then Advance.
func (n *Node) drive(now model.Now, out *loop.Outbox) {
	for n.failure == nil && !n.closed && n.phase == phaseMember && n.raft.HasReady() {
		rd := n.raft.Ready()
		if err := n.store.save(now, rd); err != nil {
			n.broke(now, fmt.Errorf("metadata log: %w", err), out)
			return
		}
		n.notice(now, rd, out)
		n.send(now, rd.Messages)
		if err := n.applyAll(now, rd, out); err != nil {
			n.fail(fmt.Errorf("apply: %w", err), out)
			return
		}
		n.readStates(rd.ReadStates)
		n.raft.Advance(rd)
	}
	if n.failure != nil || n.closed || n.phase != phaseMember {
		return
	}
	if err := n.store.broken; err != nil {
		n.fail(fmt.Errorf("metadata log: %w", err), out)
		return
	}
	if err := n.maybeSnapshot(now); errors.Is(err, errUnwritten) && vfs.IsNoSpace(err) {
		n.grown, n.due = 0, false // the log grows on, and is tried again later
		n.logger.Warn("no room for a metadata snapshot", zap.Error(err))
	} else if err != nil {
		n.broke(now, fmt.Errorf("snapshot: %w", err), out)
		return
	}
	n.finishReads(out)
	n.describe()
	if !n.votes() {
		n.retire(now, out)
		return
	}
	if n.waiting.empty() && len(n.queue) > 0 {
		n.group(out)
	}
}

// notice takes over the role, and finds the places of what was proposed.
func (n *Node) notice(now model.Now, rd raft.Ready, out *loop.Outbox) {
	if rd.HardState != nil {
		n.term = rd.GetTerm()
	}
	if rd.SoftState != nil {
		n.ledBy(rd.Lead)
		leads := rd.RaftState == raft.StateLeader
		if n.leading && !leads {
			n.resign(out, ErrNotActive)
		}
		n.leading = leads
		if leads && mutant.On("ctl-active-early") {
			n.ctl.Activate(now)
		}
	}
	for _, e := range rd.Entries {
		n.grown += int64(len(e.GetData()))
		if n.leading && e.GetTerm() == n.term && e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
			n.waiting.place(e.GetIndex(), e.GetTerm())
		}
	}
}

// applyAll applies a snapshot or committed entries, publishes the image once and
// then answers. The controller becomes active with the first entry of its own
// term: everything before that is applied by then.
func (n *Node) applyAll(now model.Now, rd raft.Ready, out *loop.Outbox) error {
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.applySnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if len(rd.CommittedEntries) == 0 {
		return nil
	}
	old := n.ctl.Image()
	own := false
	var entries []metadata.Committed
	for _, e := range rd.CommittedEntries {
		c := metadata.Committed{At: model.OffsetAndEpoch{Offset: offsetOf(e.GetIndex()), Epoch: model.LeaderEpoch(e.GetTerm())}}
		switch {
		case e.GetType() != raftpb.EntryNormal:
			recs, err := n.applyConfChange(e)
			if err != nil {
				return err
			}
			c.Records = recs
		case len(e.GetData()) == 0:
			own = own || n.leading && e.GetTerm() == n.term
		default:
			entry, err := metadata.DecodeEntry(e.GetData())
			if err != nil {
				return fmt.Errorf("entry %s: %w", c.At, err)
			}
			c.Records = entry.Records
		}
		entries = append(entries, c)
	}
	delta, err := n.ctl.Replay(now, entries)
	if err != nil {
		return err
	}
	if own && !n.ctl.Active() {
		n.ctl.Activate(now)
		n.logger.Info("active controller", zap.Uint64("term", n.term), zap.Stringer("offset", n.ctl.Image().At()))
		n.probe(out)
	}
	n.store.forget(rd.CommittedEntries[len(rd.CommittedEntries)-1].GetIndex())
	delta.From = old.At()
	n.publish(n.ctl.Image(), delta)
	for _, e := range rd.CommittedEntries {
		done, lost := n.waiting.committed(e.GetIndex(), e.GetTerm())
		for _, j := range done {
			n.answerAt(out, j, model.OffsetAndEpoch{Offset: offsetOf(e.GetIndex()), Epoch: model.LeaderEpoch(e.GetTerm())})
		}
		n.giveUpAll(out, lost, ErrNotActive)
	}
	return nil
}

// applySnapshot takes over the image of a leader's snapshot; save has checked
// and stored it.
func (n *Node) applySnapshot(snap *raftpb.Snapshot) error {
	_, m, err := metadata.ReadSnapshot(snap.GetData())
	if err != nil {
		return err
	}
	n.conf, n.grown = snap.GetMetadata().GetConfState(), 0
	old := n.ctl.Image()
	n.ctl.Load(m)
	n.publish(m, metadata.SnapshotDelta(old, m))
	return nil
}

// applyConfChange applies a change of the voter set in its place among the
// entries, and returns the records that go with it.
func (n *Node) applyConfChange(e *raftpb.Entry) ([]metadata.Record, error) {
	cc, err := confChange(e)
	if err != nil {
		return nil, err
	}
	recs, err := entryRecords(e)
	if err != nil {
		return nil, err
	}
	n.conf = n.raft.ApplyConfChange(cc)
	// A snapshot that a new member is sent must have it in its configuration.
	n.due = n.config.Peers != nil
	if mutant.On("ctl-voters-apart") {
		recs = nil
	}
	return recs, nil
}

// publish makes an image visible: first the value, then those who follow it. One
// that is not ahead of what was published is not: a member that begins on a
// snapshot may have seen more as an observer.
func (n *Node) publish(m *metadata.Image, d *metadata.Delta) {
	old := n.Image()
	if n.ctl.Image() == m {
		n.ring.add(m)
	}
	if m.At().Offset <= old.At().Offset {
		return
	}
	if d.From != old.At() {
		d = metadata.SnapshotDelta(old, m)
	}
	n.image.Store(m)
	for _, s := range n.subscribers {
		s(m, d)
	}
}

// maybeSnapshot writes a snapshot of the applied image once the log has grown
// by enough since the last one.
func (n *Node) maybeSnapshot(now model.Now) error {
	if n.grown < n.config.SnapshotBytes && !n.due || n.ctl.Image().At().Offset <= n.store.snapshot.At.Offset {
		return nil
	}
	conf, err := proto.Marshal(n.conf)
	if err != nil {
		return err
	}
	size, err := n.store.takeSnapshot(now, conf, n.ctl.Image())
	if err != nil {
		return err
	}
	n.grown, n.due = 0, false
	n.logger.Info("metadata snapshot", zap.Stringer("at", n.store.snapshot.At), zap.Int("bytes", size))
	return nil
}
