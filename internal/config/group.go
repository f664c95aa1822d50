package config

import (
	"fmt"
	"slices"
	"time"
)

// Group is the settings in force for one consumer group whose coordinator assigns.
type Group struct {
	// Session is how long a member may not be heard of, Heartbeat how often it is
	// told to be.
	Session, Heartbeat time.Duration
}

// GroupKeys returns every group setting, sorted by name. The slice is the
// caller's.
func GroupKeys() []Key { return sortedKeys([][]Key{groupResourceKeys}) }

// LookupGroup returns the group setting of that name, or nil. The caller must not
// change it.
func LookupGroup(name string) *Key { return lookup([][]Key{groupResourceKeys}, name) }

// Group returns the settings of a group that sets overrides. A value that is out
// of the bounds that this broker has now counts as the nearest that is not: it was
// good when it was set. Source: Kafka 4.3's GroupConfig.evaluate.
func (b *Broker) Group(overrides map[string]string) Group {
	g := Group{Session: b.Groups.ConsumerSession, Heartbeat: b.Groups.ConsumerHeartbeat}
	for i := range groupResourceKeys {
		k := &groupResourceKeys[i]
		if text, set := overrides[k.Name]; set && k.group != nil {
			if v, err := k.parse(text); err == nil {
				k.store(k.group(&g), v)
			}
		}
	}
	g.Session = min(max(g.Session, b.Groups.ConsumerSessionMin), b.Groups.ConsumerSessionMax)
	g.Heartbeat = min(max(g.Heartbeat, b.Groups.ConsumerHeartbeatMin), b.Groups.ConsumerHeartbeatMax)
	if g.Session <= g.Heartbeat {
		return Group{Session: b.Groups.ConsumerSession, Heartbeat: b.Groups.ConsumerHeartbeat}
	}
	return g
}

// ValidateGroupSet checks the whole set of a group's own settings, each by itself,
// against the broker's bounds and against each other. The error is an *UnknownKey
// or a *BadValue.
func (b *Broker) ValidateGroupSet(overrides map[string]string) error {
	names := make([]string, 0, len(overrides))
	for n := range overrides { // order-free: sorted below
		names = append(names, n)
	}
	slices.Sort(names)
	g := Group{Session: b.Groups.ConsumerSession, Heartbeat: b.Groups.ConsumerHeartbeat}
	for _, n := range names {
		k := LookupGroup(n)
		if k == nil {
			return &UnknownKey{Key: n}
		}
		v, err := k.parse(overrides[n])
		if err != nil {
			return err
		}
		if k.group != nil {
			k.store(k.group(&g), v)
		}
	}
	for _, bound := range []struct {
		key           string
		value, lo, hi time.Duration
	}{
		{keyGroupSession, g.Session, b.Groups.ConsumerSessionMin, b.Groups.ConsumerSessionMax},
		{keyGroupHeartbeat, g.Heartbeat, b.Groups.ConsumerHeartbeatMin, b.Groups.ConsumerHeartbeatMax},
	} {
		if bound.value < bound.lo || bound.value > bound.hi {
			return &BadValue{Key: bound.key, Value: fmt.Sprint(bound.value.Milliseconds()), Want: fmt.Sprintf("from group.%s to group.%s (%d to %d)",
				boundName(bound.key, "min"), boundName(bound.key, "max"), bound.lo.Milliseconds(), bound.hi.Milliseconds())}
		}
	}
	if g.Session <= g.Heartbeat {
		return &BadValue{Key: keyGroupSession, Value: fmt.Sprint(g.Session.Milliseconds()), Want: fmt.Sprintf("more than %s (%d)", keyGroupHeartbeat, g.Heartbeat.Milliseconds())}
	}
	return nil
}

// boundName is the node's setting that bounds one of a group, without "group.".
func boundName(key, end string) string {
	const kind = "consumer."
	return kind + end + "." + key[len(kind):]
}

// DescribeGroup returns the settings of a group that sets overrides, sorted by
// name.
func (b *Broker) DescribeGroup(d Dynamic, overrides map[string]string) []Entry {
	var all []Entry
	for _, k := range GroupKeys() {
		var syn []EntrySynonym
		if v, ok := overrides[k.Name]; ok {
			syn = append(syn, EntrySynonym{Name: k.Name, Value: v, Source: SourceGroup})
		}
		if len(k.Synonyms) > 0 {
			syn = append(syn, b.brokerSynonyms(LookupBroker(k.Synonyms[0].Name), d)...)
		}
		all = append(all, k.entry(syn))
	}
	return all
}
