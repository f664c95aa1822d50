package broker

import (
	"math/rand/v2"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// metadataFeature is the feature whose level says which metadata records the
// cluster may write.
const metadataFeature = "tidemark.version"

// groupFeature is the feature that has coordinators assign (KIP-848).
const groupFeature = "group.version"

// Boot opens the disk and joins the cluster: Start's part that the simulator runs
// too. The controller's listeners are served when it returns; done is called
// once, from any goroutine, when clients can be served or the node can't be a
// member. An error means that the disk could not be opened, and done is not
// called.
func (b *Broker) Boot(done func(error)) error {
	if b.advertised == nil {
		b.advertise()
	}
	var err error
	b.dirs, err = host.OpenDirs(host.DirOptions{
		FS: b.fs, Paths: b.config.LogDirs, NodeID: b.config.NodeID, ClusterID: b.config.ClusterID,
		Machine: b.world.Machine, Rand: b.newRand(), Logger: b.logger, Kept: b.newKeeper(),
	})
	if err != nil {
		return err
	}
	b.beginning = &beginning{b: b, done: done}
	b.build()
	b.serve(true) // other voters ask before there is a quorum
	if err := b.startQuorum(); err != nil {
		return err
	}
	return b.beginning.proceed()
}

// beginning takes the start on once the quorum has: it may take the quorum a
// while, or no time at all.
type beginning struct {
	b    *Broker
	done func(error)

	mu       sync.Mutex
	returned bool // startQuorum has
	told     bool // by the quorum, err
	err      error
	halted   bool
}

// started is told how the quorum started.
func (s *beginning) started(err error) {
	s.mu.Lock()
	s.told, s.err = true, err
	later := s.returned
	s.mu.Unlock()
	if later {
		s.b.rt.Spare(s)
	}
}

// proceed goes on at once if the quorum is there already.
func (s *beginning) proceed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = true
	if !s.told {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	return s.b.begin(s.done)
}

// Deliver implements loop.Delivery: it goes on later, where it may wait for the
// disk.
func (s *beginning) Deliver(model.Now) {
	s.mu.Lock()
	err := s.err
	if err == nil && !s.halted {
		err = s.b.begin(s.done)
	}
	halted := s.halted
	s.mu.Unlock()
	if err != nil && !halted {
		s.done(err)
	}
}

// halt waits for a start under way; none goes on afterwards.
func (s *beginning) halt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = true
}

// begin opens what the image gives this node and registers it. The image is not
// older than any that this node has acted on.
func (b *Broker) begin(done func(error)) error {
	img := b.quorum.Image()
	if err := b.dirs.Claim(img.ClusterID()); err != nil {
		return err
	}
	b.compareMinISR(img)
	if b.membership == nil {
		b.publisher.start(img.At().Offset)
		done(nil)
		return nil
	}
	sum, err := b.replicas.Load(img)
	if err != nil {
		return err
	}
	b.logger.Info("partitions loaded", zap.Int("loaded", sum.Loaded), zap.Int("created", sum.Created),
		zap.Int("offline", sum.Offline), zap.Int("stray", sum.Stray))
	b.groups.applied(img, nil)
	b.telemetry.applied(img, nil)
	b.tune(img)
	b.publisher.start(img.At().Offset)
	b.membership.join(b.registrationFacts(), func(err error) {
		if err != nil {
			done(err)
			return
		}
		b.publisher.await(b.quorum.Image().At().Offset, &booted{done})
	})
	return nil
}

// compareMinISR warns of a min.insync.replicas that is in the configuration file
// and not in force.
func (b *Broker) compareMinISR(img *metadata.Image) {
	const key = "min.insync.replicas"
	own, set := b.config.Configured(key)
	if cluster, ok := img.Config(metadata.BrokerResource, "")[key]; ok && set && own != cluster {
		b.logger.Warn("min.insync.replicas of the configuration is not in force: the cluster's is, which kafka-configs alters",
			zap.String("configured", own), zap.String("in_force", cluster))
	}
}

// booted tells that the image in which this broker is unfenced is in force.
type booted struct{ done func(error) }

// Deliver implements loop.Delivery.
func (d *booted) Deliver(model.Now) { d.done(nil) }

// build makes the parts that need the opened directories.
func (b *Broker) build() {
	b.topics.broker, b.topics.adjust = b.config, b.world.Topic
	b.peers = &peers{b: b, rand: b.newRand()}
	b.controller = &controllerChannel{b: b}
	b.prober = newProber(b)
	b.server = b.newServer()
	apply := func(*metadata.Image, *metadata.Delta) {}
	if b.config.Roles.Broker {
		b.buildBroker()
		apply = func(img *metadata.Image, d *metadata.Delta) {
			b.replicas.Apply(img, d)
			b.groups.applied(img, d)
			b.telemetry.applied(img, d)
			b.tune(img)
			b.membership.applied(img, d)
		}
	}
	b.publisher = newPublisher(b.rt, apply)
	b.buildQuorum()
	b.show()
}

// buildBroker makes the parts that only brokers have.
func (b *Broker) buildBroker() {
	b.alters = newAlterSender(b)
	deps := host.Deps{
		RT: b.rt, FS: b.fs, Dirs: b.dirs, Self: b.config.NodeID, Broker: b.config, Topic: b.topics.of,
		Logger: b.logger, Rand: b.newRand(), Group: b.world.Group, Executor: b.world.Executor, Flusher: b.world.Flusher,
		Alter: b.alters, Trouble: func() { b.membership.trouble() },
		Serial: func(run func()) { b.publisher.serial(run) }, SpareRoom: b.reserve.give,
	}
	if b.world.Net != nil {
		deps.Leaders = leaders{b}
	}
	b.replicas = host.NewReplicaManager(deps)
	b.sessions = host.NewFetchSessionCache(int(b.config.Server.FetchSessionsMax), b.newRand())
	b.creator = newAutoCreator(b)
	b.producerIDs = &producerIDs{b: b}
	b.groups = newGroups(b)
	b.telemetry = newClientTelemetry(b)
	b.membership = newMembership(b)
}

// newKeeper returns what keeps the bytes that leave the logs.
func (b *Broker) newKeeper() *host.Keeper {
	return host.NewKeeper(receipt.New(receipt.Options{
		FS: b.fs, Dir: b.config.KeptDir, Node: b.config.NodeID,
		BytesMax: b.config.Own.KeptBytesMax, RetentionMs: b.config.Own.KeptRetention.Milliseconds(),
	}), b.rt, b.logger)
}

// newRand returns a source of chance of its own: each part runs on a goroutine
// of its own and a source has no lock. Called while one goroutine builds.
func (b *Broker) newRand() *rand.Rand { return rand.New(rand.NewPCG(b.rand.Uint64(), b.rand.Uint64())) }

// metadataDir returns the log directory that the metadata log is in; with a
// metadata.log.dir of its own, the first one.
func (b *Broker) metadataDir() *host.Dir {
	for _, d := range b.dirs.All() {
		if d.Path() == b.config.MetadataDir {
			return d
		}
	}
	return b.dirs.All()[0]
}

func (b *Broker) controllerConfig() controller.Config {
	c := controller.Defaults()
	c.NumPartitions = b.config.Topics.NumPartitions
	c.ReplicationFactor = int16(b.config.Topics.DefaultReplicationFactor)
	c.SessionTimeout = b.config.Quorum.BrokerSessionTimeout
	c.HeartbeatInterval = b.config.Quorum.BrokerHeartbeatInterval
	c.LeaderRebalance, c.RebalanceInterval = b.config.Quorum.LeaderRebalance, b.config.Quorum.LeaderRebalanceInterval
	c.RecoveryWait, c.Features = b.config.Own.RecoveryWait, supportedFeatures
	c.PinMinISR = true
	c.Rules, c.Rand = controller.NewConfigRules(b.config), b.newRand()
	return c
}

// registrationFacts is what the controller is told of this node's disk.
func (b *Broker) registrationFacts() controller.RegistrationFacts {
	facts := controller.RegistrationFacts{}
	switch b.dirs.Report().Stop {
	case log.StopClean:
		facts.Stop = metadata.StopClean
	case log.StopProcess:
		facts.Stop = metadata.StopProcess
	default:
		facts.Stop = metadata.StopPower
	}
	var remnants []controller.ReplicaEnd
	for _, f := range b.replicas.FailedReplicas() {
		facts.Damaged = append(facts.Damaged, f.ID)
		if f.Readable != model.NoOffset {
			remnants = append(remnants, controller.ReplicaEnd{TopicIDPartition: f.ID, End: metadata.RemnantEnd(f.Readable)})
		}
	}
	facts.Damaged = append(facts.Damaged, b.replicas.Doubtful()...)
	facts.Ends = append([]controller.ReplicaEnd{}, remnants...)
	for _, h := range b.replicas.All() {
		s := h.State()
		if s.Role == partition.Offline {
			continue
		}
		e := controller.ReplicaEnd{TopicIDPartition: h.ID()}
		e.End.Offset, e.End.Epoch = s.LogEnd, model.NoEpoch
		if s.LogEnd > 0 {
			e.End.Epoch = s.EpochFor(s.LogEnd - 1)
		}
		facts.Ends = append(facts.Ends, e)
	}
	return facts
}

// Halt ends everything but the connections of clients. With clean it flushes and
// marks the directories as cleanly stopped; without, it leaves the disk as a kill
// would.
func (b *Broker) Halt(clean bool) error {
	b.halting.Store(true)
	if b.beginning != nil {
		b.beginning.halt()
	}
	if b.membership != nil {
		b.membership.stop()
	}
	if b.prober != nil {
		b.prober.close()
	}
	if b.quorum != nil {
		b.quorum.Stop(clean)
		b.publisher.close()
	}
	var err error
	if b.replicas != nil {
		err = b.replicas.Shutdown(clean)
	}
	if b.peers != nil {
		b.peers.close()
	}
	if b.dirs != nil {
		b.dirs.Close()
	}
	return err
}

// epoch returns this incarnation's number, NoBrokerEpoch before it registered.
func (b *Broker) epoch() model.BrokerEpoch { return model.BrokerEpoch(b.brokerEpoch.Load()) }
