package model

import (
	"encoding/base64"
	"fmt"
	"math"
)

// BrokerID is a node's number in the cluster (node.id). Source: KIP-500.
type BrokerID int32

// BrokerEpoch numbers one incarnation of a broker: the metadata log offset of
// its registration record. Source: KIP-631.
type BrokerEpoch int64

// Offset is the position of a record in a partition's log. Used as a bound it
// is exclusive: LogEndOffset is the offset the next record will get.
type Offset int64

// OffsetDelta is a distance between two offsets.
type OffsetDelta int64

// LeaderEpoch numbers the reigns of a partition's leaders. Source: KIP-101.
type LeaderEpoch int32

// PartitionEpoch rises with every change of a partition's registration.
type PartitionEpoch int32

// ProducerID names an idempotent or transactional producer. Source: KIP-98.
type ProducerID int64

// ProducerEpoch fences older instances of one ProducerID. Source: KIP-98.
type ProducerEpoch int16

// Sequence numbers the records of one (ProducerID, ProducerEpoch, partition).
// It wraps from 2^31-1 to 0. Source: KIP-98.
type Sequence int32

// Timestamp is a wall clock reading in milliseconds since the Unix epoch; it
// is what records carry. Timeouts never use it.
type Timestamp int64

// Instant is a monotonic clock reading in nanoseconds since an arbitrary
// start. Timeouts use it; it is never stored or sent.
type Instant int64

// Values that mean "none".
const (
	NoOffset        Offset         = -1
	NoEpoch         LeaderEpoch    = -1
	NoLeader        BrokerID       = -1
	NoBrokerEpoch   BrokerEpoch    = -1
	NoProducerID    ProducerID     = -1
	NoProducerEpoch ProducerEpoch  = -1
	NoSequence      Sequence       = -1
	NoTimestamp     Timestamp      = -1
	NoPartEpoch     PartitionEpoch = -1

	// Never is the deadline of a loop that waits for nothing.
	Never Instant = math.MaxInt64
)

// Next returns the offset after o.
func (o Offset) Next() Offset { return o + 1 }

// Add returns the offset d records after o.
func (o Offset) Add(d OffsetDelta) Offset { return o + Offset(d) }

// Sub returns how many offsets o lies after p.
func (o Offset) Sub(p Offset) OffsetDelta { return OffsetDelta(o - p) }

// Add returns the sequence n records after s, wrapping at 2^31.
func (s Sequence) Add(n int32) Sequence {
	return Sequence((int64(s) + int64(n)) & math.MaxInt32)
}

// Now is one reading of both clocks, taken once per drain of a loop and passed
// to everything that decides.
type Now struct {
	Mono Instant
	Wall Timestamp
}

// TopicID is a topic's UUID. Source: KIP-516.
type TopicID [16]byte

// NoTopicID is the zero UUID, which names no topic.
var NoTopicID TopicID

// String returns the URL-safe base64 form without padding that Kafka writes in
// partition.metadata and prints in its tools.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseTopicID is the inverse of String.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return id, fmt.Errorf("topic id %q: %w", s, err)
	}
	if len(b) != len(id) {
		return id, fmt.Errorf("topic id %q: %d bytes, want %d", s, len(b), len(id))
	}
	copy(id[:], b)
	return id, nil
}

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, which is also the partition's directory name.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// TopicIDPartition names a partition by its topic's id, which a deleted and
// re-created topic does not share with its predecessor.
type TopicIDPartition struct {
	TopicID   TopicID
	Partition int32
}

// String returns id-partition.
func (tp TopicIDPartition) String() string { return fmt.Sprintf("%s-%d", tp.TopicID, tp.Partition) }

// OffsetAndEpoch is a position together with the leader epoch (or, in the
// metadata log, the term) it was written in.
type OffsetAndEpoch struct {
	Offset Offset
	Epoch  LeaderEpoch
}

// String returns offset@epoch.
func (oe OffsetAndEpoch) String() string { return fmt.Sprintf("%d@%d", oe.Offset, oe.Epoch) }
