package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// Image is the state of the cluster after one metadata offset. It is immutable
// and shares structure with the images before and after it; any goroutine may
// read it. Take it once per request and use that value to the end.
type Image struct {
	at         model.OffsetAndEpoch
	clusterID  string
	voters     []Voter
	features   []Feature             // sorted by name
	brokers    []*BrokerRegistration // sorted by id
	byName     table[string, *Topic]
	byID       table[model.TopicID, *Topic]
	configs    table[Resource, map[string]string]
	ends       table[replicaKey, model.OffsetAndEpoch]
	tally      tally
	partitions int
	producers  ProducerIDs // the last block that was handed out
	sum        sum128
}

// Empty returns the image before the first record.
func Empty() *Image {
	return &Image{
		at:      model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch},
		byName:  newTable[string, *Topic](strings.Compare),
		byID:    newTable[model.TopicID, *Topic](func(a, b model.TopicID) int { return bytes.Compare(a[:], b[:]) }),
		configs: newTable[Resource, map[string]string](compareResources),
		ends:    newTable[replicaKey, model.OffsetAndEpoch](compareReplicas),
	}
}

func compareResources(a, b Resource) int {
	if c := cmp.Compare(a.Type, b.Type); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// At returns the offset and term of the last entry the image contains.
func (m *Image) At() model.OffsetAndEpoch { return m.at }

// ClusterID returns the cluster's id, or "" before the bootstrap snapshot.
func (m *Image) ClusterID() string { return m.clusterID }

// Voters returns the members of the metadata quorum; shared, read only.
func (m *Image) Voters() []Voter { return m.voters }

// Topic returns the topic called name, or nil. It does not allocate.
func (m *Image) Topic(name string) *Topic {
	t, _ := m.byName.get(name)
	return t
}

// TopicByID returns the topic with this id, or nil. It does not allocate.
func (m *Image) TopicByID(id model.TopicID) *Topic {
	t, _ := m.byID.get(id)
	return t
}

// Partition returns one partition by topic name, or nil. It does not allocate.
func (m *Image) Partition(topic string, p int32) *PartitionRegistration {
	if t := m.Topic(topic); t != nil {
		return t.Partition(p)
	}
	return nil
}

// PartitionByID returns one partition by topic id, or nil. It does not allocate.
func (m *Image) PartitionByID(tp model.TopicIDPartition) *PartitionRegistration {
	if t := m.TopicByID(tp.TopicID); t != nil {
		return t.Partition(tp.Partition)
	}
	return nil
}

// Topics yields every topic in the order of their names.
func (m *Image) Topics() iter.Seq[*Topic] { return values(m.byName.all()) }

// TopicsFrom yields the topics whose names are at or above name, in order.
func (m *Image) TopicsFrom(name string) iter.Seq[*Topic] { return values(m.byName.from(name)) }

func values[K, V any](s iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range s {
			if !yield(v) {
				return
			}
		}
	}
}

// NumTopics returns the number of topics.
func (m *Image) NumTopics() int { return m.byName.size }

// NumPartitions returns the number of partitions of all topics.
func (m *Image) NumPartitions() int { return m.partitions }

// Broker returns the registration of a broker, fenced or not, or nil.
func (m *Image) Broker(id model.BrokerID) *BrokerRegistration {
	if i, ok := m.brokerIndex(id); ok {
		return m.brokers[i]
	}
	return nil
}

func (m *Image) brokerIndex(id model.BrokerID) (int, bool) {
	lo, hi := 0, len(m.brokers)
	for lo < hi {
		mid := (lo + hi) / 2
		if m.brokers[mid].ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(m.brokers) && m.brokers[lo].ID == id
}

// Brokers returns every registered broker, fenced ones too, sorted by id;
// shared, read only.
func (m *Image) Brokers() []*BrokerRegistration { return m.brokers }

// Config returns the dynamic settings of a resource; shared, read only, nil if
// there are none.
func (m *Image) Config(t ResourceType, name string) map[string]string {
	c, _ := m.configs.get(Resource{Type: t, Name: name})
	return c
}

// ConfigResources yields every resource that has dynamic settings, with them.
func (m *Image) ConfigResources() iter.Seq2[Resource, map[string]string] { return m.configs.all() }

// Features returns the finalized features sorted by name; shared, read only.
func (m *Image) Features() []Feature { return m.features }

// Feature returns the finalized level of a feature, 0 if it has none.
func (m *Image) Feature(name string) int16 {
	for _, f := range m.features {
		if f.Name == name {
			return f.Level
		}
	}
	return 0
}

// NextProducerID returns the first producer id that no broker owns.
func (m *Image) NextProducerID() model.ProducerID { return m.producers.Next }
