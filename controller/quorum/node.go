package quorum

import (
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Bounds of the library. Source: rules 8.
const (
	// ticksPerHeartbeat is how finely election timeouts are drawn: with one tick
	// a heartbeat, two voters of three would often stand at the same moment.
	ticksPerHeartbeat = 4

	defaultElectionTimeout   = 500 * time.Millisecond
	defaultHeartbeatInterval = 100 * time.Millisecond

	maxMessage       = 1 << 20
	maxInflight      = 256
	maxInflightBytes = 16 << 20
	maxApplyBytes    = 16 << 20
	// groupMax is how many commands are computed before their records are
	// proposed and committed together.
	groupMax = 512

	defaultSegmentBytes  = 64 << 20
	defaultSnapshotBytes = 8 << 20
)

// phase of a node's life. It only moves on, but for a member that is removed
// (observing) or whose disk is full (aside), and an observer that is made a
// member.
type phase uint8

const (
	phaseNew       phase = iota // Start has not loaded the disk
	phaseBirth                  // virgin: asks the other voters of the static list
	phaseMember                 // the consensus library runs
	phaseObserving              // follows the quorum without a vote
	phaseAside                  // a member that can write nothing, see aside.go
)

// Node is one controller: a member of the metadata quorum, or one that is to
// become a member and follows it meanwhile. New makes it, Start loads its disk
// and lets it run. All exported methods but Start and Subscribe may be called
// from any goroutine.
type Node struct {
	config Config
	dir    string
	logger *zap.Logger
	box    *loop.Box[message]

	image       atomic.Pointer[metadata.Image]
	description atomic.Pointer[Description]
	identity    atomic.Pointer[metadata.DirectoryID]
	subscribers []Subscriber
	stopped     chan struct{}
	// fullUntil: the disk had no room of late, and what is due is looked at again
	// then. Belongs to the loop.
	fullUntil model.Instant
	// refusedUntil: the library refused a proposal of late, and what is due by
	// itself is proposed again then.
	refusedUntil model.Instant
	// running is set once the loop may be entered from outside.
	running atomic.Bool

	// What follows belongs to the loop.

	phase   phase
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
	// lead is the raft id of the leader that was described last.
	lead uint64
	// queue are commands that were not yet computed; a group message is on its
	// way while grouping is set.
	queue    []*job
	grouping bool
	waiting  waiters
	// grown counts the bytes of the log since the newest snapshot; due asks for
	// one whatever its size.
	grown int64
	due   bool
	// failure is why the node stopped taking part, nil while it does.
	failure error
	closed  bool
	tickAt  model.Instant
	// told: Config.Started was called.
	told bool

	birth    *birth
	watch    *watcher
	reads    reads
	serving  serving
	fetching *download
	pending  *raftpb.Message // the MsgSnap that fetching is for
	failover failover
	change   *memberChange
	// strayAt is when the removal of a learner left behind was last proposed.
	strayAt model.Instant
	// soughtAt is when this node last knew a leader, or asked why it has none.
	soughtAt model.Instant
	// heardAt is when a leader last spoke to this node.
	heardAt model.Instant
	// progress of the other members as DescribeQuorum reports it; kept by the
	// leader.
	progress map[uint64]*replicaProgress
	// ring remembers the hashes of the last images.
	ring hashRing
}

// kind of a message.
type kind uint8

const (
	kindSubmit kind = iota
	kindGroup       // compute the waiting commands
	kindRaft        // from a peer
	kindStop
	kindBegin   // the disk was loaded
	kindPrivate // a private request
	kindProbed  // the answer to a probe
	kindPulled  // the answer to a pull of a snapshot
	kindWatched // the answer to a pull of an observing node
	kindRead    // somebody waits for a confirmed read
	kindAskRead // confirm those that wait
	kindLost    // the connection to a peer broke
	kindResign  // hand the leadership over
	kindTouch   // tell that this was reached
)

// message is what enters the loop.
type message struct {
	kind    kind
	job     *job
	raft    *raftpb.Message
	clean   bool
	begin   *beginning
	private *privateRequest
	answer  answer
	read    *read
	node    model.BrokerID
	refused bool
	done    func()
}

// answer is what an Ask came back with.
type answer struct {
	from model.BrokerID
	seq  uint64
	body []byte
	err  error
}

// New returns a node that has touched nothing yet.
func New(config Config) *Node {
	config.flushes = new(metrics.Histogram)
	if config.SegmentBytes <= 0 {
		config.SegmentBytes = defaultSegmentBytes
	}
	if config.SnapshotBytes <= 0 {
		config.SnapshotBytes = defaultSnapshotBytes
	}
	if config.HeartbeatInterval <= 0 {
		config.HeartbeatInterval = defaultHeartbeatInterval
	}
	if config.ElectionTimeout < 2*config.HeartbeatInterval {
		config.ElectionTimeout = max(defaultElectionTimeout, 2*config.HeartbeatInterval)
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
	n.failover.standAt = model.Never
	n.box = loop.NewBox[message](n, config.RT)
	n.image.Store(metadata.Empty())
	n.identity.Store(new(metadata.DirectoryID))
	n.description.Store(&Description{Leader: model.NoLeader, Epoch: model.NoEpoch})
	return n
}

// Subscribe adds a subscriber. Call it before Start. The first image it is told
// is the one that was loaded or fetched first.
func (n *Node) Subscribe(s Subscriber) { n.subscribers = append(n.subscribers, s) }

// Image returns the newest image; never nil.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// Identity returns the directory id and the cluster id that the node runs
// under, for meta.properties. Known once Config.Started was told nil. The
// directory id is another one than Config.DirectoryID if the node had to give up
// an earlier membership.
func (n *Node) Identity() (metadata.DirectoryID, string) {
	return *n.identity.Load(), n.Image().ClusterID()
}

// Submit hands a command to the active controller, if that is this node. The
// caller's goroutine does none of the work.
func (n *Node) Submit(cmd controller.Command, done Completion) {
	n.box.Post(message{kind: kindSubmit, job: &job{cmd: cmd, done: done}})
}

// Receive takes a message of the consensus library from a peer.
func (n *Node) Receive(m *raftpb.Message) { n.box.Post(message{kind: kindRaft, raft: m}) }

// Stop ends the node: commands that were not committed get ErrStopped. It
// returns once the log is closed. clean makes the log durable and stores its
// indexes first. A leader should Resign before.
func (n *Node) Stop(clean bool) {
	n.box.Enter(message{kind: kindStop, clean: clean})
	<-n.stopped
}

// tick is the unit of the library's time.
func (n *Node) tick() model.Instant {
	return model.Instant(n.config.HeartbeatInterval) / ticksPerHeartbeat
}

// electionTimeout is how long a voter that hears nothing waits at least.
func (n *Node) electionTimeout() model.Instant { return model.Instant(n.config.ElectionTimeout) }

// raftID is this node's number in the consensus library.
func (n *Node) raftID() uint64 { return metadata.RaftID(n.config.NodeID, n.id) }

// setID takes an identity.
func (n *Node) setID(id metadata.DirectoryID) {
	n.id = id
	n.identity.Store(&id)
}
