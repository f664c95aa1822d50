package quorum

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// TopicName is the name under which the metadata log is described, and with
// "-0" that of its directory. Source: KIP-595.
const TopicName = "__cluster_metadata"

// The errors that a Completion may get. In each case the response it gets as
// well carries the code for the client.
var (
	// ErrNotActive: this node is not the active controller, or ceased to be
	// before the command was committed; whether it takes effect is unknown in
	// the second case. Code NOT_CONTROLLER.
	ErrNotActive = errors.New("not the active controller")
	// ErrTimedOut: the deadline passed before the command was begun; it has no
	// effect. Code REQUEST_TIMED_OUT.
	ErrTimedOut = errors.New("deadline passed before the command was begun")
	// ErrUnserved: the request is none that the controller serves; there is no
	// response.
	ErrUnserved = errors.New("the controller does not serve this request")
	// ErrFull: the disk of the metadata log has no room; the command was not begun
	// and has no effect. Code KAFKA_STORAGE_ERROR.
	ErrFull = errors.New("the disk of the metadata log is full")
	// ErrStopped: the node was stopped. Code NOT_CONTROLLER.
	ErrStopped = errors.New("metadata node was stopped")
)

// Completion is told the outcome of a command: exactly once, after the loop was
// released, from any goroutine.
type Completion interface {
	// Done gets a response in every case but ErrUnserved. err is nil if the response is the
	// controller's own; then at is the offset of the image that contains the
	// command's effect, and the node's Image has reached it.
	Done(resp kmsg.Response, at model.OffsetAndEpoch, err error)
}

// Subscriber is told each new image with what changed. It is called on the
// node's loop, in the order of offsets, once for each: it must not block and
// must not call the node but for Image.
type Subscriber func(m *metadata.Image, d *metadata.Delta)

// Config is what a Node is made from.
type Config struct {
	FS vfs.FS
	// Dir is the metadata log directory (metadata.log.dir, or the first of
	// log.dirs); the node works in Dir/__cluster_metadata-0. It exists, and its
	// own entry is durable.
	Dir string
	// NodeID is node.id.
	NodeID model.BrokerID
	// DirectoryID is the directory.id of Dir from meta.properties, or one newly
	// chosen if the directory is new, or zero to have it chosen: see
	// Node.Identity.
	DirectoryID metadata.DirectoryID
	// ClusterID is the cluster id of meta.properties, or the one configured for
	// a cluster that does not exist yet, or "" to have one chosen.
	ClusterID string
	// Used says that meta.properties or any partition directory but that of the
	// metadata exists in any log directory. A used node is never bootstrapped.
	Used bool
	// Acted says, exclusively, up to which metadata offset the log directories have acted
	// on images; 0 if they have not or don't know. What a voter that is alone has shown
	// stood in its log, so that a log which ends below is damaged.
	Acted model.Offset
	// Voters are the listed members of a static quorum with the address of each
	// (Listeners); Directory is not read. Empty means this node alone, unless
	// Join is given. The list decides who bootstraps together and under which
	// addresses members are reached; who is a member stands in the metadata.
	Voters []metadata.Voter
	// Join are addresses of controllers of a quorum whose members change by
	// AddRaftVoter (controller.quorum.bootstrap.servers); Node is model.NoLeader
	// where only the address is known. A node that finds nothing on its disk
	// then follows that quorum without a vote until it is added. Not together
	// with Voters.
	Join []metadata.Voter
	// Listeners are this voter's own, kept in the voter set.
	Listeners []metadata.Listener
	// Features are finalized at bootstrap.
	Features []metadata.Feature
	// SegmentBytes of the metadata log and SnapshotBytes, the growth of the log
	// after which a snapshot is written; 0 is the default.
	SegmentBytes  int32
	SnapshotBytes int64
	// Controller decides what commands do while this node is active.
	Controller controller.Config
	// Recover lists the topics whose partition.metadata was found in the log
	// directories; asked only when the metadata of a single voter is damaged or
	// gone. Nil forbids recovery: Start fails instead.
	Recover func() []RecoveredTopic
	// Recovered, if not nil, is told what a recovery did.
	Recovered func(Receipt)
	// Failed, if not nil, is told once that the node can't go on, because its
	// disk failed or its log makes no sense. It is called on the node's loop.
	Failed func(error)
	// Started, if not nil, is told once how Start ended: nil when the image holds
	// all that was committed before (so no image is older than one that this
	// node has acted on), or why the node can't be a member. A single voter is
	// told before Start returns. It is called outside every loop.
	Started func(error)
	// SpareRoom, if not nil, is asked to free some of what the node has set aside on
	// the disk, for a command that makes room; it reports whether it did. It is called
	// on the node's loop.
	SpareRoom func() bool
	// Peers carries messages to other voters; nil for a quorum of one.
	Peers Peers
	// Ask asks other controllers; nil for a quorum of one.
	Ask Ask
	// Probe, if not nil, is called for every unfenced broker when this node
	// becomes the active controller, outside every loop: whoever refuses
	// connections need not be waited for.
	Probe func(broker model.BrokerID)
	// ElectionTimeout and HeartbeatInterval of the quorum; 0 is 500 ms and
	// 100 ms. A voter that hears nothing from the leader stands for election
	// after one to two election timeouts.
	ElectionTimeout   time.Duration
	HeartbeatInterval time.Duration
	// RT runs the loop.
	RT     loop.Runtime
	Logger *zap.Logger
	Rand   *rand.Rand

	flushes *metrics.Histogram // of the metadata log; New makes it
}

// used reports whether the node has a past.
func (c *Config) used() bool { return c.Used && !mutant.On("ctl-wiped-votes") }

// Peers sends the consensus library's messages. It may drop, repeat and reorder
// them; it must not block. It is called on the node's loop.
type Peers interface {
	// Send carries the body of a private request of key KeyRaft to a voter; the
	// answer says nothing. Of to, Node is set and Listeners hold its controller
	// address.
	Send(to metadata.Voter, body []byte)
}

// Ask sends a private request to a controller and tells done its answer, exactly
// once, outside every loop and never from within the call. to holds at least an
// address; its Node is model.NoLeader where the id is not known. An answer may
// take PullWaitMax longer than the way. It is called on the node's loop.
type Ask func(to metadata.Voter, key int16, body []byte, done func(body []byte, err error))

// The keys of the private APIs of this package. Bytes: docs/formats/private.md.
const (
	// KeyRaft carries one message of the consensus library, one way.
	KeyRaft int16 = 20000
	// KeyPull fetches committed entries, or a piece of a snapshot.
	KeyPull int16 = 20001
	// KeyProbe asks a voter what stands on its disk, before there is a quorum.
	KeyProbe int16 = 20002
)

// PullWaitMax is how long a controller holds a pull that has nothing to tell.
const PullWaitMax = 500 * time.Millisecond

// RecoveredTopic is a topic as its directories on disk tell it.
type RecoveredTopic struct {
	Name       string
	ID         model.TopicID
	Partitions []int32 // numbers that have a directory, rising
	// LeaderEpochs, parallel to Partitions, are the highest that the log or the
	// epoch file of each holds. Nil counts as 0; new leaders then begin in an
	// epoch that the partition's log may already know.
	LeaderEpochs []model.LeaderEpoch
	// Configs are settings that the topic gets if the metadata don't know it.
	Configs map[string]string
}

// epoch returns the highest leader epoch known of the i-th partition.
func (t *RecoveredTopic) epoch(i int) model.LeaderEpoch {
	if i < len(t.LeaderEpochs) {
		return max(0, t.LeaderEpochs[i])
	}
	return 0
}
