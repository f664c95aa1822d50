package broker

import (
	"strconv"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
)

// tune brings what is set dynamically to those parts of the node that follow it
// while they run.
func (b *Broker) tune(img *metadata.Image) {
	b.replicas.SetCleaner(b.config.CleanerUnder(dynamicOf(img, b.config)))
}

// dynamicOf returns the dynamic broker settings that hold on this node.
func dynamicOf(m *metadata.Image, c *config.Broker) config.Dynamic {
	return config.Dynamic{
		Broker:  m.Config(metadata.BrokerResource, strconv.Itoa(int(c.NodeID))),
		Cluster: m.Config(metadata.BrokerResource, ""),
	}
}
