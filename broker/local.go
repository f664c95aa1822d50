package broker

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
)

// What a simulator needs of a node that it booted itself: connections without
// sockets, and a look inside.

// Connect opens a connection to the first client listener without a socket; see
// server.LocalConn. It is called after Boot has told that it is done.
func (b *Broker) Connect(deliver func(frame []byte), wake func()) *server.LocalConn {
	if b.server == nil {
		b.serve()
	}
	return b.server.Local(server.Listener{Name: b.config.Listeners[0].Name}, deliver, wake)
}

// Replicas returns the partitions of this node; nil before Boot.
func (b *Broker) Replicas() *host.ReplicaManager { return b.replicas }

// Image returns the newest metadata that this node has committed.
func (b *Broker) Image() *metadata.Image { return b.quorum.Image() }
