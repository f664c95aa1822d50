package broker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
)

// configRules tells the controller what the settings package knows. It
// implements controller.ConfigRules.
type configRules struct{ config *config.Broker }

// CheckTopic implements controller.ConfigRules.
func (c configRules) CheckTopic(overrides map[string]string) error {
	return c.config.ValidateTopicSet(nil, overrides)
}

// CheckBroker implements controller.ConfigRules.
func (c configRules) CheckBroker(clusterDefault bool, settings map[string]string, changed []string) error {
	for _, key := range changed {
		value, set := settings[key]
		if !set {
			continue
		}
		if err := config.ValidateBroker(key, value, !clusterDefault); err != nil {
			return err
		}
	}
	return nil
}

// IsList implements controller.ConfigRules.
func (c configRules) IsList(t metadata.ResourceType, key string) bool {
	k := lookupKey(t, key)
	return k != nil && k.Type == config.List
}

// Default implements controller.ConfigRules.
func (c configRules) Default(t metadata.ResourceType, key string) (string, bool) {
	if t == metadata.TopicResource {
		for _, e := range c.config.DescribeTopic(config.Dynamic{}, nil) {
			if e.Name == key {
				return e.Value, !e.Null
			}
		}
		return "", false
	}
	k := lookupKey(t, key)
	if k == nil || k.Null {
		return "", false
	}
	return k.Default, true
}

func lookupKey(t metadata.ResourceType, key string) *config.Key {
	if t == metadata.TopicResource {
		return config.LookupTopic(key)
	}
	return config.LookupBroker(key)
}

// TopicInt implements controller.ConfigRules.
func (c configRules) TopicInt(m *metadata.Image, topic, key string) int64 {
	for _, e := range c.config.DescribeTopic(dynamicOf(m, c.config), m.Config(metadata.TopicResource, topic)) {
		if e.Name == key {
			n, _ := strconv.ParseInt(e.Value, 10, 64)
			return n
		}
	}
	return 0
}

// EffectiveTopic implements controller.ConfigRules.
func (c configRules) EffectiveTopic(m *metadata.Image, overrides map[string]string) []controller.EffectiveConfig {
	entries := c.config.DescribeTopic(dynamicOf(m, c.config), overrides)
	out := make([]controller.EffectiveConfig, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		ec := controller.EffectiveConfig{Name: e.Name, ReadOnly: e.ReadOnly, Source: int8(e.Source), Sensitive: e.Sensitive}
		if !e.Null {
			ec.Value = kmsg.StringPtr(e.Value)
		}
		out = append(out, ec)
	}
	slices.SortFunc(out, func(a, b controller.EffectiveConfig) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// dynamicOf returns the dynamic broker settings that hold on this node.
func dynamicOf(m *metadata.Image, c *config.Broker) config.Dynamic {
	return config.Dynamic{
		Broker:  m.Config(metadata.BrokerResource, strconv.Itoa(int(c.NodeID))),
		Cluster: m.Config(metadata.BrokerResource, ""),
	}
}
