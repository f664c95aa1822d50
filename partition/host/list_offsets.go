package host

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// The special timestamps of ListOffsets.
const (
	TimestampLatest                model.Timestamp = -1
	TimestampEarliest              model.Timestamp = -2
	TimestampMax                   model.Timestamp = -3 // KIP-734
	TimestampEarliestLocal         model.Timestamp = -4 // KIP-405
	TimestampLatestTiered          model.Timestamp = -5 // KIP-1005
	TimestampEarliestPendingUpload model.Timestamp = -6 // KIP-1023
)

// DebuggingReplica is the replica id of a debugging consumer, which may read any
// replica and sees the log end.
const DebuggingReplica model.BrokerID = -2

// ListOffsetsQuery asks for one partition's offset.
type ListOffsetsQuery struct {
	Timestamp model.Timestamp
	// CurrentEpoch is the leader epoch that the client believes in, or -1.
	CurrentEpoch model.LeaderEpoch
	// Replica is -1 for a client, DebuggingReplica, or a follower's id.
	Replica   model.BrokerID
	Isolation Isolation
	// Version is the request's; it decides which timestamps exist and which code
	// says that an offset is not available yet.
	Version int16
}

// ListOffsetsResult is the answer; Offset and Timestamp are -1 when nothing was
// found, which is not an error.
type ListOffsetsResult struct {
	Code        Code
	Offset      model.Offset
	Timestamp   model.Timestamp
	LeaderEpoch model.LeaderEpoch
}

// ListOffsets answers from this State; a lookup by timestamp reads the log, so it
// is not called in a loop.
func (s *State) ListOffsets(q ListOffsetsQuery) ListOffsetsResult {
	none := ListOffsetsResult{Offset: model.NoOffset, Timestamp: model.NoTimestamp, LeaderEpoch: model.NoEpoch}
	if !timestampExists(q.Timestamp, q.Version) {
		none.Code = partition.CodeUnsupportedVersion
		return none
	}
	if none.Code = s.ReadCode(q.Replica != DebuggingReplica, q.CurrentEpoch); none.Code != partition.CodeNone {
		return none
	}
	if s.Remnant != nil {
		if q.Replica >= 0 {
			none.Code = s.Code // no replica may become complete from this one
			return none
		}
		q.Replica = -1 // nobody sees more than clients do
	}
	client := q.Replica == -1
	bound := s.LogEnd
	if client {
		bound = s.Bound(BoundOf(q.Isolation))
	}
	// After an election the high watermark may lag behind what the last leader
	// had exposed; until it has passed the start of this epoch an offset near it
	// would go backwards.
	lagging := client && s.EpochStart > s.HighWatermark
	notYet := none
	notYet.Code = partition.CodeOffsetNotAvailable
	if q.Version < 5 {
		notYet.Code = partition.CodeLeaderNotAvailable
	}
	at := func(o model.Offset) ListOffsetsResult {
		return ListOffsetsResult{Offset: o, Timestamp: model.NoTimestamp, LeaderEpoch: s.EpochFor(o)}
	}
	switch q.Timestamp {
	case TimestampEarliest, TimestampEarliestLocal:
		return at(s.LogStart)
	case TimestampLatestTiered, TimestampEarliestPendingUpload:
		return none // nothing is tiered
	case TimestampLatest:
		if lagging {
			return notYet
		}
		r := at(bound)
		r.LeaderEpoch = s.LeaderEpoch
		return r
	case TimestampMax:
		if s.Remnant != nil {
			none.Code = s.Code // it may lie behind the damage
			return none
		}
	}
	found, ok, err := s.lookup(q.Timestamp, bound)
	switch {
	case !ok && s.Remnant != nil:
		none.Code = s.Code // it may lie behind the damage
		return none
	case err != nil:
		none.Code = partition.CodeStorageError
		return none
	case !ok && lagging:
		return notYet
	case !ok:
		return none
	}
	r := at(found.Offset)
	r.Timestamp = found.Timestamp
	return r
}

// lookup finds the first record at or after ts, or the one with the greatest
// timestamp, below bound.
func (s *State) lookup(ts model.Timestamp, bound model.Offset) (log.TimestampOffset, bool, error) {
	if ts == TimestampMax {
		return s.Reader().MaxTimestamp(bound)
	}
	found, ok, err := s.Reader().OffsetForTimestamp(ts, bound)
	return found, ok && found.Offset < bound, err
}

// timestampExists says whether a request of that version may name ts.
func timestampExists(ts model.Timestamp, version int16) bool {
	switch ts {
	case TimestampLatest, TimestampEarliest:
		return true
	case TimestampMax:
		return version >= 7
	case TimestampEarliestLocal:
		return version >= 8
	case TimestampLatestTiered:
		return version >= 9
	case TimestampEarliestPendingUpload:
		return version >= 11
	}
	return ts >= 0
}
