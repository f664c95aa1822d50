package broker

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker/inspect"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
	"github.com/tidemark/tidemark/protocol/transport"
)

// Config is what a Broker is made of. The zero value is a broker with default
// settings that says nothing.
type Config struct {
	// Settings are the broker's; nil is the defaults.
	Settings *config.Broker
	// Set are settings KEY=VALUE by the names of Kafka's server.properties, for
	// those who can't make Settings; read when Settings is nil.
	Set []string
	// FS replaces the disk, as with InMemory; nil is the machine's. A World has
	// one of its own.
	FS vfs.FS
	// Logger gets events; nil drops them.
	Logger *zap.Logger
	// World replaces the clock, the disk and chance; nil is the real ones.
	World *World
}

// World is everything that a node needs of the world around it. The simulator
// brings one of its own.
type World struct {
	RT loop.Runtime
	// Net opens connections to other nodes; nil is TCP if there is a Group, and
	// no other nodes if there is none.
	Net      transport.Dialer
	FS       vfs.FS
	Rand     *rand.Rand
	Machine  host.Machine
	Executor host.Executor
	Flusher  func(dir string) host.Flusher
	// Topic, if not nil, changes the settings in force of each topic, to values
	// that configuration does not allow, such as segments of a few hundred bytes.
	Topic func(*config.Topic)
	// Images, if not nil, is told of each image as the node takes it over; see
	// quorum.Subscriber.
	Images func(*metadata.Image, *metadata.Delta)
	// Group runs what takes goroutines; nil does without any.
	Group *lifecycle.Group
}

// Broker is one node of a cluster: a broker, a controller, or both in one process.
// Start and Stop are called once each, in this order; every other method from any
// goroutine.
type Broker struct {
	config       *config.Broker
	logger       *zap.Logger
	rt           loop.Runtime
	fs           vfs.FS
	rand         *rand.Rand
	world        World
	clock        *realtime.Runtime // nil in a simulated world
	defaultTopic *config.Topic
	incarnation  metadata.Incarnation

	dirs        *host.Dirs
	replicas    *host.ReplicaManager // nil on a node that is no broker
	sessions    *host.FetchSessionCache
	quorum      metadataView
	voter       *quorum.Node // nil on a node without a vote
	publisher   *publisher
	beginning   *beginning
	peers       *peers
	controller  *controllerChannel
	alters      *alterSender
	prober      *prober
	membership  *membership // nil on a node that is no broker
	creator     *autoCreator
	producerIDs *producerIDs
	groups      *groups          // nil on a node that is no broker
	telemetry   *clientTelemetry // nil on a node that is no broker
	produces    produces
	fetches     fetches
	parked      parkedFetches
	topics      topicConfigs

	listening   []bound
	advertised  []metadata.Listener
	server      *server.Server
	brokerEpoch atomic.Int64
	halting     atomic.Bool
	reserve     reserve
	hangUp      context.CancelFunc // ends connections to other nodes; nil if the world has them
	pages       pages

	failOnce sync.Once
	failed   chan struct{}
	failure  error
}

// New checks the configuration and returns a broker that has touched nothing.
func New(c Config) (*Broker, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	b := &Broker{config: settings, logger: c.Logger, failed: make(chan struct{})}
	b.pages.node = inspect.New(Version(), b.Failure)
	if b.logger == nil {
		b.logger = zap.NewNop()
	}
	topic, err := b.config.Topic(nil, nil)
	if err != nil {
		return nil, err
	}
	b.defaultTopic = &topic
	b.brokerEpoch.Store(int64(model.NoBrokerEpoch))
	if c.World != nil {
		b.world = *c.World
	} else {
		b.realWorld(c.FS)
	}
	b.rt, b.fs, b.rand = b.world.RT, b.world.FS, b.world.Rand
	binary.BigEndian.PutUint64(b.incarnation[:8], b.rand.Uint64())
	binary.BigEndian.PutUint64(b.incarnation[8:], b.rand.Uint64())
	return b, nil
}

func (b *Broker) realWorld(disk vfs.FS) {
	if disk == nil {
		disk = osfs.New()
	}
	var seed [16]byte
	crand.Read(seed[:]) // never fails
	group := new(lifecycle.Group)
	b.clock = realtime.New(group)
	b.world = World{
		RT: b.clock, FS: disk, Group: group, Machine: host.ThisMachine(),
		Rand: rand.New(rand.NewPCG(binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:]))),
	}
}

// Start opens the data directories, becomes a member of the cluster and serves
// clients. When it returns without an error, clients can produce and fetch.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.listen(ctx); err != nil {
		return err
	}
	if b.world.Net == nil && b.world.Group != nil {
		var live context.Context
		live, b.hangUp = context.WithCancel(context.WithoutCancel(ctx))
		b.world.Net = transport.TCP(live, b.world.Group, transport.SocketOptions{
			ReceiveBuffer: int(b.config.Replication.ReceiveBufferBytes),
		})
	}
	if err := b.openPages(ctx); err != nil {
		return errors.Join(err, b.Stop(ctx))
	}
	b.reserve.b = b
	if b.config.Roles.Controller {
		b.reserve.spend()
	}
	ready := make(chan error, 1)
	if err := b.Boot(func(err error) { ready <- err }); err != nil {
		return errors.Join(err, b.Stop(ctx))
	}
	select {
	case err := <-ready:
		if err != nil {
			return errors.Join(err, b.Stop(ctx))
		}
	case <-b.failed:
		return b.Stop(ctx) // says why
	case <-ctx.Done():
		return errors.Join(ctx.Err(), b.Stop(context.WithoutCancel(ctx)))
	}
	if b.config.Roles.Controller {
		b.reserve.keep()
	}
	b.serve(false)
	return nil
}

// ClusterID returns the cluster's id, "" before Start.
func (b *Broker) ClusterID() string {
	if b.quorum == nil {
		return ""
	}
	return b.quorum.Image().ClusterID()
}

// Failed is closed when the node can't go on; Stop then returns why.
func (b *Broker) Failed() <-chan struct{} { return b.failed }

// Failure returns why the node can't go on, nil unless Failed is closed.
func (b *Broker) Failure() error {
	select {
	case <-b.failed:
		return b.failure
	default:
		return nil
	}
}

// fail ends the node: what happened leaves it nothing to do.
func (b *Broker) fail(err error) {
	b.failOnce.Do(func() {
		b.failure = err
		b.logger.Error("this node cannot go on", zap.Error(err))
		close(b.failed)
	})
}

// drainMax bounds how long a stop waits for clients to read their answers: less
// than what supervisors give a process between SIGTERM and SIGKILL.
const drainMax = 4 * time.Second

// drain has the connections finished and closed. Clients that don't read in time
// are cut off, which is no failure of the stop.
func (b *Broker) drain(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, drainMax)
	defer cancel()
	err := b.server.Shutdown(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		b.logger.Warn("connections were closed before their clients had read all answers", zap.Duration("after", drainMax))
		return nil
	}
	return err
}

// Stop ends the broker in order: it hands over what it leads, stops accepting,
// finishes what is in flight, flushes, and leaves the mark of a clean stop. If
// ctx ends first, the next start recovers. It returns why the node failed, if it
// did.
func (b *Broker) Stop(ctx context.Context) error {
	var err error
	b.pages.node.Stopping()
	if b.quorum != nil && b.Failure() == nil {
		left := make(chan struct{})
		b.Leave(func() { close(left) })
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
	if b.server != nil {
		b.parked.close()
		b.groups.close()
		err = b.drain(ctx)
	}
	for i := range b.listening {
		if l := &b.listening[i]; !l.served {
			_ = l.close() // nobody was let in yet
		}
	}
	err = errors.Join(err, b.Halt(true), b.closePages(ctx))
	if b.hangUp != nil {
		b.hangUp()
	}
	if b.clock != nil {
		b.clock.Stop()
	}
	select {
	case <-b.failed:
		return errors.Join(b.failure, err)
	default:
		return err
	}
}
