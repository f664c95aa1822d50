package config

import (
	"fmt"
	"strings"
)

// Dynamic is the broker settings kept in the cluster's metadata.
type Dynamic struct {
	// Broker are the settings of this broker.
	Broker map[string]string
	// Cluster are the settings of every broker.
	Cluster map[string]string
}

// Merged returns both layers as one map, this broker's winning.
func (d Dynamic) Merged() map[string]string {
	m := make(map[string]string, len(d.Broker)+len(d.Cluster))
	for k, v := range d.Cluster { // order-free: builds a map
		m[k] = v
	}
	for k, v := range d.Broker { // order-free: builds a map
		m[k] = v
	}
	return m
}

// Topic returns the settings of a topic that sets overrides, under a broker
// whose dynamic settings are dynamicBroker (Dynamic.Merged). Either may be nil.
// The error is a *BadValue.
func (b *Broker) Topic(dynamicBroker, overrides map[string]string) (Topic, error) {
	var t Topic
	for i := range topicKeys {
		k := &topicKeys[i]
		if k.topic == nil {
			continue
		}
		value, scale, ok := b.topicValue(k, dynamicBroker, overrides)
		if !ok {
			continue
		}
		v, err := k.parse(value)
		if err != nil {
			return Topic{}, err
		}
		if n, isInt := v.(int64); isInt && scale > 1 {
			v = scaleInt(n, scale)
		}
		k.store(k.topic(&t), v)
	}
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return Topic{}, &BadValue{Key: "min.compaction.lag.ms", Value: fmt.Sprint(t.MinCompactionLagMs), Want: fmt.Sprintf("at most max.compaction.lag.ms (%d)", t.MaxCompactionLagMs)}
	}
	return t, nil
}

// CleanerUnder returns the settings of compaction under dynamic settings of this
// broker and of all. A value that is not legal any more is passed over.
func (b *Broker) CleanerUnder(d Dynamic) Cleaner {
	merged := d.Merged()
	if len(merged) == 0 {
		return b.Storage.Cleaner
	}
	c := Broker{Storage: Storage{Cleaner: b.Storage.Cleaner}}
	for i := range logKeys {
		k := &logKeys[i]
		text, set := merged[k.Name]
		if !set || !k.runs() {
			continue
		}
		if v, err := k.parse(text); err == nil {
			k.store(k.broker(&c), v)
		}
	}
	return c.Storage.Cleaner
}

// runs reports whether a setting of a node, other than a default of topics, is
// followed while the node runs.
func (k *Key) runs() bool {
	return strings.HasPrefix(k.Name, "log.cleaner.") && k.Update != ReadOnly && len(k.defaultOf()) == 0
}

// TopicSetting returns one setting of a topic as Topic would, for those who need
// no more of very many topics: an int64, a bool, a float64, a string or a list.
// false: there is no such setting, it has no value, or not a legal one.
func (b *Broker) TopicSetting(name string, dynamicBroker, overrides map[string]string) (any, bool) {
	k := LookupTopic(name)
	if k == nil {
		return nil, false
	}
	value, scale, ok := b.topicValue(k, dynamicBroker, overrides)
	if !ok {
		return nil, false
	}
	v, err := k.parse(value)
	if n, isInt := v.(int64); isInt && scale > 1 {
		v = scaleInt(n, scale)
	}
	return v, err == nil
}

// topicValue finds the text in force of a topic key: the topic's own, else the
// first of the broker keys behind it that any layer sets, else the default.
func (b *Broker) topicValue(k *Key, dynamic, overrides map[string]string) (value string, scale int64, ok bool) {
	if v, found := overrides[k.Name]; found {
		return v, 1, true
	}
	for _, s := range k.Synonyms {
		if v, found := dynamic[s.Name]; found {
			return v, s.Scale, true
		}
		if v, found := b.set[s.Name]; found {
			return v.value, s.Scale, true
		}
	}
	return k.Default, 1, !k.Null
}

// scaleInt multiplies a time and stops at the ends of the range; -1 means for
// ever in every unit.
func scaleInt(n, scale int64) int64 {
	if n < 0 {
		return n
	}
	if n > (1<<63-1)/scale {
		return 1<<63 - 1
	}
	return n * scale
}
