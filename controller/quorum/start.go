package quorum

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// beginning is what Start found on the disk, on its way into the loop.
type beginning struct {
	phase  phase
	loaded loaded
	// why an observer is not a member, nil if it never was one; or why a member
	// stands aside.
	why error
	err error // why the node can't begin
}

// Start loads the disk and begins. A node that is its own quorum bootstraps an
// unused disk and is active when Start returns; otherwise the node comes up by
// and by, and Config.Started says when or why not. AnswerPrivate must be served
// by then: the others ask too. Nothing else may use the node before.
func (n *Node) Start() error {
	now := n.config.RT.Now()
	b := &beginning{}
	if err := n.prepare(now, b); err != nil {
		return err
	}
	n.box.Enter(message{kind: kindBegin, begin: b})
	return b.err
}

// alone reports whether this node is to be a quorum of its own.
func (c *Config) alone() bool {
	return len(c.Join) == 0 && (len(c.Voters) == 0 || len(c.Voters) == 1 && c.Voters[0].Node == c.NodeID)
}

// prepare loads what the disk has and decides what the node begins as.
func (n *Node) prepare(now model.Now, b *beginning) error {
	o := n.config
	if len(o.Voters) > 0 && (len(o.Join) > 0 || voterOf(o.Voters, o.NodeID) == nil) {
		return fmt.Errorf("node %d, voters %v, and %d addresses to join: %w", o.NodeID, o.listed(), len(o.Join), ErrVoters)
	}
	if !o.alone() && (o.Peers == nil || o.Ask == nil) {
		return fmt.Errorf("no way to reach other voters: %w", ErrVoters)
	}
	if err := finishRecovery(o.FS, n.dir); err != nil {
		return err
	}
	state, err := survey(o.FS, n.dir)
	if err != nil {
		return err
	}
	switch {
	case state == observing:
		b.phase = phaseObserving
		return nil
	case state == virgin && !o.alone():
		return n.prepareVirgin(now, b)
	}
	l, err := n.open(now, state)
	if err == nil {
		b.phase, b.loaded = phaseMember, l
		n.logReport(l.report)
		return n.settleIdentity(now, b)
	}
	if vfs.IsNoSpace(err) && !errors.Is(err, errUnflushed) && state == bootstrapped && o.Ask != nil {
		return n.prepareAside(b, err)
	}
	if !errors.Is(err, errObserve) {
		return err
	}
	return n.forfeit(now, b, err)
}

// prepareVirgin decides for an empty directory of a node that is not alone.
func (n *Node) prepareVirgin(now model.Now, b *beginning) error {
	if n.config.used() {
		return n.forfeit(now, b, ErrWiped)
	}
	if len(n.config.Join) > 0 {
		b.phase = phaseObserving
		id, err := identify(n.config, n.dir, now, false)
		if err == nil {
			n.setID(id.Directory)
		}
		return err
	}
	id, err := identify(n.config, n.dir, now, false)
	if err != nil {
		return err
	}
	b.phase = phaseBirth
	n.setID(id.Directory)
	n.birth = newBirth(id)
	return nil
}

// settleIdentity finds out under which name the loaded state knows this node.
func (n *Node) settleIdentity(now model.Now, b *beginning) error {
	id, err := n.checkIdentity(b.loaded.image)
	if err == nil {
		n.setID(id)
		return nil
	}
	err = errors.Join(err, n.store.plog.Close(false))
	n.store = nil
	if errors.Is(err, ErrStranger) && len(b.loaded.image.Voters()) > 1 && n.config.Ask != nil {
		return n.forfeit(now, b, err)
	}
	return err
}

// forfeit makes a node that was, or may have been, a member one that follows
// without a vote, under a new name: what it promised under the old one is lost.
// The old files are kept aside, untouched.
func (n *Node) forfeit(now model.Now, b *beginning, why error) error {
	if n.config.Ask == nil {
		return why
	}
	targets := n.config.targets(nil)
	if len(targets) == 0 { // the old files may know the others
		m, _, _ := salvage(n.config, n.dir)
		n.config.Join = m.Voters()
	}
	// The new name stands before the old files move: in between there must be no
	// moment at which the node could take up its old one with nothing behind it.
	fs, rebuilt := n.config.FS, filepath.Join(filepath.Dir(n.dir), rebuiltDir)
	if err := fs.RemoveAll(rebuilt); err != nil {
		return errors.Join(why, err)
	}
	id, err := identify(n.config, rebuilt, now, true)
	if err != nil {
		return errors.Join(why, err)
	}
	if err := markObserving(fs, rebuilt); err != nil {
		return errors.Join(why, err)
	}
	kept, err := setAside(fs, n.dir)
	if err == nil {
		err = finishRecovery(fs, n.dir)
	}
	if err != nil {
		return errors.Join(why, err)
	}
	n.logger.Error("this node does not vote until it is removed and added again", zap.Error(why), zap.String("kept", kept),
		zap.Stringer("new_directory_id", id.Directory))
	n.setID(id.Directory)
	b.phase, b.why = phaseObserving, why
	return nil
}

// begin is the first message of the loop.
func (n *Node) begin(now model.Now, b *beginning, out *loop.Outbox) {
	n.phase = b.phase
	switch b.phase {
	case phaseMember:
		b.err = n.beginMember(now, b.loaded, out)
	case phaseObserving:
		b.err = n.beginObserving(now, out)
	case phaseAside:
		n.beginAside(now, b.loaded.image, b.why, out)
	case phaseBirth:
		n.askVoters(now)
	}
	if b.err == nil {
		n.running.Store(true)
	}
}

// beginMember starts the consensus library on the loaded state.
func (n *Node) beginMember(now model.Now, l loaded, out *loop.Outbox) error {
	n.phase = phaseMember
	if err := n.startRaft(l.image); err != nil {
		return errors.Join(err, n.store.plog.Close(false))
	}
	n.publish(l.image, metadata.SnapshotDelta(n.Image(), l.image))
	n.drive(now, out)
	if n.phase == phaseMember && n.sole() && n.failure == nil {
		// There is nobody to wait for.
		if err := n.raft.Campaign(); err != nil {
			n.fail(fmt.Errorf("campaign: %w", err), out)
		}
		n.drive(now, out)
	}
	n.setTicking(now)
	if n.failure != nil {
		return errors.Join(n.failure, n.store.plog.Close(false))
	}
	if n.phase != phaseMember {
		return nil // it stands aside, or was removed
	}
	if n.sole() {
		n.started(nil, out)
		return nil
	}
	// The image is as old as the disk; what was committed since is seen first.
	n.read(&read{caughtUp: true}, out)
	return nil
}

// setTicking lets time pass for the library, unless this node has nobody to
// hear or to be heard by.
func (n *Node) setTicking(now model.Now) {
	switch {
	case n.phase != phaseMember:
	case n.sole() && len(n.conf.GetLearners()) == 0 && n.change == nil:
		n.tickAt = model.Never
	case n.tickAt == model.Never:
		n.tickAt = now.Mono + n.tick()
	}
}

// open loads the directory, after a bootstrap or a recovery if need be. An error
// that wraps errObserve means that the node may not vote.
func (n *Node) open(now model.Now, state diskState) (loaded, error) {
	o := n.config
	if state == virgin && !o.used() {
		if err := o.FS.RemoveAll(n.dir); err != nil { // a bootstrap cut short
			return loaded{}, err
		}
		if err := bootstrap(o, n.dir, now); err != nil {
			return loaded{}, err
		}
	}
	var l loaded
	var damage *damageError
	var err error
	n.store, l, err = load(o, n.dir, now)
	if !errors.As(err, &damage) {
		return l, err
	}
	if state == virgin {
		damage.err = ErrWiped
	}
	if base, _, _ := salvage(o, n.dir); !o.alone() || len(base.Voters()) > 1 {
		return l, fmt.Errorf("%w: %w", errObserve, damage)
	}
	if o.Recover == nil {
		return l, damage
	}
	receipt, err := recoverVoter(o, n.dir, now, damage)
	if err != nil {
		return l, errors.Join(damage, err)
	}
	if o.Recovered != nil {
		o.Recovered(*receipt)
	}
	n.store, l, err = load(o, n.dir, now)
	return l, err
}

// startRaft makes the library's node from the storage.
func (n *Node) startRaft(m *metadata.Image) error {
	var err error
	if n.conf, err = n.store.confState(); err != nil {
		return err
	}
	if n.sole() {
		if err := n.commitAll(); err != nil {
			return err
		}
	}
	n.ctl.Load(m)
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID:                        n.raftID(),
		ElectionTick:              int(n.electionTimeout() / n.tick()),
		HeartbeatTick:             ticksPerHeartbeat,
		Storage:                   n.store,
		Applied:                   n.store.applied(),
		MaxSizePerMsg:             maxMessage,
		MaxCommittedSizePerReady:  maxApplyBytes,
		MaxUncommittedEntriesSize: maxInflightBytes,
		MaxInflightMsgs:           maxInflight,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		StepDownOnRemoval:         true,
		DisableProposalForwarding: true,
		Logger:                    raftLogger{n.logger.Sugar()},
	})
	if err != nil {
		return err
	}
	n.propose = n.raft.Propose
	n.term = n.store.hard.Term
	n.grown = n.store.behindSnapshot
	n.progress = map[uint64]*replicaProgress{}
	return nil
}

// commitAll counts what is durable of the log as committed: all of it, but for
// terms that found no room in the epoch file. Where one voter is the quorum that is
// all there is to it; so the damage of anything that was ever acknowledged shows at
// the next start. Changes of the voter set are left to the library.
func (n *Node) commitAll() error {
	last := n.store.durable()
	from := n.store.hard.Commit + 1
	if from > last {
		return nil
	}
	entries, err := n.store.Entries(from, last+1, 1<<62)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.GetType() != raftpb.EntryNormal {
			return nil
		}
	}
	n.store.hard.Commit = last
	return nil
}

// sole reports whether this node is the only voter.
func (n *Node) sole() bool {
	v := n.conf.GetVoters()
	return len(v) == 1 && v[0] == n.raftID() && len(n.conf.GetVotersOutgoing()) == 0
}

// votes reports whether this node belongs to the configuration, with a vote or
// as one that is to get it.
func (n *Node) votes() bool { return inConf(n.conf, n.raftID()) }

// started tells how Start ended, once.
func (n *Node) started(err error, out *loop.Outbox) {
	if n.told {
		return
	}
	n.told = true
	if n.config.Started != nil {
		out.Add(&startedDelivery{n.config.Started, err})
	}
}

// startedDelivery tells Config.Started.
type startedDelivery struct {
	tell func(error)
	err  error
}

// Deliver implements loop.Delivery.
func (d *startedDelivery) Deliver(model.Now) { d.tell(d.err) }
