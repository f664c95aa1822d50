package controller

import (
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
)

// brokerRules are ConfigRules by the settings of this node: its static settings
// and the cluster's dynamic ones stand behind a topic's own.
type brokerRules struct{ broker *config.Broker }

// NewConfigRules returns the rules of package config, with b's static settings
// as the defaults of topics.
func NewConfigRules(b *config.Broker) ConfigRules { return brokerRules{b} }

// CheckTopic implements ConfigRules.
func (r brokerRules) CheckTopic(overrides map[string]string) error {
	return r.broker.ValidateTopicSet(nil, overrides)
}

// CheckBroker implements ConfigRules. Removing is always allowed.
func (r brokerRules) CheckBroker(clusterDefault bool, settings map[string]string, changed []string) error {
	for _, k := range changed {
		v, set := settings[k]
		if !set {
			continue
		}
		if err := config.ValidateBroker(k, v, !clusterDefault); err != nil {
			return err
		}
	}
	return nil
}

// CheckGroup implements ConfigRules.
func (r brokerRules) CheckGroup(settings map[string]string) error {
	return r.broker.ValidateGroupSet(settings)
}

// CheckClientMetrics implements ConfigRules.
func (r brokerRules) CheckClientMetrics(settings map[string]string) error {
	_, err := config.ParseClientMetrics(settings)
	return err
}

// IsList implements ConfigRules.
func (r brokerRules) IsList(t metadata.ResourceType, key string) bool {
	k := lookup(t, key)
	return k != nil && k.Type == config.List
}

// Default implements ConfigRules.
func (r brokerRules) Default(t metadata.ResourceType, key string) (string, bool) {
	k := lookup(t, key)
	if k == nil || k.Null {
		return "", false
	}
	return k.Default, true
}

func lookup(t metadata.ResourceType, key string) *config.Key {
	switch t {
	case metadata.TopicResource:
		return config.LookupTopic(key)
	case metadata.GroupResource:
		return config.LookupGroup(key)
	case metadata.ClientMetricsResource:
		return nil // as in Kafka, which appends to none of their lists
	}
	return config.LookupBroker(key)
}

// Topic implements ConfigRules. A setting that no longer parses counts as asking
// for one replica, the least: nothing may stop an election.
func (r brokerRules) Topic(m *metadata.Image, topic string) TopicSettings {
	cluster, overrides := m.Config(metadata.BrokerResource, ""), m.Config(metadata.TopicResource, topic)
	minISR, _ := r.broker.TopicSetting(keyMinISR, cluster, overrides)
	unclean, _ := r.broker.TopicSetting(keyUnclean, cluster, overrides)
	n, _ := minISR.(int64)
	anybody, _ := unclean.(bool)
	return TopicSettings{MinISR: max(1, int(n)), Unclean: anybody}
}

// EffectiveTopic implements ConfigRules.
func (r brokerRules) EffectiveTopic(m *metadata.Image, overrides map[string]string) []EffectiveConfig {
	entries := r.broker.DescribeTopic(config.Dynamic{Cluster: m.Config(metadata.BrokerResource, "")}, overrides)
	out := make([]EffectiveConfig, 0, len(entries))
	for _, i := range entries {
		e := EffectiveConfig{Name: i.Name, ReadOnly: i.ReadOnly, Source: int8(i.Source), Sensitive: i.Sensitive}
		if !i.Null {
			v := i.Value
			e.Value = &v
		}
		out = append(out, e)
	}
	return out
}
