package broker

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// rackAware reports whether consumers are sent to a replica in their rack.
func (b *Broker) rackAware() bool { return b.config.Replication.RackAware() }

// nearest returns the in-sync replica that a consumer in a rack should read from
// at an offset, -1 if it is this one. Whatever is below the high watermark every
// member of the in-sync set has. Source: KIP-392.
func (b *Broker) nearest(s *host.State, from model.Offset, rack, listener string) model.BrokerID {
	if s.Role != partition.Leader || rack == b.config.Rack || from > s.HighWatermark {
		return model.NoLeader
	}
	img := b.quorum.Image()
	for _, id := range s.ISR {
		reg := img.Broker(id)
		if id == b.config.NodeID || !reg.Active() || reg.Rack != rack {
			continue
		}
		if _, ok := reg.Listener(listener); ok {
			return id
		}
	}
	return model.NoLeader
}
