package quorum

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// errRemoved is why a member that was taken out of the voter set observes.
var errRemoved = errors.New("removed from the voter set")

// beginObserving follows the quorum without a vote.
func (n *Node) beginObserving(now model.Now, out *loop.Outbox) error {
	n.phase, n.tickAt = phaseObserving, model.Never
	id, err := identify(n.config, n.dir, now, false)
	if err != nil {
		return err
	}
	n.setID(id.Directory)
	n.watch = n.newWatcher()
	if err := n.watch.begin(now, out); err != nil {
		return err
	}
	n.describe()
	return nil
}

// newWatcher returns what follows the quorum for this node.
func (n *Node) newWatcher() *watcher {
	return &watcher{
		config: &n.config, dir: n.dir, logger: n.logger, id: n.id,
		post:    func(a answer) { n.box.Post(message{kind: kindWatched, answer: a}) },
		publish: n.publish,
		joined:  func(out *loop.Outbox) { n.started(nil, out) },
		broken:  n.fail,
	}
}

// summoned hears a message of the library although this node is no member: a
// leader has made it one. The state of the quorum is fetched before anything is
// answered.
func (n *Node) summoned(now model.Now, bootstrap metadata.Hash, m *raftpb.Message) {
	from := member(n.watch.image.Voters(), m.GetFrom())
	if m.GetTo() != n.raftID() || n.fetching != nil || from == nil || n.watch.disk.header.BootstrapHash != bootstrap {
		return
	}
	n.fetching = newDownload(*n.addressOfNode(from.Node, n.watch.image.Voters()))
	n.download(now)
}

// promoted makes a member of this node if the snapshot says that it is one.
func (n *Node) promoted(now model.Now, d *download, out *loop.Outbox) {
	conf, err := confOf(d.header)
	if err != nil || !inConf(conf, n.raftID()) || d.image.ClusterID() != n.watch.cluster() {
		return // the leader will call again
	}
	if err := n.become(now, d, out); err != nil {
		n.fail(err, out)
	}
}

func (n *Node) become(now model.Now, d *download, out *loop.Outbox) error {
	if err := n.watch.close(now, false); err != nil {
		return err
	}
	fs := n.config.FS
	all, err := listSnapshots(fs, n.dir)
	if err != nil {
		return err
	}
	for _, at := range all {
		if err := fs.Remove(filepath.Join(n.dir, metadata.SnapshotName(at))); err != nil {
			return err
		}
	}
	if err := writeState(n.config, n.dir, d.header, d.image); err != nil {
		return err
	}
	if err := errors.Join(fs.Remove(filepath.Join(n.dir, observedFile)), fs.SyncDir(n.dir)); err != nil {
		return err
	}
	n.watch = nil
	n.logger.Info("member of the quorum", zap.Stringer("at", d.at))
	return n.enter(now, out)
}

// retire turns a member that was removed from the voter set into one that
// follows, under a new name: a name is not used twice.
func (n *Node) retire(now model.Now, out *loop.Outbox) {
	n.resign(out, ErrNotActive)
	n.dropReads(true, out)
	err := n.store.close(false)
	n.store, n.raft, n.fetching, n.pending, n.change = nil, nil, nil, nil, nil
	b := &beginning{}
	if err == nil {
		err = n.forfeit(now, b, errRemoved)
	}
	if err == nil {
		err = n.beginObserving(now, out)
	}
	if err != nil {
		n.fail(err, out)
	}
	n.wake(now, out)
}

// orphanAfter is how long a member without a leader waits before it asks whether
// it still is one.
const orphanAfter = model.Instant(3 * time.Second)

// led reports whether this node has a leader. A learner keeps the leader it had,
// however long that has been silent: the library lets only voters stand.
func (n *Node) led(now model.Now) bool {
	return n.lead != raft.None && (now.Mono-n.heardAt < orphanAfter || !slices.Contains(n.conf.GetLearners(), n.raftID()))
}

// seekMembership asks the others, when nobody has led this node for long, whether
// it was removed while it was away: then nobody speaks to it any more.
func (n *Node) seekMembership(now model.Now) {
	if n.led(now) || n.soughtAt == 0 {
		n.soughtAt = now.Mono
	}
	if now.Mono-n.soughtAt < orphanAfter || n.config.Ask == nil {
		return
	}
	n.soughtAt = now.Mono
	q := &probeRequest{Node: n.config.NodeID, Directory: n.id, Listed: n.config.listed()}
	for _, v := range n.config.targets(n.ctl.Image()) {
		node := v.Node
		n.config.Ask(v, KeyProbe, q.encode(), func(body []byte, err error) {
			n.box.Post(message{kind: kindProbed, answer: answer{from: node, body: body, err: err}})
		})
	}
}

// soughtMembership takes an answer. It counts if it is of this cluster and knows
// more than the whole log of this node, in which the entry stands that made it a
// member: then that was taken back.
func (n *Node) soughtMembership(now model.Now, a answer, out *loop.Outbox) {
	p, err := decodeProbeAnswer(a.body)
	if a.err != nil || err != nil || p.Standing != standingMember || n.led(now) || p.Bootstrap != n.store.snapshot.BootstrapHash {
		return
	}
	if p.End > n.store.plog.LogEnd() && !p.Known {
		n.logger.Warn("this node is no voter any more", zap.Int32("says", int32(p.Node)))
		n.retire(now, out)
	}
}
