package host

import (
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/partition"
)

// Code is an error code of the Kafka protocol.
type Code = partition.Code

// State is what a partition was at one moment. It is immutable, and any
// goroutine may read it. A later State may exist by the time it is used; what
// it says of the log below its ends stays true.
type State struct {
	partition.Mark
	// Durable is the end below which this replica survives a power failure.
	Durable model.Offset
	// RecoveryPoint is the offset from which recovery would scan the log.
	RecoveryPoint model.Offset
	// View reads the log; nil when the partition is offline.
	View *log.View
	// Standing is what changes rarely.
	*Standing
}

// Standing is the part of a State that appends don't change.
type Standing struct {
	// Code is what every request is answered with while the partition is
	// offline, else 0.
	Code Code
	// Reason says in words why it is offline.
	Reason string
	// Remnant is what an offline partition serves all the same, to readers only; nil if
	// nothing.
	Remnant *Remnant
	// Leader is the present leader, model.NoLeader if none.
	Leader         model.BrokerID
	PartitionEpoch model.PartitionEpoch
	// EpochStart is the log end at which this replica's leadership began, -1 if
	// it doesn't lead.
	EpochStart model.Offset
	// ISR is the committed in-sync set, known to the leader only; read only.
	ISR []model.BrokerID
	// Replicas are all assigned replicas; read only.
	Replicas []model.BrokerID
	// MinISR is the effective min.insync.replicas.
	MinISR int
	// Config is the topic's settings; read only.
	Config *config.Topic

	epochs *epoch.Cache // frozen
}

// ReadCode answers a reader before it looks at the log: whether this replica may
// be read in that role. mustLead is false for consumers that may read from a
// follower (Fetch v11 and later, and debugging consumers). currentEpoch is the
// leader epoch that the client believes in, or -1. Source: KIP-320, KIP-392.
func (s *State) ReadCode(mustLead bool, currentEpoch model.LeaderEpoch) Code {
	if s.Role == partition.Offline && s.Remnant == nil {
		return s.Code
	}
	if c := s.CheckEpoch(currentEpoch); c != partition.CodeNone {
		return c
	}
	if mustLead && s.Role != partition.Leader && s.Remnant == nil {
		return partition.CodeNotLeaderOrFollower
	}
	return partition.CodeNone
}

// Reader is what consumers read from: the log or, of a damaged partition that still
// serves, what lies below the damage; nil if there is neither.
func (s *State) Reader() *log.View {
	if s.View == nil && s.Remnant != nil {
		return s.Remnant.view
	}
	return s.View
}

// Isolation is a reader's isolation level with Kafka's numbers.
type Isolation int8

// The isolation levels.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// BoundOf returns the end that a client with this isolation level waits for.
func BoundOf(i Isolation) partition.Bound {
	if i == ReadCommitted {
		return partition.BoundLastStable
	}
	return partition.BoundHighWatermark
}

// FetchBounds says what a consumer's fetch from an offset may read.
type FetchBounds struct {
	// Code is not 0 when the partition is answered with an error.
	Code Code
	// Diverging is set (Epoch ≥ 0) when the client's log ends differently; it
	// gets this instead of records.
	Diverging model.OffsetAndEpoch
	// End is the exclusive end of what may be read.
	End model.Offset
	// Poll is true when there is nothing to read now and waiting makes sense.
	// An offset between End and LogEnd is legal, has nothing to read, and is
	// answered at once.
	Poll bool
}

// FetchBounds judges a consumer's fetch. lastEpoch is the epoch of the client's
// last record or -1. Source: KIP-320; Kafka answers an offset outside
// [LogStart, LogEnd] with OFFSET_OUT_OF_RANGE.
func (s *State) FetchBounds(from model.Offset, currentEpoch, lastEpoch model.LeaderEpoch, i Isolation, mustLead bool) FetchBounds {
	b := FetchBounds{Diverging: model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}}
	if b.Code = s.ReadCode(mustLead, currentEpoch); b.Code != partition.CodeNone {
		return b
	}
	b.End = s.Bound(BoundOf(i))
	if s.Remnant != nil {
		s.Remnant.judge(&b, s, from, lastEpoch)
		return b
	}
	switch verdict, end := s.epochs.Compare(from, lastEpoch, s.LogStart, s.LogEnd); {
	case verdict == epoch.Diverged:
		b.Diverging = end
		return b
	case verdict == epoch.OutOfRange, from < s.LogStart, from > s.LogEnd:
		b.Code = partition.CodeOffsetOutOfRange
		return b
	}
	b.Poll = from == b.End
	return b
}

// EpochFor returns the leader epoch of the record at o, -1 if unknown.
func (s *State) EpochFor(o model.Offset) model.LeaderEpoch {
	if s.epochs == nil {
		return model.NoEpoch
	}
	if e, ok := s.epochs.EpochFor(o); ok {
		return e
	}
	return model.NoEpoch
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: where the asked epoch ends in
// this log. Only the leader answers. An epoch it knows nothing of gives no error
// and (-1, -1). Source: KIP-101, KIP-279, KIP-320.
func (s *State) EndOffsetForEpoch(asked, currentEpoch model.LeaderEpoch) (model.OffsetAndEpoch, Code) {
	none := model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}
	if c := s.ReadCode(true, currentEpoch); c != partition.CodeNone {
		return none, c
	}
	if s.Remnant != nil {
		return s.Remnant.endOffsetFor(asked)
	}
	return s.epochs.EndOffsetFor(asked, s.LogEnd), partition.CodeNone
}
