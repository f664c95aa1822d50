package producer

import "github.com/tidemark/tidemark/internal/model"

// CachedBatchesMax is how many of a producer's latest batches are remembered.
// A producer may have that many requests in flight, and may retry any of them.
const CachedBatchesMax = 5

// BatchMeta is one remembered batch.
type BatchMeta struct {
	// FirstSeq and LastSeq are the sequences of its first and last record, both
	// NoSequence if the batch carried none (offset commits of a transaction).
	FirstSeq, LastSeq model.Sequence
	// LastOffset is the offset of its last record.
	LastOffset model.Offset
	// OffsetDelta is LastOffset minus the offset of the first record.
	OffsetDelta int32
	// Timestamp is the batch's maxTimestamp as appended: with LogAppendTime the
	// time that a duplicate has to be answered with.
	Timestamp model.Timestamp
}

// FirstOffset is the offset of the batch's first record.
func (m BatchMeta) FirstOffset() model.Offset { return m.LastOffset - model.Offset(m.OffsetDelta) }

// Entry is the state of one producer.
type Entry struct {
	// ProducerID is the producer's number.
	ProducerID model.ProducerID
	// Epoch is the epoch of the last batch or marker. A lower one is fenced.
	Epoch model.ProducerEpoch
	// CoordinatorEpoch is the epoch of the transaction coordinator that wrote
	// the last marker; -1 before the first.
	CoordinatorEpoch int32
	// TxnFirstOffset is where the open transaction begins; NoOffset when there
	// is none.
	TxnFirstOffset model.Offset
	// LastTimestamp is that of the last batch or marker; expiry goes by it.
	LastTimestamp model.Timestamp

	// batches[:count] are the latest batches of Epoch, oldest first.
	batches [CachedBatchesMax]BatchMeta
	count   int
}

// Batches returns the remembered batches of the present epoch, oldest first.
// The slice aliases e.
func (e *Entry) Batches() []BatchMeta { return e.batches[:e.count] }

// LastSeq is the sequence of the last record of the present epoch, NoSequence
// if nothing was written in it.
func (e *Entry) LastSeq() model.Sequence {
	if e.count == 0 {
		return model.NoSequence
	}
	return e.batches[e.count-1].LastSeq
}

// LastOffset is the offset of that record, or NoOffset.
func (e *Entry) LastOffset() model.Offset {
	if e.count == 0 {
		return model.NoOffset
	}
	return e.batches[e.count-1].LastOffset
}

// HasOpenTxn reports whether a transaction is open.
func (e *Entry) HasOpenTxn() bool { return e.TxnFirstOffset != model.NoOffset }

// newEntry returns the state of a producer that was never heard of.
func newEntry(id model.ProducerID) Entry {
	return Entry{
		ProducerID:       id,
		Epoch:            model.NoProducerEpoch,
		CoordinatorEpoch: -1,
		TxnFirstOffset:   model.NoOffset,
		LastTimestamp:    model.NoTimestamp,
	}
}

// find returns the remembered batch with exactly these sequences.
func (e *Entry) find(first, last model.Sequence) (BatchMeta, bool) {
	if first < 0 {
		return BatchMeta{}, false
	}
	for i := range e.count {
		if m := &e.batches[i]; m.FirstSeq == first && m.LastSeq == last {
			return *m, true
		}
	}
	return BatchMeta{}, false
}

// follows reports whether a batch that begins with first may come next.
func (e *Entry) follows(first model.Sequence) bool { return first == e.LastSeq().Add(1) }

// enterEpoch forgets the batches of another epoch.
func (e *Entry) enterEpoch(epoch model.ProducerEpoch) {
	if e.Epoch != epoch {
		e.Epoch = epoch
		e.count = 0
	}
}

// push remembers a batch in place of the oldest.
func (e *Entry) push(m BatchMeta) {
	if e.count == CachedBatchesMax {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = m
	e.count++
}

// expired reports whether the producer was silent for ttlMs at time now. One
// with an open transaction never is: its state says where the LSO stands.
func (e *Entry) expired(now model.Timestamp, ttlMs int64) bool {
	if e.HasOpenTxn() || now < e.LastTimestamp {
		return false
	}
	// As unsigned numbers the difference can't overflow, whatever timestamp a
	// client has sent.
	return uint64(now)-uint64(e.LastTimestamp) >= uint64(max(ttlMs, 0))
}

// Last says which batch of a producer is its last one.
type Last struct {
	ProducerID model.ProducerID
	Epoch      model.ProducerEpoch
	// Offset is that of its last record, NoOffset if there are only markers.
	Offset model.Offset
}
