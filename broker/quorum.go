package broker

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/server"
)

// metadataView is what every node knows of the cluster's metadata, with or
// without a vote in the quorum.
type metadataView interface {
	// Image returns the newest image; never nil.
	Image() *metadata.Image
	// Describe returns the newest description; never nil.
	Describe() *quorum.Description
	// Leader returns the leader of the newest description, and its epoch.
	Leader() (model.BrokerID, model.LeaderEpoch)
	Subscribe(s quorum.Subscriber)
	Start() error
	Stop(clean bool)
}

// buildQuorum makes this node's part of the metadata quorum.
func (b *Broker) buildQuorum() {
	links := &quorumLinks{b: b}
	c := quorum.Config{
		FS: b.fs, Dir: b.config.MetadataDir, NodeID: b.config.NodeID,
		DirectoryID: metadata.DirectoryID(b.metadataDir().ID()), ClusterID: b.dirs.ClusterID(), Used: !b.dirs.Virgin(), Acted: b.dirs.Acted(),
		Voters: b.listedVoters(), Join: b.joinAddresses(), Listeners: b.controllerListeners(),
		Features:     []metadata.Feature{{Name: groupFeature, Level: 1}, {Name: metadataFeature, Level: 1}},
		SegmentBytes: b.config.Quorum.SegmentBytes, SnapshotBytes: b.config.Quorum.SnapshotBytesMax,
		Controller: b.controllerConfig(), Recover: b.recoverTopics, Recovered: b.metadataRecovered, Failed: b.fail,
		Started: b.beginning.started, Probe: b.prober.brokerLost,
		SpareRoom:       func() bool { return b.reserve.give(b.config.MetadataDir) },
		ElectionTimeout: b.config.Quorum.ElectionTimeout, HeartbeatInterval: b.config.Quorum.HeartbeatInterval,
		RT: b.rt, Logger: b.logger, Rand: b.newRand(),
	}
	if b.world.Net != nil {
		c.Peers, c.Ask = links, links.ask
	}
	if b.config.Roles.Controller {
		b.voter = quorum.New(c)
		b.quorum = b.voter
	} else {
		b.quorum = quorum.NewObserver(c)
	}
	if b.world.Images != nil {
		b.quorum.Subscribe(b.world.Images)
	}
	b.quorum.Subscribe(b.publisher.publish)
	if b.membership != nil {
		b.quorum.Subscribe(b.membership.image)
	}
}

// listedVoters are the members of a static quorum with the addresses by which
// they are reached.
func (b *Broker) listedVoters() []metadata.Voter {
	var all []metadata.Voter
	for _, v := range b.config.Quorum.Voters {
		all = append(all, voterAt(v.ID, b.controllerListenerName(), v.Host, uint16(v.Port)))
	}
	return all
}

// joinAddresses are the controllers by which a quorum is found whose members are
// not listed.
func (b *Broker) joinAddresses() []metadata.Voter {
	var all []metadata.Voter
	if len(b.config.Quorum.Voters) > 0 {
		return nil
	}
	for _, s := range b.config.Quorum.BootstrapServers {
		if at, ok := parseAddress(model.NoLeader, s); ok {
			all = append(all, voterAt(model.NoLeader, b.controllerListenerName(), at.Host, at.Port))
		}
	}
	return all
}

func voterAt(id model.BrokerID, name, host string, port uint16) metadata.Voter {
	return metadata.Voter{Node: id, Listeners: []metadata.Listener{{Name: name, Host: host, Port: port}}}
}

// controllerListenerName is the name under which voters are noted.
func (b *Broker) controllerListenerName() string {
	if len(b.config.ControllerListeners) > 0 {
		return b.config.ControllerListeners[0]
	}
	return "CONTROLLER"
}

// startQuorum loads the metadata.
func (b *Broker) startQuorum() error { return b.quorum.Start() }

// confirm calls done once a majority of the voters has confirmed that this node
// still leads: what it answered before that is the present controller's word.
func (b *Broker) confirm(done func(ok bool)) {
	if b.voter == nil {
		done(false)
		return
	}
	b.voter.Confirm(done)
}

// answerQuorum hands a private request to the quorum.
func (b *Broker) answerQuorum(r *server.Request) {
	if b.voter == nil || r.Header.Version != privateVersion {
		r.CloseConn("no such private API on this node")
		return
	}
	b.voter.AnswerPrivate(r.Header.Key, append([]byte(nil), r.Body...), func(body []byte) {
		if body == nil {
			r.CloseConn("private request can't be answered")
			return
		}
		r.ReplyRaw(body)
	})
}
