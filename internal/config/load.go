package config

import (
	"fmt"
	"slices"
	"strings"
)

// Sources is what Load reads, already fetched by the caller.
type Sources struct {
	// File is the text of a server.properties file; empty is none.
	File string
	// Env is the environment as NAME=value.
	Env []string
	// Flags are key=value items of the command line, in order.
	Flags []string
}

// Effective is one setting in force and where it came from.
type Effective struct {
	Name   string
	Value  string
	Origin Origin
}

// IgnoredKey is a known key that was set and has no meaning here.
type IgnoredKey struct {
	Key    string
	Reason string
	Origin Origin
}

// Warnings is what an operator should hear of once, at start.
type Warnings struct {
	// Ignored are known keys without meaning here, sorted by name.
	Ignored []IgnoredKey
	// Unknown are keys that neither Kafka nor Tidemark knows, sorted by name.
	Unknown []IgnoredKey
	// Notes are whole sentences about combinations that work but rarely do what
	// was meant.
	Notes []string
}

// Load reads the sources, a later one winning over an earlier: default, file,
// environment, flag. The error is a *BadValue, or says which source cannot be
// read.
func Load(src Sources) (*Broker, []Effective, Warnings, error) {
	var warn Warnings
	set, err := collect(src)
	if err != nil {
		return nil, nil, warn, err
	}
	b := &Broker{set: map[string]setting{}}
	for _, name := range sortedNames(set) {
		s, k := set[name], LookupBroker(name)
		switch {
		case k == nil && ignoredPrefix(name) != "":
			warn.Ignored = append(warn.Ignored, IgnoredKey{Key: name, Reason: ignoredPrefix(name), Origin: s.origin})
		case k == nil:
			warn.Unknown = append(warn.Unknown, IgnoredKey{Key: name, Reason: "neither Apache Kafka nor Tidemark has it", Origin: s.origin})
		default:
			b.set[name] = s
			if k.Ignored != "" {
				warn.Ignored = append(warn.Ignored, IgnoredKey{Key: name, Reason: k.Ignored, Origin: s.origin})
			}
		}
	}
	if err := b.fill(); err != nil {
		return nil, nil, warn, err
	}
	if err := b.finish(&warn); err != nil {
		return nil, nil, warn, err
	}
	return b, b.effective(), warn, nil
}

// Defaults returns the settings of a broker that nothing configures.
func Defaults() *Broker {
	b, _, _, err := Load(Sources{})
	if err != nil {
		return &Broker{}
	}
	return b
}

func collect(src Sources) (map[string]setting, error) {
	set := map[string]setting{}
	file, err := ParseProperties(src.File)
	if err != nil {
		return nil, fmt.Errorf("properties file: %w", err)
	}
	for _, p := range file {
		set[p.Key] = setting{p.Value, FromFile}
	}
	for _, p := range parseEnviron(src.Env) {
		set[p.Key] = setting{p.Value, FromEnvironment}
	}
	for _, f := range src.Flags {
		key, value, found := strings.Cut(f, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return nil, &BadValue{Key: "--set", Value: f, Want: "key=value", Origin: FromFlag}
		}
		set[key] = setting{value, FromFlag}
	}
	return set, nil
}

// ignoredPrefix returns why keys that begin like name are ignored, or "".
func ignoredPrefix(name string) string {
	switch {
	case strings.HasPrefix(name, "listener.name."):
		return noTLS
	case strings.HasPrefix(name, "rlmm.config."), strings.HasPrefix(name, "rsm.config."):
		return noTiers
	case strings.HasPrefix(name, "unstable."):
		return "no unstable feature of Apache Kafka exists here"
	}
	return ""
}

func sortedNames(m map[string]setting) []string {
	names := make([]string, 0, len(m))
	for n := range m { // order-free: sorted below
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// raw returns the text in force of a broker key and whether a source set it.
func (b *Broker) raw(k *Key) (value string, origin Origin, ok bool) {
	if s, found := b.set[k.Name]; found {
		return s.value, s.origin, true
	}
	return k.Default, FromDefault, false
}

// Configured returns the text in force of the broker key of that name, and whether
// the file, the environment or a flag set it.
func (b *Broker) Configured(name string) (value string, isSet bool) { return b.text(name) }

// text returns the text in force of the broker key of that name.
func (b *Broker) text(name string) (value string, isSet bool) {
	value, _, isSet = b.raw(LookupBroker(name))
	return value, isSet
}

// fill parses every key and stores what has a field of its own.
func (b *Broker) fill() error {
	for _, table := range brokerTables() {
		for i := range table {
			k := &table[i]
			value, origin, isSet := b.raw(k)
			if !isSet && k.Null {
				continue
			}
			v, err := k.parse(value)
			if err != nil {
				return withOrigin(err, origin)
			}
			if k.broker != nil {
				k.store(k.broker(b), v)
			}
		}
	}
	return nil
}

func withOrigin(err error, o Origin) error {
	if bad, ok := err.(*BadValue); ok {
		bad.Origin = o
	}
	return err
}

// bad builds the error of the key of that name.
func (b *Broker) bad(name, want string) error {
	value, origin, _ := b.raw(LookupBroker(name))
	return &BadValue{Key: name, Value: value, Want: want, Origin: origin}
}

// effective lists every key with meaning, and those without that were set.
func (b *Broker) effective() []Effective {
	var all []Effective
	for _, k := range BrokerKeys() {
		value, origin, isSet := b.raw(&k)
		if !isSet && (k.Ignored != "" || k.Internal) {
			continue
		}
		if k.Sensitive && isSet {
			value = "[hidden]"
		}
		all = append(all, Effective{Name: k.Name, Value: value, Origin: origin})
	}
	return all
}
