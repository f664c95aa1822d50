package config

import (
	"slices"
	"strings"
)

// Type is how a setting's text is read. The numbers are those of
// DescribeConfigs. Source: KIP-569.
type Type int8

// The types of settings.
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Short    Type = 4 // 16 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7 // comma separated
	Class    Type = 8 // a Java class name; kept as text
	Password Type = 9
)

// String returns Kafka's name of the type.
func (t Type) String() string {
	switch t {
	case Bool:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Short:
		return "SHORT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	case Class:
		return "CLASS"
	case Password:
		return "PASSWORD"
	}
	return "UNKNOWN"
}

// Update says how a broker setting may change while the broker runs.
// Source: KIP-226.
type Update uint8

// The update modes, from least to most freedom.
const (
	// ReadOnly settings change with a restart only.
	ReadOnly Update = iota
	// PerBroker settings may be altered for one broker.
	PerBroker
	// ClusterWide settings may be altered for one broker or for all.
	ClusterWide
)

// String returns Kafka's name of the mode.
func (u Update) String() string {
	switch u {
	case PerBroker:
		return "per-broker"
	case ClusterWide:
		return "cluster-wide"
	}
	return "read-only"
}

// Scope is where a key may be set.
type Scope uint8

// The scopes.
const (
	ScopeBroker Scope = iota
	ScopeTopic
	ScopeGroup
	ScopeClientMetrics
)

// Source says which layer a value in force came from. The numbers are those of
// DescribeConfigs. Source: KIP-226.
type Source int8

// The layers, strongest first.
const (
	SourceTopic   Source = 1 // set on the topic
	SourceBroker  Source = 2 // set dynamically for this broker
	SourceCluster Source = 3 // set dynamically for all brokers
	SourceStatic  Source = 4 // file, environment or flag
	SourceDefault Source = 5 // built in
	SourceGroup   Source = 8 // set on the group

	SourceClientMetrics Source = 7 // set on the subscription
)

// Synonym is a broker key that supplies a topic key's value when the topic sets
// none.
type Synonym struct {
	Name string
	// Scale turns the broker key's unit into the topic key's: 3600000 from
	// hours to milliseconds. Zero and one mean the same unit.
	Scale int64
}

// Key describes one setting.
type Key struct {
	Name string
	Type Type
	// Default is the text in force when nothing sets the key.
	Default string
	// Null says that there is no default: the value is absent until it is set.
	Null bool
	// Want bounds the value; the zero Want allows whatever the type does.
	Want Want
	// Scope is where the key may be set.
	Scope Scope
	// Update is the mode of a broker key. Topic keys may always be altered.
	Update Update
	// Sensitive values are never shown.
	Sensitive bool
	// Internal keys can be set but are not listed by DescribeConfigs.
	Internal bool
	// Ignored is why the key has no meaning here; empty when it has one.
	Ignored string
	// Doc says what the setting does, in our words.
	Doc string
	// Synonyms are the broker keys behind a topic key, strongest first.
	Synonyms []Synonym

	broker func(*Broker) any // where the parsed value goes; nil if ignored
	topic  func(*Topic) any
	group  func(*Group) any
	client func(*ClientMetrics) any
}

// Own reports whether the key is Tidemark's, not Kafka's.
func (k *Key) Own() bool { return strings.HasPrefix(k.Name, "tidemark.") || k.Name == "cluster.id" }

// ReadOnly reports whether a request may not alter the key.
func (k *Key) ReadOnly() bool { return k.Scope == ScopeBroker && k.Update == ReadOnly }

// Help returns the documentation line that DescribeConfigs answers with.
func (k *Key) Help() string {
	if k.Ignored != "" {
		return "Accepted so that configurations written for Apache Kafka load; it changes nothing here: " + k.Ignored + "."
	}
	return k.Doc
}

// BrokerKeys returns every broker setting, sorted by name. The slice is the
// caller's.
func BrokerKeys() []Key { return sortedKeys(brokerTables()) }

// TopicKeys returns every topic setting, sorted by name. The slice is the
// caller's.
func TopicKeys() []Key { return sortedKeys([][]Key{topicKeys}) }

// LookupBroker returns the broker setting of that name, or nil. The caller must
// not change it.
func LookupBroker(name string) *Key { return lookup(brokerTables(), name) }

// LookupTopic returns the topic setting of that name, or nil. The caller must
// not change it.
func LookupTopic(name string) *Key { return lookup([][]Key{topicKeys}, name) }

func lookup(tables [][]Key, name string) *Key {
	for _, t := range tables {
		for i := range t {
			if t[i].Name == name {
				return &t[i]
			}
		}
	}
	return nil
}

func brokerTables() [][]Key {
	return [][]Key{nodeKeys, serverKeys, logKeys, replicationKeys, groupKeys, ownKeys, ignoredKeys}
}

func sortedKeys(tables [][]Key) []Key {
	all := slices.Concat(tables...)
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return all
}
