package producer

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Verdict is what a leader must answer to a batch.
type Verdict uint8

const (
	// OK: append it.
	OK Verdict = iota
	// Duplicate: the batch is in the log already; answer with its old place.
	Duplicate
	// FencedEpoch: a newer instance of the producer is known
	// (INVALID_PRODUCER_EPOCH, 47).
	FencedEpoch
	// OutOfOrder: a gap, or a retry too old to be remembered
	// (OUT_OF_ORDER_SEQUENCE_NUMBER, 45).
	OutOfOrder
	// InvalidTxnState: a batch outside the transaction that is open
	// (INVALID_TXN_STATE, 48).
	InvalidTxnState
	// CoordinatorFenced: a marker from an old coordinator
	// (TRANSACTION_COORDINATOR_FENCED, 52).
	CoordinatorFenced
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	switch v {
	case OK:
		return "ok"
	case Duplicate:
		return "duplicate"
	case FencedEpoch:
		return "fenced epoch"
	case OutOfOrder:
		return "out of order"
	case InvalidTxnState:
		return "invalid transaction state"
	case CoordinatorFenced:
		return "coordinator fenced"
	}
	return "unknown"
}

// Check is a Verdict with the numbers that belong in the answer. It is passed
// by value and holds no pointer.
type Check struct {
	Kind Verdict
	// First, Last and Timestamp place a Duplicate: the offsets of the original
	// batch and its maxTimestamp as appended. The answer carries First, and
	// Timestamp if the topic uses LogAppendTime; acks=all waits for Last+1.
	First, Last model.Offset
	Timestamp   model.Timestamp
	// KnownEpoch and Expected are for messages of refusals: the producer's
	// epoch and next sequence as this log knows them.
	KnownEpoch model.ProducerEpoch
	Expected   model.Sequence
	// KnownCoordinator is the coordinator epoch as this log knows it.
	KnownCoordinator int32
}

// Check judges one data batch of a client before it is appended, in Kafka's
// order: duplicate, epoch, sequence, transaction state. It changes nothing. A
// batch without a producer id is always OK.
func (m *StateManager) Check(b record.Batch) Check {
	if !b.HasProducerID() {
		return Check{}
	}
	e := m.producers[b.ProducerID()]
	if e == nil {
		// Expired, or its records were deleted: any sequence may come next.
		return Check{}
	}
	epoch := b.ProducerEpoch()
	if epoch == e.Epoch {
		if d, ok := e.find(b.BaseSequence(), b.LastSequence()); ok {
			return Check{Kind: Duplicate, First: d.FirstOffset(), Last: d.LastOffset, Timestamp: d.Timestamp}
		}
	}
	if epoch < e.Epoch {
		return e.refuse(FencedEpoch)
	}
	if !e.inSequence(epoch, b.BaseSequence()) {
		return e.refuse(OutOfOrder)
	}
	return e.checkTxn(b)
}

// CheckCoordinator judges a data batch that a coordinator of ours appends for
// a producer (offset commits in a transaction). Such batches carry no
// sequence: only epoch and transaction state count.
func (m *StateManager) CheckCoordinator(b record.Batch) Check {
	if !b.HasProducerID() {
		return Check{}
	}
	e := m.producers[b.ProducerID()]
	if e == nil {
		return Check{}
	}
	if b.ProducerEpoch() < e.Epoch {
		return e.refuse(FencedEpoch)
	}
	return e.checkTxn(b)
}

// CheckMarker judges an end-of-transaction marker before a leader appends it.
// txnVersion is that of the WriteTxnMarkers request. From version 2 on the
// coordinator raises the epoch for each marker, so that an equal one is late,
// unless no transaction is open: then it is a harmless repetition (KIP-890,
// KIP-1228).
func (m *StateManager) CheckMarker(
	id model.ProducerID, epoch model.ProducerEpoch, coordinatorEpoch int32, txnVersion int16,
) Check {
	e := m.producers[id]
	if e == nil {
		return Check{}
	}
	late := epoch < e.Epoch
	if txnVersion >= 2 && epoch == e.Epoch && e.HasOpenTxn() {
		late = true
	}
	switch {
	case late:
		return e.refuse(FencedEpoch)
	case coordinatorEpoch < e.CoordinatorEpoch:
		return e.refuse(CoordinatorFenced)
	}
	return Check{}
}

// inSequence reports whether a batch of this epoch may begin with first.
func (e *Entry) inSequence(epoch model.ProducerEpoch, first model.Sequence) bool {
	if epoch == e.Epoch {
		return e.follows(first)
	}
	// A new instance begins at zero. An entry without epoch knows nothing that
	// could be contradicted.
	return first == 0 || e.Epoch == model.NoProducerEpoch
}

// checkTxn refuses a plain batch in the middle of a transaction.
func (e *Entry) checkTxn(b record.Batch) Check {
	if e.HasOpenTxn() && !b.IsTransactional() {
		return e.refuse(InvalidTxnState)
	}
	return Check{}
}

func (e *Entry) refuse(v Verdict) Check {
	return Check{
		Kind:             v,
		KnownEpoch:       e.Epoch,
		Expected:         e.LastSeq().Add(1),
		KnownCoordinator: e.CoordinatorEpoch,
	}
}
