package broker

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker/inspect"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// offsetsTopic keeps the groups: each group's home is one of its partitions.
const offsetsTopic = "__consumer_offsets"

// groups is this broker's part in coordinating groups: a rider on each partition
// of offsetsTopic that is here.
type groups struct {
	b      *Broker
	cfg    group.Config
	counts groupCounts
	closed atomic.Bool

	// topics are what members of consumer groups may subscribe to.
	topics atomic.Pointer[groupTopics]

	mu     sync.Mutex
	draws  *rand.Rand
	riders map[*host.Hosted]*groupRider
	warned bool // that the groups have one replica in a cluster of several
}

// groupCounts are the sums over the machines of this broker.
type groupCounts struct {
	groups                           [group.Dead]atomic.Int64
	offsets                          atomic.Int64
	rebalances, generations, evicted atomic.Int64
	commits, expired, unreadable     atomic.Int64
	loads, reloads, loadedRecords    atomic.Int64
}

// read returns the sums.
func (c *groupCounts) read() inspect.GroupCounts {
	return inspect.GroupCounts{
		Empty: c.groups[group.Empty].Load(), Preparing: c.groups[group.PreparingRebalance].Load(),
		Completing: c.groups[group.CompletingRebalance].Load(), Stable: c.groups[group.Stable].Load(),
		Offsets:    c.offsets.Load(),
		Rebalances: c.rebalances.Load(), Generations: c.generations.Load(), Evicted: c.evicted.Load(),
		Commits: c.commits.Load(), Expired: c.expired.Load(), Unreadable: c.unreadable.Load(),
		Loads: c.loads.Load(), Reloads: c.reloads.Load(), LoadedRecords: c.loadedRecords.Load(),
	}
}

func newGroups(b *Broker) *groups {
	s := &b.config.Groups
	g := &groups{
		b: b, draws: b.newRand(), riders: make(map[*host.Hosted]*groupRider),
		cfg: group.Config{
			SessionMin: model.Instant(s.SessionMin), SessionMax: model.Instant(s.SessionMax),
			InitialDelay: model.Instant(s.InitialRebalanceDelay), SizeMax: int(s.SizeMax),
			MetadataMax: int(s.MetadataBytesMax), RetentionMs: int64(s.OffsetsRetentionMinutes) * 60_000,
			CheckEvery: model.Instant(s.OffsetsCheckInterval), CommitTimeout: model.Instant(s.CommitTimeout),
			ConsumerSession: model.Instant(s.ConsumerSession), ConsumerHeartbeat: model.Instant(s.ConsumerHeartbeat), ConsumerSizeMax: int(s.ConsumerSizeMax),
			Migration: migrationOf(s.Migration),
		},
	}
	g.topics.Store(&groupTopics{img: metadata.Empty()})
	g.cfg.Settings = g.settings
	g.cfg.Topics = func() consumer.Topics { return g.topics.Load() }
	return g
}

// settings are the session timeout and the heartbeat interval in a group.
func (g *groups) settings(name string) (session, heartbeat model.Instant) {
	own := g.b.quorum.Image().Config(metadata.GroupResource, name)
	if len(own) == 0 {
		return g.cfg.ConsumerSession, g.cfg.ConsumerHeartbeat
	}
	c := g.b.config.Group(own)
	return model.Instant(c.Session), model.Instant(c.Heartbeat)
}

// migrationOf reads group.consumer.migration.policy.
func migrationOf(policy string) group.Migration {
	both := strings.EqualFold(policy, "bidirectional")
	return group.Migration{Upgrade: both || strings.EqualFold(policy, "upgrade"), Downgrade: both || strings.EqualFold(policy, "downgrade")}
}

// newRand returns a source of chance of its own: member ids come from it.
func (g *groups) newRand() *rand.Rand {
	g.mu.Lock()
	defer g.mu.Unlock()
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(g.draws.Uint32())
	}
	return rand.New(rand.NewChaCha8(seed))
}

// applied follows an image that is in force: partitions that are new here get
// their riders, and the offsets of topics that are gone are dropped.
func (g *groups) applied(img *metadata.Image, d *metadata.Delta) {
	g.topics.Store(g.topics.Load().next(img, d))
	if t := img.Topic(offsetsTopic); t != nil {
		g.ride(t)
		g.warn(img, t)
	}
	if d == nil || d.Snapshot {
		return
	}
	var gone []string
	for i := range d.Topics {
		if d.Topics[i].New == nil && d.Topics[i].Old != nil {
			gone = append(gone, d.Topics[i].Old.Name)
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, h := range g.led() {
		g.drop(h, gone)
	}
}

// ride attaches a rider to each partition of the topic that has none.
func (g *groups) ride(t *metadata.Topic) {
	for n := range t.Partitions {
		h := g.b.replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)})
		if h == nil {
			continue
		}
		g.mu.Lock()
		r := g.riders[h]
		if r == nil {
			r = newGroupRider(g, h)
			g.riders[h] = r
		} else {
			r = nil
		}
		g.mu.Unlock()
		if r != nil {
			h.Attach(r)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.riders { // order-free: each is looked at alone
		if g.b.replicas.GetByID(h.ID()) != h {
			delete(g.riders, h)
		}
	}
}

// warn tells once that groups would be lost with one broker.
func (g *groups) warn(img *metadata.Image, t *metadata.Topic) {
	if !g.b.config.Groups.Alone || g.warned || len(img.Brokers()) < 2 || len(t.Partitions) == 0 || len(t.Partitions[0].Replicas) != 1 {
		return
	}
	g.warned = true
	g.b.logger.Warn("consumer groups have one replica, though there are several brokers now: with the broker that has it they are lost; reassign the partitions of "+offsetsTopic+" to more brokers",
		zap.Int("brokers", len(img.Brokers())))
}

// led lists the partitions of the topic whose leader this broker is.
func (g *groups) led() []*host.Hosted {
	t := g.b.quorum.Image().Topic(offsetsTopic)
	if t == nil {
		return nil
	}
	var all []*host.Hosted
	for n := range t.Partitions {
		h := g.b.replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)})
		if h != nil && t.Partitions[n].Leader == g.b.config.NodeID {
			all = append(all, h)
		}
	}
	return all
}

// homeOf returns the partition that is a group's home. Source: Kafka hashes the
// name as Java does a string, and takes the hash's absolute value, 0 for the one
// that has none.
func homeOf(name string, partitions int) int32 {
	var h int32
	for _, r := range name {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			h = 31*(31*h+high) + low
		} else {
			h = 31*h + r
		}
	}
	switch {
	case h == -1<<31:
		h = 0
	case h < 0:
		h = -h
	}
	return h % int32(partitions)
}

// coordinatorOf finds the broker that coordinates a group. Its topic is created
// if there is none.
func (g *groups) coordinatorOf(listener, name string) (protocol.NodeEndpoint, protocol.Code) {
	img := g.b.quorum.Image()
	t := img.Topic(offsetsTopic)
	if t == nil {
		g.b.creator.create(offsetsTopic, nobody{})
		return protocol.NodeEndpoint{}, protocol.CodeCoordinatorNotAvailable
	}
	reg := t.Partition(homeOf(name, len(t.Partitions)))
	if reg == nil || reg.Leader == model.NoLeader {
		return protocol.NodeEndpoint{}, protocol.CodeCoordinatorNotAvailable
	}
	if g.lost(g.b.replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: homeOf(name, len(t.Partitions))})) {
		return protocol.NodeEndpoint{}, protocol.CodeCoordinatorNotAvailable
	}
	for _, e := range g.b.endpoints(listener) {
		if e.ID == reg.Leader {
			return e, protocol.CodeNone
		}
	}
	return protocol.NodeEndpoint{}, protocol.CodeCoordinatorNotAvailable
}

// nobody waits for a topic without wanting to know.
type nobody struct{}

func (nobody) created() {}

// call hands a request about one group to its coordinator here. done is called
// once, on any goroutine.
func (g *groups) call(r *server.Request, name string, request any, done answeredFunc) {
	c := &groupCall{Call: coordinator.Call{
		Key: name, Version: r.Header.Version, ClientID: r.Header.ClientID, ClientHost: clientHost(r.RemoteAddr),
		Request: request, Waiter: done,
	}}
	t := g.b.quorum.Image().Topic(offsetsTopic)
	if t == nil || len(t.Partitions) == 0 {
		c.refuse(g.elsewhere())
		return
	}
	h := g.b.replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: homeOf(name, len(t.Partitions))})
	g.send(h, c)
}

// elsewhere is the code for a group whose home is not here.
func (g *groups) elsewhere() protocol.Code {
	if g.closed.Load() {
		return protocol.CodeCoordinatorNotAvailable
	}
	return protocol.CodeNotCoordinator
}

// lost reports whether a partition is led here, as far as the metadata goes, and has
// no log, or a damaged one: what can still be read of that is not all that its groups
// were, so that nobody coordinates them until it is whole, or led by another.
func (g *groups) lost(h *host.Hosted) bool {
	if h == nil {
		return false
	}
	s := h.State()
	return s.Role == partition.Offline && s.Code == protocol.CodeKafkaStorageError && s.Leader == g.b.config.NodeID
}

// send hands a call to a partition.
func (g *groups) send(h *host.Hosted, c *groupCall) {
	switch {
	case h == nil, g.closed.Load():
		c.refuse(g.elsewhere())
	case g.lost(h), !h.Command(c):
		c.refuse(protocol.CodeCoordinatorNotAvailable)
	}
}

// clientHost is how Kafka shows where a member is.
func clientHost(addr string) string {
	for i := len(addr) - 1; i >= 0; i-- {
		if addr[i] == ':' {
			return "/" + addr[:i]
		}
	}
	return "/" + addr
}

// close answers every request that waits, and takes no more: the node stops.
func (g *groups) close() {
	if g == nil || g.closed.Swap(true) {
		return
	}
	g.mu.Lock()
	riders := make([]*host.Hosted, 0, len(g.riders))
	for h := range g.riders { // order-free: each is closed alone
		riders = append(riders, h)
	}
	g.mu.Unlock()
	for _, h := range riders {
		h.Command(groupClose{})
	}
}

// groupClose ends a rider's service.
type groupClose struct{}

// Dropped implements host.Command.
func (groupClose) Dropped(*host.Turn) {}

// answeredFunc is told a call's answer.
type answeredFunc func(c *coordinator.Call)

// Answered implements coordinator.Waiter.
func (f answeredFunc) Answered(c *coordinator.Call) { f(c) }

// groupCall is a call on its way: the message for the partition's loop and the
// delivery of the answer in one object.
type groupCall struct {
	coordinator.Call
	refused bool
}

// Dropped implements host.Command: nobody rides there, or not any more.
func (c *groupCall) Dropped(t *host.Turn) {
	if !c.Answered() && !c.refused {
		c.refused, c.Code, c.Response = true, protocol.CodeNotCoordinator, nil
		t.Add(c)
	}
}

// refuse answers a call that was handed to nobody.
func (c *groupCall) refuse(code protocol.Code) {
	c.Code = code
	c.Deliver(model.Now{})
}

// Deliver implements loop.Delivery.
func (c *groupCall) Deliver(model.Now) {
	if c.Waiter != nil {
		c.Waiter.Answered(&c.Call)
	}
}

// offsetsTopicConfigs is what the topic is created with.
func (b *Broker) offsetsTopicConfigs() [][2]string {
	return [][2]string{
		{"cleanup.policy", "compact"},
		{"compression.type", "producer"},
		{"segment.bytes", strconv.Itoa(int(b.config.Groups.TopicSegmentBytes))},
	}
}
