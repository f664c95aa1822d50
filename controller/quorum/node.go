package quorum

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Bounds of the library. Source: rules 8.
const (
	electionTicks  = 5
	heartbeatTicks = 1
	// tickInterval × electionTicks is the election timeout, 500 ms.
	tickInterval     model.Instant = 100_000_000
	maxMessage                     = 1 << 20
	maxInflight                    = 256
	maxInflightBytes               = 16 << 20
	maxApplyBytes                  = 16 << 20
	// groupMax is how many commands are computed before their records are
	// proposed and committed together.
	groupMax = 512

	defaultSegmentBytes  = 64 << 20
	defaultSnapshotBytes = 8 << 20
)

// Node is one member of the metadata quorum. New makes it, Start loads its disk
// and lets it run. All exported methods but Start and Subscribe may be called
// from any goroutine.
type Node struct {
	config Config
	dir    string
	logger *zap.Logger
	box    *loop.Box[message]

	image       atomic.Pointer[metadata.Image]
	description atomic.Pointer[Description]
	subscribers []Subscriber
	stopped     chan struct{}

	// What follows belongs to the loop.

	id      metadata.DirectoryID
	store   *storage
	raft    *raft.RawNode
	ctl     *controller.Controller
	conf    *raftpb.ConfState // at the last applied entry
	propose func(data []byte) error
	// leading: the library says that this node leads term. The controller is
	// active only once an entry of that term was applied.
	leading bool
	term    uint64
	// queue are commands that were not yet computed; a group message is on its
	// way while grouping is set.
	queue    []*job
	grouping bool
	waiting  waiters
	// grown counts the bytes of the log since the newest snapshot.
	grown int64
	// failure is why the node stopped taking part, nil while it does.
	failure error
	closed  bool
	tickAt  model.Instant
}

// kind of a message.
type kind uint8

const (
	kindSubmit kind = iota
	kindGroup       // compute the waiting commands
	kindRaft        // from a peer
	kindStop
)

// message is what enters the loop.
type message struct {
	kind  kind
	job   *job
	raft  *raftpb.Message
	clean bool
}

// New returns a node that has touched nothing yet.
func New(config Config) *Node {
	if config.SegmentBytes <= 0 {
		config.SegmentBytes = defaultSegmentBytes
	}
	if config.SnapshotBytes <= 0 {
		config.SnapshotBytes = defaultSnapshotBytes
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop()
	}
	n := &Node{
		config:  config,
		dir:     filepath.Join(config.Dir, TopicName+"-0"),
		logger:  config.Logger,
		ctl:     controller.New(config.Controller),
		stopped: make(chan struct{}),
		tickAt:  model.Never,
	}
	n.box = loop.NewBox[message](n, config.RT)
	n.image.Store(metadata.Empty())
	n.description.Store(&Description{Leader: model.NoLeader, Epoch: model.NoEpoch})
	return n
}

// Subscribe adds a subscriber. Call it before Start. The first image it is told
// is the one that Start loads.
func (n *Node) Subscribe(s Subscriber) { n.subscribers = append(n.subscribers, s) }

// Image returns the newest image; never nil.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// Identity returns the directory id and the cluster id that the node runs
// under, for meta.properties. Known once Start has returned.
func (n *Node) Identity() (metadata.DirectoryID, string) { return n.id, n.Image().ClusterID() }

// Submit hands a command to the active controller, if that is this node. The
// caller's goroutine does none of the work.
func (n *Node) Submit(cmd controller.Command, done Completion) {
	n.box.Post(message{kind: kindSubmit, job: &job{cmd: cmd, done: done}})
}

// Receive takes a message of a peer.
func (n *Node) Receive(m *raftpb.Message) { n.box.Post(message{kind: kindRaft, raft: m}) }

// Stop ends the node: commands that were not committed get ErrStopped. It
// returns once the log is closed. clean makes the log durable and stores its
// indexes first.
func (n *Node) Stop(clean bool) {
	n.box.Enter(message{kind: kindStop, clean: clean})
	<-n.stopped
}

// Start loads the disk, or bootstraps an unused one, and joins the quorum. A
// single voter is active when Start returns. Nothing else may use the node
// before.
func (n *Node) Start() error {
	now := n.config.RT.Now()
	if len(n.config.Voters) > 1 {
		return fmt.Errorf("%d voters are listed, a quorum of one is served: %w", len(n.config.Voters), ErrVoters)
	}
	l, err := n.open(now)
	if err != nil {
		return err
	}
	n.logReport(l.report)
	n.id, err = checkIdentity(n.config, l.image)
	if errors.Is(err, ErrStranger) && n.config.unborn(l.image, n.store) {
		l, err = n.bootstrapAgain(now)
	}
	if err != nil {
		return errors.Join(err, n.store.plog.Close(false))
	}
	if err := n.startRaft(l.image); err != nil {
		return errors.Join(err, n.store.plog.Close(false))
	}
	var out loop.Outbox
	n.publish(l.image, metadata.SnapshotDelta(metadata.Empty(), l.image))
	n.drive(now, &out)
	if n.sole(n.conf) && n.failure == nil {
		// There is nobody to wait for.
		if err := n.raft.Campaign(); err != nil {
			n.fail(fmt.Errorf("campaign: %w", err), &out)
		}
		n.drive(now, &out)
	}
	if !n.sole(n.conf) || len(n.conf.GetLearners()) > 0 {
		n.tickAt = now.Mono + tickInterval
	}
	if n.failure != nil {
		return errors.Join(n.failure, n.store.plog.Close(false))
	}
	n.box.Wake()
	return nil
}

// open loads the directory, after a bootstrap or a recovery if need be.
func (n *Node) open(now model.Now) (loaded, error) {
	o := n.config
	if err := finishRecovery(o.FS, n.dir); err != nil {
		return loaded{}, err
	}
	state, err := survey(o.FS, n.dir)
	if err != nil {
		return loaded{}, err
	}
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
	n.store, l, err = load(o, n.dir, now)
	if !errors.As(err, &damage) {
		return l, err
	}
	if state == virgin {
		damage.err = ErrWiped
	}
	if o.Recover == nil {
		return l, damage
	}
	receipt, err := recoverVoter(o, n.dir, now, damage)
	if err != nil {
		return l, errors.Join(damage, err)
	}
	n.logger.Error("metadata was rebuilt", zap.Error(receipt.Cause), zap.Stringer("from", receipt.Base), zap.Stringer("at", receipt.At),
		zap.Strings("topics", receipt.Topics), zap.Int("partitions", receipt.Partitions), zap.String("kept", receipt.Kept))
	if o.Recovered != nil {
		o.Recovered(*receipt)
	}
	n.store, l, err = load(o, n.dir, now)
	return l, err
}

// bootstrapAgain replaces a bootstrap whose process ended before it wrote
// meta.properties, so that the directory has been given another id since.
func (n *Node) bootstrapAgain(now model.Now) (l loaded, err error) {
	if err := n.store.plog.Close(false); err != nil {
		return l, err
	}
	if err := n.config.FS.RemoveAll(n.dir); err != nil {
		return l, err
	}
	if l, err = n.open(now); err != nil {
		return l, err
	}
	n.id, err = checkIdentity(n.config, l.image)
	return l, err
}

// startRaft makes the library's node from the storage.
func (n *Node) startRaft(m *metadata.Image) error {
	var err error
	if n.conf, err = n.store.confState(); err != nil {
		return err
	}
	if n.sole(n.conf) {
		if err := n.commitAll(); err != nil {
			return err
		}
	}
	n.ctl.Load(m)
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID:                        metadata.RaftID(n.config.NodeID, n.id),
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
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
	return nil
}

// commitAll counts the whole log as committed. It is durable, and where one
// voter is the quorum that is all there is to it; so the damage of anything that
// was ever acknowledged shows at the next start. Changes of the voter set are
// left to the library.
func (n *Node) commitAll() error {
	last := n.store.lastIndex()
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

// sole reports whether conf has this node as its only voter.
func (n *Node) sole(conf *raftpb.ConfState) bool {
	v := conf.GetVoters()
	return len(v) == 1 && v[0] == metadata.RaftID(n.config.NodeID, n.id) && len(conf.GetVotersOutgoing()) == 0
}
