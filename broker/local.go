package broker

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
)

// What a simulator needs of a node that it booted itself: connections without
// sockets, and a look inside.

// Connect opens a connection to the first client listener without a socket; see
// server.LocalConn. It is called after Boot has told that it is done.
func (b *Broker) Connect(deliver func(frame []byte), wake func()) *server.LocalConn {
	for _, l := range b.config.Listeners {
		if !b.config.IsController(l.Name) {
			return b.ConnectTo(l.Name, deliver, wake)
		}
	}
	return nil
}

// ConnectTo is Connect for a listener by its name. The controller's can be
// connected to as soon as Boot has returned; nil says that there is no listener
// of that name, or that the node stops.
func (b *Broker) ConnectTo(listener string, deliver func(frame []byte), wake func()) *server.LocalConn {
	known := slices.ContainsFunc(b.config.Listeners, func(l config.Listener) bool { return l.Name == listener })
	if !known || b.server == nil {
		return nil
	}
	return b.server.Local(b.listenerOf(listener), deliver, wake)
}

// Leave hands over what this node leads, partitions first and then the metadata
// quorum, and tells done when it may go, or when that has taken too long. An
// orderly stop begins with it.
func (b *Broker) Leave(done func()) {
	resign := func() {
		if b.voter == nil {
			done()
			return
		}
		b.voter.Resign(done)
	}
	if b.membership == nil {
		resign()
		return
	}
	b.membership.leave(resign)
}

// Replicas returns the partitions of this node; nil before Boot.
func (b *Broker) Replicas() *host.ReplicaManager { return b.replicas }

// Image returns the newest metadata that this node has committed.
func (b *Broker) Image() *metadata.Image { return b.quorum.Image() }

// Quorum returns what this node knows of the metadata quorum; nil before Boot.
func (b *Broker) Quorum() *quorum.Description {
	if b.quorum == nil {
		return nil
	}
	return b.quorum.Describe()
}

// QuorumLeader returns whom this node takes for the leader of the metadata
// quorum, and in which epoch; model.NoLeader before Boot.
func (b *Broker) QuorumLeader() (model.BrokerID, model.LeaderEpoch) {
	if b.quorum == nil {
		return model.NoLeader, 0
	}
	return b.quorum.Leader()
}

// Incarnation is the name under which this process registers.
func (b *Broker) Incarnation() metadata.Incarnation { return b.incarnation }

// Epoch returns this incarnation's number, NoBrokerEpoch before it registered.
func (b *Broker) Epoch() model.BrokerEpoch { return b.epoch() }
