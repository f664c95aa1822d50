package controller

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Controller makes the decisions of the active controller. It belongs to the
// loop of its node.
type Controller struct {
	config Config
	// image is the committed state; only Load and Replay move it.
	image *metadata.Image
	// active: this node leads the quorum and has applied an entry of its term.
	active bool
	// sessions of the brokers that were heard since activation. Soft state: a
	// new active controller starts them anew.
	sessions map[model.BrokerID]*session
	// awaited are partitions whose last known members are waited for.
	awaited awaited
	// staleELR: there are eligible leaders that a lower minimum has made void.
	staleELR bool
	// unpinned: the cluster has no minimum of its own yet.
	unpinned bool
	// rebalanceAt is when leaders that are not where they should be, and
	// partitions without one, are looked at next.
	rebalanceAt model.Instant
	counters    Counters
	// lastRun is when the controller last looked at the clock, see Wake.
	lastRun model.Instant
}

// New returns a controller with an empty image that is not active.
func New(config Config) *Controller {
	return &Controller{config: config, image: metadata.Empty(), sessions: map[model.BrokerID]*session{}}
}

// Image returns the committed image.
func (c *Controller) Image() *metadata.Image { return c.image }

// Load replaces the image by one that was read from disk or from a leader.
func (c *Controller) Load(m *metadata.Image) { c.image = m }

// Active reports whether commands may be handled.
func (c *Controller) Active() bool { return c.active }

// Activate makes this the active controller. Every unfenced broker gets a full
// session: what was heard by the predecessor is not known here.
func (c *Controller) Activate(now model.Now) {
	c.active, c.lastRun = true, now.Mono
	c.rebalanceAt = now.Mono + model.Instant(c.config.RebalanceInterval)
	clear(c.sessions)
	for _, b := range c.image.Brokers() {
		c.session(now, b)
	}
	c.awaited, c.staleELR = awaited{}, false
	_, pinned := c.image.Config(metadata.BrokerResource, "")[keyMinISR]
	c.unpinned = c.config.PinMinISR && !pinned
	s := c.settings(c.image)
	for t := range c.image.Topics() {
		for n, p := range t.Partitions {
			c.awaited.follow(now, model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}, p)
			c.staleELR = c.staleELR || c.needless(s, t, p)
		}
	}
}

// needless reports whether p has eligible leaders beside enough members: this
// controller was started with a lower min.insync.replicas than the one that chose
// them, and what is committed now they may lack.
func (c *Controller) needless(s *settings, t *metadata.Topic, p *metadata.PartitionRegistration) bool {
	return len(p.ELR) > 0 && len(p.ISR) >= min(s.of(t).MinISR, len(p.Replicas))
}

// Deactivate ends the activity; the soft state is dropped.
func (c *Controller) Deactivate() {
	c.active, c.awaited = false, awaited{}
	clear(c.sessions)
}

// Replay applies committed entries and returns what changed. It is the only place
// where the image moves by records. An error means that the log does not fit the
// image; the image is then unchanged and the node must not go on.
func (c *Controller) Replay(now model.Now, entries []metadata.Committed) (*metadata.Delta, error) {
	e := metadata.NewEdit(c.image)
	for _, entry := range entries {
		if err := e.Apply(entry.At, entry.Records); err != nil {
			return nil, err
		}
	}
	next, delta := e.Done()
	c.count(next, delta)
	if c.image.Offline()+c.image.Imbalanced() == 0 {
		c.rebalanceAt = now.Mono + model.Instant(c.config.RebalanceInterval)
	}
	c.image = next
	if c.active {
		c.replaySessions(now, next.At(), delta)
		c.replayPartitions(now, delta)
	}
	return delta, nil
}

// Handle computes what a command does to view and what is answered. view is the
// committed image, or that image with the records of the commands that were
// handled before this one and go into the log with it. Nothing that the cluster
// agrees on is touched.
func (c *Controller) Handle(now model.Now, view *metadata.Image, cmd Command) Result {
	if cmd.Deadline != 0 && cmd.Deadline != model.Never && cmd.Deadline <= now.Mono {
		return Result{reply: ErrorReply(cmd.Request, codeRequestTimedOut, "the deadline passed before the controller began")}
	}
	r := c.dispatch(now, view, cmd)
	if why := tooLarge(r.Units); why != "" {
		if userCommand(cmd.Request) {
			return Result{reply: ErrorReply(cmd.Request, codePolicyViolation, why)}
		}
	}
	return r
}

func (c *Controller) dispatch(now model.Now, view *metadata.Image, cmd Command) Result {
	switch req := cmd.Request.(type) {
	case *kmsg.CreateTopicsRequest:
		return c.createTopics(view, req)
	case *kmsg.DeleteTopicsRequest:
		return c.deleteTopics(view, req)
	case *kmsg.CreatePartitionsRequest:
		return c.createPartitions(view, req)
	case *kmsg.AlterConfigsRequest:
		return c.alterConfigs(view, req)
	case *kmsg.IncrementalAlterConfigsRequest:
		return c.incrementalAlterConfigs(view, req)
	case *kmsg.AlterClientQuotasRequest:
		return c.alterClientQuotas(view, req)
	case *kmsg.ElectLeadersRequest:
		return c.electLeaders(view, req)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return c.alterAssignments(view, req)
	case *kmsg.AlterPartitionRequest:
		return c.alterPartition(view, req)
	case *kmsg.UpdateFeaturesRequest:
		return c.updateFeatures(view, req)
	case *kmsg.BrokerRegistrationRequest:
		return c.registerBroker(view, req, cmd.Registration)
	case *kmsg.BrokerHeartbeatRequest:
		return c.heartbeat(now, view, req)
	case *kmsg.UnregisterBrokerRequest:
		return c.unregisterBroker(view, req)
	case *kmsg.AllocateProducerIDsRequest:
		return c.allocateProducerIDs(view, req)
	case nil:
		return c.clusterCommand(view, cmd)
	}
	return Result{reply: ErrorReply(cmd.Request, codeUnsupportedVersion, "the controller does not serve this request")}
}

// userCommand reports whether req comes from an administrator and may be
// refused for its size; the cluster's own must go through.
func userCommand(req kmsg.Request) bool {
	switch req.(type) {
	case nil, *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.AllocateProducerIDsRequest,
		*kmsg.AlterPartitionRequest, *kmsg.UnregisterBrokerRequest:
		return false
	}
	return true
}
