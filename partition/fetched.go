package partition

import (
	"errors"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Position says where a follower's log ends and in whose name it follows. A
// fetch is sent with it, and the answer counts only while all three still hold:
// offset and leader epoch alone could match a log that was cut and refilled
// meanwhile.
type Position struct {
	// LeaderEpoch is the epoch that is followed.
	LeaderEpoch model.LeaderEpoch
	// Offset is the log's end.
	Offset model.Offset
	// LastEpoch is the newest epoch in the log, or NoEpoch.
	LastEpoch model.LeaderEpoch
}

// Follow says whom this replica follows from now on, and from where. Leader is
// NoLeader when it follows nobody: whoever fetches for it stops.
type Follow struct {
	Leader model.BrokerID
	Position
	// LogStart and HighWatermark are this replica's; a fetch reports them.
	LogStart      model.Offset
	HighWatermark model.Offset
}

// AnswerKind says what the leader answered to a follower's fetch.
type AnswerKind uint8

// The kinds of answer.
const (
	// AnswerRecords: what follows Asked, perhaps nothing, and the leader's high
	// watermark and log start.
	AnswerRecords AnswerKind = iota
	// AnswerDiverging: the log must be cut first, see Fetched.Diverging.
	AnswerDiverging
	// AnswerBounds: the fetch was out of range; Fetched.LeaderStart and LeaderEnd
	// are the bounds of the leader's log, asked for afterwards.
	AnswerBounds
)

// Fetched is a leader's answer to a fetch of this partition and, once emitted,
// what became of it. The caller keeps it and the records' bytes until then.
type Fetched struct {
	Kind AnswerKind
	// Asked is the position that the fetch was sent with.
	Asked Position
	// Records is what came, for AnswerRecords.
	Records Records
	// HighWatermark and LogStart are the leader's, for AnswerRecords.
	HighWatermark model.Offset
	LogStart      model.Offset
	// Diverging is the largest epoch not above Asked.LastEpoch that the leader
	// knows, and where it ends there; for AnswerDiverging. Source: KIP-595.
	Diverging model.OffsetAndEpoch
	// LeaderStart and LeaderEnd are for AnswerBounds. LeaderStart is NoOffset if
	// the leader's end was below ours, so that its start doesn't matter.
	LeaderStart model.Offset
	LeaderEnd   model.Offset
	// Token is the caller's; the core only carries it.
	Token any

	// Progress is filled in before the Fetched is emitted.
	Progress Progress

	appended int // bytes of Records that are in the log or were dropped
}

// Outcome is what became of an answer.
type Outcome uint8

// The outcomes.
const (
	// OutcomeApplied: fetch on from Progress.Position.
	OutcomeApplied Outcome = iota + 1
	// OutcomeStale: it answers another position than the present one, or nobody
	// is followed any more. Nothing of it was used.
	OutcomeStale
	// OutcomeCorrupt: at Progress.Position.Offset came a batch that is none. What
	// stood before it was appended.
	OutcomeCorrupt
	// OutcomeRefused: the disk refused; nothing is lost, and the same can be
	// fetched again later.
	OutcomeRefused
	// OutcomeStuck: the answer changed nothing though it should have. Asking the
	// same again at once would be asking for ever.
	OutcomeStuck
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	names := [...]string{"?", "applied", "stale", "corrupt", "refused", "stuck"}
	if int(o) < len(names) {
		return names[o]
	}
	return names[0]
}

// Progress is where a follower stands after an answer.
type Progress struct {
	Outcome Outcome
	// Position is what to fetch with next.
	Position Position
	// Following is false when the replica doesn't follow any more.
	Following bool
	// LogStart and HighWatermark are this replica's.
	LogStart      model.Offset
	HighWatermark model.Offset
	// Bytes were appended.
	Bytes int
	// Truncated is true when something was cut off, be it an epoch without
	// records.
	Truncated bool
	// Why explains OutcomeCorrupt, and an OutcomeStuck that may be one.
	Why error
}

// Records is what a fetch answer brought for a partition, looked at outside the
// loop: the whole batches at its beginning whose structure and CRC are right.
type Records struct {
	set    []byte
	damage error
}

// errPiece: an answer with records begins with a whole batch (KIP-74). One that
// reaches beyond the answer has another length than was written, and the same
// would be asked for without end.
var errPiece = errors.New("the first batch is longer than the answer")

// CheckRecords walks an answer's bytes. A batch that is cut at the end is no
// damage: answers end anywhere (KIP-74), but for the first one.
func CheckRecords(b []byte) Records {
	it := record.NewIter(b)
	for it.Next() {
		if err := it.Batch().CheckCRC(); err != nil {
			return Records{set: b[:it.Pos()], damage: err}
		}
	}
	err := it.Err()
	if err == nil && it.Pos() == 0 && len(b) > 0 {
		err = errPiece
	}
	return Records{set: b[:it.Pos()], damage: err}
}

// Len returns how many bytes of whole, sound batches there are.
func (r *Records) Len() int { return len(r.set) }

// Damage says why the bytes behind them are no batch; nil if they are only cut.
func (r *Records) Damage() error { return r.damage }
