package broker

import (
	"math/rand/v2"
	"os"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
)

// metadataFeature is the feature whose level says which metadata records the
// cluster may write.
const metadataFeature = "tidemark.version"

// Boot opens the disk and joins the cluster, without any network: Start's part
// that the simulator runs too. done is called once, from any goroutine, when
// this node's partitions are led or the node can't be a member. An error means
// that the disk could not be opened, and done is not called.
func (b *Broker) Boot(done func(error)) error {
	if b.advertised == nil {
		b.advertise()
	}
	var err error
	b.dirs, err = host.OpenDirs(host.DirOptions{
		FS: b.fs, Paths: b.config.LogDirs, NodeID: b.config.NodeID, ClusterID: b.config.ClusterID,
		Machine: b.world.Machine, Rand: b.newRand(), Logger: b.logger,
	})
	if err != nil {
		return err
	}
	b.build()
	if err := b.quorum.Start(); err != nil {
		return err
	}
	if err := b.dirs.Claim(b.quorum.Image().ClusterID()); err != nil {
		return err
	}
	img := b.quorum.Image()
	sum, err := b.replicas.Load(img)
	if err != nil {
		return err
	}
	b.logger.Info("partitions loaded", zap.Int("loaded", sum.Loaded), zap.Int("created", sum.Created),
		zap.Int("offline", sum.Offline), zap.Int("stray", sum.Stray))
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

// booted tells that the image in which this broker is unfenced is in force.
type booted struct{ done func(error) }

// Deliver implements loop.Delivery.
func (d *booted) Deliver(model.Now) { d.done(nil) }

// build makes the parts that need the opened directories.
func (b *Broker) build() {
	b.topics.broker, b.topics.adjust = b.config, b.world.Topic
	b.replicas = host.NewReplicaManager(host.Deps{
		RT: b.rt, FS: b.fs, Dirs: b.dirs, Self: b.config.NodeID, Broker: b.config, Topic: b.topics.of,
		Logger: b.logger, Rand: b.newRand(), Group: b.world.Group, Executor: b.world.Executor, Flusher: b.world.Flusher,
	})
	b.sessions = host.NewFetchSessionCache(int(b.config.Server.FetchSessionsMax), b.newRand())
	b.publisher = newPublisher(b.rt, b.replicas.Apply)
	b.quorum = quorum.New(quorum.Config{
		FS: b.fs, Dir: b.config.MetadataDir, NodeID: b.config.NodeID,
		DirectoryID: metadata.DirectoryID(b.metadataDir().ID()), ClusterID: b.dirs.ClusterID(), Used: !b.dirs.Virgin(),
		Features:     []metadata.Feature{{Name: metadataFeature, Level: 1}},
		SegmentBytes: b.config.Quorum.SegmentBytes, SnapshotBytes: b.config.Quorum.SnapshotBytesMax,
		Controller: b.controllerConfig(), Recover: b.recoverTopics, Recovered: b.metadataRecovered, Failed: b.fail,
		RT: b.rt, Logger: b.logger, Rand: b.newRand(),
	})
	b.quorum.Subscribe(b.publisher.publish)
	b.creator = newAutoCreator(b.submitApplied)
	b.producerIDs = &producerIDs{b: b}
	b.membership = newMembership(b)
	b.show()
}

// newRand returns a source of chance of its own: each part runs on a goroutine
// of its own and a source has no lock. Called while one goroutine builds.
func (b *Broker) newRand() *rand.Rand { return rand.New(rand.NewPCG(b.rand.Uint64(), b.rand.Uint64())) }

// metadataRecovered tells what was lost of a metadata log that was damaged.
func (b *Broker) metadataRecovered(r quorum.Receipt) {
	b.logger.Error("the metadata log was damaged and has been rebuilt", zap.Error(r.Cause),
		zap.Stringer("believed_up_to", r.Base), zap.Stringer("continues_at", r.At), zap.Strings("topics_found", r.Topics),
		zap.Int("partitions_found", r.Partitions), zap.String("kept", r.Kept))
}

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
	for _, f := range b.replicas.FailedReplicas() {
		facts.Damaged = append(facts.Damaged, f.ID)
	}
	return facts
}

// Halt ends everything but the network. With clean it flushes and marks the
// directories as cleanly stopped; without, it leaves the disk as a kill would.
func (b *Broker) Halt(clean bool) error {
	var err error
	if b.membership != nil {
		b.membership.stop()
	}
	if b.quorum != nil {
		b.quorum.Stop(clean)
		b.publisher.close()
	}
	if b.replicas != nil {
		err = b.replicas.Shutdown(clean)
	}
	if b.dirs != nil {
		b.dirs.Close()
	}
	return err
}

// epoch returns this incarnation's number, NoBrokerEpoch before it registered.
func (b *Broker) epoch() model.BrokerEpoch { return model.BrokerEpoch(b.brokerEpoch.Load()) }

// advertise works out what clients are told to connect to. A port of 0 stands
// for the one that the listener got, an empty host for the machine's name.
func (b *Broker) advertise() {
	for _, a := range b.config.Advertised {
		l := metadata.Listener{Name: a.Name, Host: a.Host, Port: uint16(a.Port)}
		for _, bl := range b.listening {
			if bl.name == a.Name && l.Port == 0 {
				l.Port = uint16(bl.port)
			}
		}
		if l.Host == "" {
			l.Host = hostName()
		}
		b.advertised = append(b.advertised, l)
	}
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// serve lets clients in.
func (b *Broker) serve() {
	s := &b.config.Server
	b.server = server.New(server.Config{
		Clock: b.rt, Logger: b.logger, Group: b.world.Group,
		ProduceFrameMax: int(s.RequestBytesMax), FrameMax: int(b.config.Own.SmallRequestBytesMax),
		RequestsMax: int(b.config.Own.InFlightPerConnection), FrameBytesMax: frameBytes(b.config.Own.MemoryLimitBytes),
		ConnectionsMax: connections(s.ConnectionsMax), ConnectionsPerIPMax: connections(s.ConnectionsPerIPMax),
		ConnectionsPerIP: perIP(s.ConnectionsPerIPOverrides), IdleMax: s.ConnectionIdleMax,
	}, b)
	b.pages.node.Serving(b.server)
	for _, l := range b.listening {
		for _, socket := range l.sockets {
			b.server.Serve(socket, server.Listener{Name: l.name})
		}
	}
}

// connections turns Kafka's "no limit" into the server's.
func connections(n int32) int {
	const unlimited = 1<<31 - 1
	if n == unlimited {
		return 0
	}
	return int(n)
}

func perIP(m map[string]int32) map[string]int {
	out := make(map[string]int, len(m))
	for ip, n := range m {
		out[ip] = int(n)
	}
	return out
}
