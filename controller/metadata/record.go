package metadata

import "github.com/tidemark/tidemark/internal/model"

// Kind is the tag of a Record in the metadata log. Numbers are never reused.
type Kind uint16

// The record kinds.
const (
	KindNoOp Kind = iota + 1
	KindCluster
	KindVoters
	KindFeature
	KindRegisterBroker
	KindUnregisterBroker
	KindBrokerChange
	KindBrokerEpochBump
	KindTopic
	KindPartition
	KindPartitionChange
	KindRemoveTopic
	KindConfig
	KindProducerIDs
	KindReplicaEnd
)

// Values of PartitionChange fields that mean "leave as it is".
const (
	NoLeaderChange   model.BrokerID = -2
	NoRecoveryChange RecoveryState  = -1
)

// Stop says how the previous life of a broker ended, which decides whether what
// it acknowledged is still on its disk.
type Stop uint8

// The kinds of stop.
const (
	StopClean   Stop = iota // flushed and marked: keeps its seats in ISR and ELR
	StopProcess             // the process died, the page cache survived: keeps them
	StopPower               // anything else: loses them
)

// Record is one record of the metadata log: one of the types of this file. The
// set is closed.
type Record interface {
	Kind() Kind
	code(c *coder)
}

// NoOp changes nothing but the offset of the image.
type NoOp struct{}

// Cluster sets the cluster id; it is in the bootstrap snapshot only.
type Cluster struct{ ID string }

// Voters replaces the voter set. The consensus library keeps its own account of
// it (ConfState); this record carries what the library does not know.
type Voters struct{ Voters []Voter }

// FeatureLevel finalizes a feature; level 0 removes it.
type FeatureLevel struct{ Feature }

// RegisterBroker registers an incarnation, fenced unless the record says
// otherwise (a snapshot does).
type RegisterBroker struct {
	ID model.BrokerID
	// Epoch is NoBrokerEpoch in the log: Apply fills in the offset of the entry.
	Epoch       model.BrokerEpoch
	Incarnation Incarnation
	Listeners   []Listener
	Features    []FeatureRange
	Rack        string
	Directories []DirectoryID
	Fenced      bool
	InShutdown  bool
}

// UnregisterBroker forgets a broker.
type UnregisterBroker struct {
	ID    model.BrokerID
	Epoch model.BrokerEpoch
}

// Switch is a change of a flag.
type Switch uint8

// The values of a Switch.
const (
	Keep Switch = iota
	Set
	Clear
)

// BrokerChange fences, unfences, or changes the directories of a broker. It
// fails to apply if Epoch is not the registered one.
type BrokerChange struct {
	ID         model.BrokerID
	Epoch      model.BrokerEpoch
	Fenced     Switch
	InShutdown Switch
	// Directories that are online now; nil leaves them.
	Directories []DirectoryID
}

// BrokerEpochBump opens the registration of a new incarnation. Apply expands
// it: the broker is fenced, every partition it led gets leader −1 and a higher
// leader epoch even if it was the only replica, and the broker gives up its ISR
// and ELR seats as Stop and Damaged demand. One record stands for any number of
// partition changes, so the step is atomic.
type BrokerEpochBump struct {
	ID   model.BrokerID
	Stop Stop
	// Damaged replicas (quarantined or missing) lose their seats whatever Stop.
	Damaged []model.TopicIDPartition
}

// TopicRecord creates a topic without partitions.
type TopicRecord struct {
	Name string
	ID   model.TopicID
}

// PartitionRecord adds the next partition of a topic.
type PartitionRecord struct {
	TopicID   model.TopicID
	Partition int32
	PartitionRegistration
}

// PartitionChange changes one partition; nil slices and the "no change" values
// leave a field as it is. Apply raises the epochs, see PartitionRegistration.
type PartitionChange struct {
	TopicID          model.TopicID
	Partition        int32
	Replicas         []model.BrokerID
	ISR              []model.BrokerID
	ELR              []model.BrokerID
	LastKnown        []model.BrokerID
	Adding, Removing []model.BrokerID
	Directories      []DirectoryID
	Leader           model.BrokerID
	Recovery         RecoveryState
}

// NewPartitionChange returns a change of p that changes nothing yet.
func NewPartitionChange(id model.TopicID, p int32) *PartitionChange {
	return &PartitionChange{TopicID: id, Partition: p, Leader: NoLeaderChange, Recovery: NoRecoveryChange}
}

// RemoveTopic deletes a topic, its partitions and its settings.
type RemoveTopic struct{ ID model.TopicID }

// ConfigRecord sets or, with a nil Value, removes one dynamic setting.
type ConfigRecord struct {
	Resource
	Key   string
	Value *string
}

// ProducerIDs moves the end of the producer ids that were handed out. The block
// that ends at Next belongs to the broker.
type ProducerIDs struct {
	Broker model.BrokerID
	Epoch  model.BrokerEpoch
	Next   model.ProducerID
}

// ReplicaEnd notes what a broker found of one replica after a stop that cost it
// its seats: a last known member, see PartitionRegistration. The note goes when
// the replica is back in the ISR, with the next BrokerEpochBump of the broker,
// and with the topic.
type ReplicaEnd struct {
	Broker    model.BrokerID
	TopicID   model.TopicID
	Partition int32
	// End is the log's end and the epoch of its last batch, or ReplicaDamaged, or a
	// RemnantEnd.
	End model.OffsetAndEpoch
}

// ReplicaDamaged is the end of a replica that is quarantined or missing.
var ReplicaDamaged = model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}

// remnantEpoch in an end says that it is a RemnantEnd.
const remnantEpoch model.LeaderEpoch = -2

// RemnantEnd is the end of a replica that is quarantined, but can be read below an
// offset. The note stays while it leads for want of a better one.
func RemnantEnd(below model.Offset) model.OffsetAndEpoch {
	return model.OffsetAndEpoch{Offset: below, Epoch: remnantEpoch}
}

// IsRemnant reports whether an end is a RemnantEnd.
func IsRemnant(end model.OffsetAndEpoch) bool { return end.Epoch == remnantEpoch }

// Kind implements Record.
func (*NoOp) Kind() Kind { return KindNoOp }

// Kind implements Record.
func (*Cluster) Kind() Kind { return KindCluster }

// Kind implements Record.
func (*Voters) Kind() Kind { return KindVoters }

// Kind implements Record.
func (*FeatureLevel) Kind() Kind { return KindFeature }

// Kind implements Record.
func (*RegisterBroker) Kind() Kind { return KindRegisterBroker }

// Kind implements Record.
func (*UnregisterBroker) Kind() Kind { return KindUnregisterBroker }

// Kind implements Record.
func (*BrokerChange) Kind() Kind { return KindBrokerChange }

// Kind implements Record.
func (*BrokerEpochBump) Kind() Kind { return KindBrokerEpochBump }

// Kind implements Record.
func (*TopicRecord) Kind() Kind { return KindTopic }

// Kind implements Record.
func (*PartitionRecord) Kind() Kind { return KindPartition }

// Kind implements Record.
func (*PartitionChange) Kind() Kind { return KindPartitionChange }

// Kind implements Record.
func (*RemoveTopic) Kind() Kind { return KindRemoveTopic }

// Kind implements Record.
func (*ConfigRecord) Kind() Kind { return KindConfig }

// Kind implements Record.
func (*ProducerIDs) Kind() Kind { return KindProducerIDs }

// Kind implements Record.
func (*ReplicaEnd) Kind() Kind { return KindReplicaEnd }
