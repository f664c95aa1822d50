package compaction

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Aborted is an aborted transaction, as the transaction index has it.
type Aborted struct {
	ProducerID model.ProducerID
	// First is the offset of its first record, Last that of its marker.
	First, Last model.Offset
	// Stable is the last stable offset after the marker.
	Stable model.Offset
}

// txns follows transactions along the log.
type txns struct {
	// waiting are the aborted ones that begin further on, by First.
	waiting []Aborted
	// aborted are those that are open here. seen: a batch of it was met.
	aborted map[model.ProducerID]*openAborted
	// committed are producers with a batch of a transaction that is not aborted.
	committed map[model.ProducerID]bool
	// kept are the aborted ones whose markers stay, since batches of them do.
	kept []Aborted
}

type openAborted struct {
	Aborted
	seen bool
}

// newTxns takes every aborted transaction of which something may be met; doubles
// do no harm.
func newTxns(aborted []Aborted) txns {
	waiting := slices.Clone(aborted)
	slices.SortStableFunc(waiting, func(a, b Aborted) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		}
		return 0
	})
	return txns{
		waiting: waiting, aborted: make(map[model.ProducerID]*openAborted), committed: make(map[model.ProducerID]bool),
	}
}

// upTo opens the aborted transactions that begin at or below o.
func (t *txns) upTo(o model.Offset) {
	for len(t.waiting) > 0 && t.waiting[0].First <= o {
		if a := t.waiting[0]; t.aborted[a.ProducerID] == nil {
			t.aborted[a.ProducerID] = &openAborted{Aborted: a}
		}
		t.waiting = t.waiting[1:]
	}
}

// data takes a batch of records in, and reports whether it is of an aborted
// transaction.
func (t *txns) data(b record.Batch) (aborted bool) {
	t.upTo(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// control takes a control batch in, and reports whether it says nothing any more:
// it has no record, or is the marker of a transaction of which no batch is left.
func (t *txns) control(b record.Batch) (idle bool, err error) {
	t.upTo(b.LastOffset())
	if b.Count() == 0 {
		return true, nil
	}
	marker, ok, err := b.Marker()
	if err != nil || !ok {
		return false, err
	}
	id := b.ProducerID()
	if marker.Type == record.Commit {
		had := t.committed[id]
		delete(t.committed, id)
		return !had, nil
	}
	a := t.aborted[id]
	delete(t.aborted, id)
	if a == nil || !a.seen {
		return true, nil
	}
	t.kept = append(t.kept, a.Aborted)
	return false, nil
}
