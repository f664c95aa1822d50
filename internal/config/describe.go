package config

// Entry is one setting as DescribeConfigs answers it. Source: KIP-569.
type Entry struct {
	Name string
	// Value is the text in force; Null says that there is none. A sensitive value
	// is Null here.
	Value string
	Null  bool
	// Source is the layer that Value came from.
	Source    Source
	Type      Type
	ReadOnly  bool
	Sensitive bool
	// Synonyms are all layers that give a value, strongest first; the first one is
	// the value in force.
	Synonyms []EntrySynonym
	// Doc says what the setting does.
	Doc string
}

// EntrySynonym is one layer's value of a setting.
type EntrySynonym struct {
	Name   string
	Value  string
	Null   bool // the value is sensitive
	Source Source
}

// DescribeBroker returns the settings of this broker, sorted by name.
func (b *Broker) DescribeBroker(d Dynamic) []Entry {
	var all []Entry
	for _, k := range BrokerKeys() {
		if k.Internal {
			continue
		}
		all = append(all, k.entry(b.brokerSynonyms(&k, d)))
	}
	return all
}

// DescribeCluster returns the settings that are set for every broker (the
// broker resource with an empty name), sorted by name.
func DescribeCluster(d Dynamic) []Entry {
	var all []Entry
	for _, k := range BrokerKeys() {
		if v, ok := d.Cluster[k.Name]; ok {
			syn := EntrySynonym{Name: k.Name, Value: v, Source: SourceCluster}
			all = append(all, k.entry([]EntrySynonym{hide(&k, syn)}))
		}
	}
	return all
}

// DescribeTopic returns the settings of a topic that sets overrides, sorted by
// name.
func (b *Broker) DescribeTopic(d Dynamic, overrides map[string]string) []Entry {
	var all []Entry
	for _, k := range TopicKeys() {
		var syn []EntrySynonym
		if v, ok := overrides[k.Name]; ok {
			syn = append(syn, hide(&k, EntrySynonym{Name: k.Name, Value: v, Source: SourceTopic}))
		} else if k.Internal {
			continue
		}
		if len(k.Synonyms) > 0 {
			syn = append(syn, b.brokerSynonyms(LookupBroker(k.Synonyms[0].Name), d)...)
		}
		e := k.entry(syn)
		if e.Source != SourceTopic {
			e.Value, e.Null = b.inForce(&k, d)
		}
		all = append(all, e)
	}
	return all
}

// inForce returns the value of a topic key that the topic does not set, in the
// topic key's own unit.
func (b *Broker) inForce(k *Key, d Dynamic) (value string, null bool) {
	value, scale, ok := b.topicValue(k, d.Merged(), nil)
	if n, err := parseInt(value); ok && err == nil && scale > 1 {
		return formatInt(scaleInt(n, scale)), false
	}
	return value, !ok
}

// brokerSynonyms lists the layers that give the broker key k a value: layer by
// layer, in each the keys of k's group in their order. As in Kafka, what stands
// before the first value of k itself is left out.
func (b *Broker) brokerSynonyms(k *Key, d Dynamic) []EntrySynonym {
	var syn []EntrySynonym
	group := synonymGroup(k)
	layer := func(source Source, get func(*Key) (string, bool)) {
		for _, g := range group {
			if v, ok := get(g); ok && (len(syn) > 0 || g.Name == k.Name) {
				syn = append(syn, hide(g, EntrySynonym{Name: g.Name, Value: v, Source: source}))
			}
		}
	}
	layer(SourceBroker, func(g *Key) (string, bool) { v, ok := d.Broker[g.Name]; return v, ok })
	layer(SourceCluster, func(g *Key) (string, bool) { v, ok := d.Cluster[g.Name]; return v, ok })
	layer(SourceStatic, func(g *Key) (string, bool) { s, ok := b.set[g.Name]; return s.value, ok })
	layer(SourceDefault, func(g *Key) (string, bool) { return g.Default, !g.Null })
	return syn
}

// synonymGroup returns the broker keys that say the same as k in other units,
// strongest first, k among them.
func synonymGroup(k *Key) []*Key {
	var names []string
	switch k.Name {
	case "log.roll.ms", "log.roll.hours":
		names = []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		names = []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		names = []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	case "log.flush.interval.ms":
		names = []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	default:
		return []*Key{k}
	}
	group := make([]*Key, len(names))
	for i, n := range names {
		group[i] = LookupBroker(n)
	}
	return group
}

func hide(k *Key, s EntrySynonym) EntrySynonym {
	if k.Sensitive {
		s.Value, s.Null = "", true
	}
	return s
}

// entry builds the answer for k from its layers.
func (k *Key) entry(syn []EntrySynonym) Entry {
	e := Entry{
		Name: k.Name, Value: k.Default, Null: k.Null || k.Sensitive, Source: SourceDefault, Type: k.Type,
		ReadOnly: k.ReadOnly(), Sensitive: k.Sensitive, Synonyms: syn, Doc: k.Help(),
	}
	if len(syn) > 0 {
		e.Value, e.Null, e.Source = syn[0].Value, syn[0].Null, syn[0].Source
	}
	return e
}
