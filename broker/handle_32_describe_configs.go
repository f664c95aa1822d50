package broker

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeConfigs (32), versions 1-4.
//
// Each setting of a topic, of a group, of a subscription to client metrics (KIP-714),
// of this broker, or of the cluster's default, with
// the layer that its value came from, its synonyms and its documentation
// (KIP-226, KIP-569). A topic that does not exist is
// UNKNOWN_TOPIC_OR_PARTITION; another broker's settings, or a resource type
// that has none here, are INVALID_REQUEST.
func (b *Broker) handleDescribeConfigs(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	img := b.quorum.Image()
	for i := range req.Resources {
		q := &req.Resources[i]
		rr := kmsg.NewDescribeConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = q.ResourceType, q.ResourceName
		entries, code, why := b.describeResource(img, q.ResourceType, q.ResourceName)
		if code != protocol.CodeNone {
			rr.ErrorCode, rr.ErrorMessage = code, &why
		}
		for j := range entries {
			if q.ConfigNames == nil || slices.Contains(q.ConfigNames, entries[j].Name) {
				rr.Configs = append(rr.Configs, describedConfig(&entries[j], req))
			}
		}
		resp.Resources = append(resp.Resources, rr)
	}
	r.Reply(resp)
}

func (b *Broker) describeResource(img *metadata.Image, t kmsg.ConfigResourceType, name string) ([]config.Entry, protocol.Code, string) {
	dynamic := dynamicOf(img, b.config)
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		if !legalTopicName(name) {
			return nil, protocol.CodeInvalidTopicException, fmt.Sprintf("%q cannot be a topic's name", name)
		}
		if img.Topic(name) == nil {
			return nil, protocol.CodeUnknownTopicOrPartition, fmt.Sprintf("topic %s does not exist", name)
		}
		return b.config.DescribeTopic(dynamic, img.Config(metadata.TopicResource, name)), protocol.CodeNone, ""
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return config.DescribeCluster(dynamic), protocol.CodeNone, ""
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil || int32(id) != int32(b.config.NodeID) {
			return nil, protocol.CodeInvalidRequest, fmt.Sprintf("this is broker %d, asked for broker %s", b.config.NodeID, name)
		}
		return b.config.DescribeBroker(dynamic), protocol.CodeNone, ""
	}
	if t == resourceGroup {
		if name == "" {
			return nil, protocol.CodeInvalidRequest, "Group name must not be empty"
		}
		return b.config.DescribeGroup(dynamic, img.Config(metadata.GroupResource, name)), protocol.CodeNone, ""
	}
	if t == resourceClientMetrics { // one that was never set has defaults
		if name == "" {
			return nil, protocol.CodeInvalidRequest, "a subscription to clients' metrics has a name"
		}
		return config.DescribeClientMetrics(img.Config(metadata.ClientMetricsResource, name)), protocol.CodeNone, ""
	}
	return nil, protocol.CodeInvalidRequest, fmt.Sprintf("resource type %d has no settings here", int8(t))
}

func describedConfig(e *config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ReadOnly, c.IsSensitive = e.Name, e.ReadOnly, e.Sensitive
	c.Source, c.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	c.IsDefault = e.Source == config.SourceDefault
	if !e.Null {
		c.Value = &e.Value
	}
	if req.IncludeSynonyms {
		for i := range e.Synonyms {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Source = e.Synonyms[i].Name, kmsg.ConfigSource(e.Synonyms[i].Source)
			if !e.Synonyms[i].Null {
				s.Value = &e.Synonyms[i].Value
			}
			c.ConfigSynonyms = append(c.ConfigSynonyms, s)
		}
	}
	if req.IncludeDocumentation {
		c.Documentation = &e.Doc
	}
	return c
}
