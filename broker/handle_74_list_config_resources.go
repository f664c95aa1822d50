package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// The kinds of configuration resource that Kafka lists besides those that kmsg
// names.
const (
	resourceClientMetrics = 16
	resourceGroup         = 32
)

// ListConfigResources (74), versions 0-1.
//
// The names of what has settings (KIP-1142): all topics, and all brokers once as
// such and once for their loggers, and the groups and the subscriptions to client
// metrics that have settings of their own. Version 0 asks for client metrics only; no types in version 1
// asks for all. A type that Kafka doesn't list is UNSUPPORTED_VERSION.
func (b *Broker) handleListConfigResources(r *server.Request) {
	req := r.Msg.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	types := req.ResourceTypes
	switch {
	case r.Header.Version == 0:
		types = []int8{resourceClientMetrics}
	case len(types) == 0:
		types = []int8{
			int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger),
			resourceClientMetrics, resourceGroup,
		}
	}
	img := b.quorum.Image()
	listed := map[int8]bool{}
	for _, t := range types {
		if listed[t] {
			continue
		}
		listed[t] = true
		add := func(name string) {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, t
			resp.ConfigResources = append(resp.ConfigResources, c)
		}
		switch kmsg.ConfigResourceType(t) {
		case kmsg.ConfigResourceTypeTopic:
			for topic := range img.Topics() {
				add(topic.Name)
			}
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			for _, br := range img.Brokers() {
				add(strconv.Itoa(int(br.ID)))
			}
		case resourceGroup, resourceClientMetrics:
			for res := range img.ConfigResources() {
				if res.Type == metadata.ResourceType(t) {
					add(res.Name)
				}
			}
		default:
			resp.ErrorCode, resp.ConfigResources = protocol.CodeUnsupportedVersion, nil
			r.Reply(resp)
			return
		}
	}
	r.Reply(resp)
}
