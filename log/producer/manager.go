package producer

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// StateManager holds the state of all producers of one partition. Make it with
// New. Owned by the partition's loop.
type StateManager struct {
	producers map[model.ProducerID]*Entry // nil until there is one
	// txns knows which transactions are open, and which are decided but may
	// not be replicated yet.
	txns txns
	// mapEnd is the offset after the last batch that Update has seen: the name
	// of the snapshot that Marshal would give.
	mapEnd model.Offset
}

// New returns a StateManager that knows no producer and begins at offset 0.
func New() *StateManager {
	return &StateManager{}
}

// Update applies one batch that is in the log, with its final offsets. It
// returns the transaction that the batch, being a marker, has ended. A batch
// without a producer id only moves MapEnd.
//
// Update doesn't judge: followers and recovery apply what the leader wrote,
// even where a check would have refused it.
func (m *StateManager) Update(b record.Batch) (CompletedTxn, bool) {
	m.mapEnd = b.NextOffset()
	if !b.HasProducerID() {
		return CompletedTxn{}, false
	}
	if b.IsControl() {
		marker, ok, err := b.Marker()
		if !ok || err != nil {
			// Compaction has removed the record with its transaction, or it is
			// a control record of another kind. Bytes that are no marker end no
			// transaction; whoever read the batch has checked and told.
			return CompletedTxn{}, false
		}
		return m.applyMarker(b, marker)
	}
	e := m.entry(b.ProducerID())
	e.enterEpoch(b.ProducerEpoch())
	e.push(BatchMeta{
		FirstSeq:    b.BaseSequence(),
		LastSeq:     b.LastSequence(),
		LastOffset:  b.LastOffset(),
		OffsetDelta: b.LastOffsetDelta(),
		Timestamp:   b.MaxTimestamp(),
	})
	e.LastTimestamp = b.MaxTimestamp()
	if b.IsTransactional() && !e.HasOpenTxn() {
		e.TxnFirstOffset = b.BaseOffset()
		m.txns.begin(e.ProducerID, e.TxnFirstOffset)
	}
	return CompletedTxn{}, false
}

// Completes returns what Update would return for b, and changes nothing. The
// log uses it to write the transaction index before the state moves, because a
// failed write has to leave the state as it was.
func (m *StateManager) Completes(b record.Batch) (CompletedTxn, bool) {
	if !b.HasProducerID() || !b.IsControl() {
		return CompletedTxn{}, false
	}
	e := m.producers[b.ProducerID()]
	if e == nil || !e.HasOpenTxn() {
		return CompletedTxn{}, false
	}
	marker, ok, err := b.Marker()
	if !ok || err != nil {
		return CompletedTxn{}, false
	}
	return m.completed(e, b, marker), true
}

// Lookup returns a copy of a producer's state.
func (m *StateManager) Lookup(id model.ProducerID) (Entry, bool) {
	if e := m.producers[id]; e != nil {
		return *e, true
	}
	return Entry{}, false
}

// Each calls fn with every producer's state in the order of ids; fn must not
// keep or change it.
func (m *StateManager) Each(fn func(e *Entry)) {
	for _, id := range m.sortedIDs() {
		fn(m.producers[id])
	}
}

// LastBelow appends to dst every producer whose last record lies below o, or who
// has none, in no order.
func (m *StateManager) LastBelow(o model.Offset, dst []Last) []Last {
	for _, e := range m.producers { // order-free: the caller makes a set of it
		if at := e.LastOffset(); at < o {
			dst = append(dst, Last{ProducerID: e.ProducerID, Epoch: e.Epoch, Offset: at})
		}
	}
	return dst
}

// Len returns the number of known producers.
func (m *StateManager) Len() int { return len(m.producers) }

// MapEnd is the offset up to which (exclusive) the state has been built.
func (m *StateManager) MapEnd() model.Offset { return m.mapEnd }

// Expire forgets the producers that were silent for ttlMs milliseconds
// (producer.id.expiration.ms) at time now, by the timestamp of their last
// batch or marker, and returns how many. One with an open transaction stays.
func (m *StateManager) Expire(now model.Timestamp, ttlMs int64) int {
	n := 0
	for id, e := range m.producers { // order-free
		if e.expired(now, ttlMs) {
			delete(m.producers, id)
			n++
		}
	}
	return n
}

// Reset forgets everything; the state will be built anew from offset end on.
func (m *StateManager) Reset(end model.Offset) {
	clear(m.producers)
	m.txns.reset()
	m.mapEnd = end
}

// applyMarker ends the producer's transaction, if one is open. A marker also
// counts as a sign of life and may carry a new epoch.
func (m *StateManager) applyMarker(b record.Batch, marker record.Marker) (done CompletedTxn, ok bool) {
	e := m.entry(b.ProducerID())
	if e.HasOpenTxn() {
		done, ok = m.completed(e, b, marker), true
		m.txns.complete(done)
	}
	e.enterEpoch(b.ProducerEpoch())
	e.CoordinatorEpoch = marker.CoordinatorEpoch
	e.TxnFirstOffset = model.NoOffset
	e.LastTimestamp = b.MaxTimestamp() // a control batch holds one record
	return done, ok
}

func (m *StateManager) completed(e *Entry, b record.Batch, marker record.Marker) CompletedTxn {
	return CompletedTxn{
		ProducerID:       e.ProducerID,
		FirstOffset:      e.TxnFirstOffset,
		LastOffset:       b.BaseOffset(),
		LastStableOffset: m.txns.stableWithout(e.ProducerID, b.BaseOffset()),
		Aborted:          marker.Type == record.Abort,
	}
}

// entry returns the producer's state, making it if need be.
func (m *StateManager) entry(id model.ProducerID) *Entry {
	e := m.producers[id]
	if e == nil {
		fresh := newEntry(id)
		e = &fresh
		m.put(e)
	}
	return e
}

// put enters a producer. Most of many partitions never have one.
func (m *StateManager) put(e *Entry) {
	if m.producers == nil {
		m.producers = make(map[model.ProducerID]*Entry)
	}
	m.producers[e.ProducerID] = e
}

func (m *StateManager) sortedIDs() []model.ProducerID {
	ids := make([]model.ProducerID, 0, len(m.producers))
	for id := range m.producers { // order-free: sorted below
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
