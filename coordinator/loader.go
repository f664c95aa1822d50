package coordinator

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// decompressedMax bounds what one batch of a coordinator's partition may expand
// to: 64 MiB.
const decompressedMax = 64 << 20

// Loader makes a machine out of a partition's log. It is fed the log's bytes in
// order by its shell, off the partition's loop, and owned by it until the machine
// is handed over.
type Loader struct {
	machine Machine
	next    model.Offset
	// undecided holds the records of transactions without their end. A
	// coordinator's own records are never transactional, but consumers' offsets
	// committed by transactional producers are.
	undecided map[model.ProducerID][]undecided
	sum       LoadSum
}

type undecided struct {
	at  model.Offset
	rec Record
}

// LoadSum says what a loading has seen.
type LoadSum struct {
	Batches, Records, Bytes int64
	// Damaged is how many batches could not be read and were passed over.
	Damaged int64
	// Undecided is how many records belong to transactions that had no end; they
	// count as not written.
	Undecided int64
}

// NewLoader returns a loader that expects the log to start at from.
func NewLoader(m Machine, from model.Offset) *Loader {
	return &Loader{machine: m, next: from, undecided: make(map[model.ProducerID][]undecided)}
}

// Next is the offset that is wanted next.
func (l *Loader) Next() model.Offset { return l.next }

// Feed takes whole batches, which may begin below Next, and what is committed.
// Bytes behind the last whole batch are left over: they come again. A batch that
// can't be read is passed over: its keys are lost, the rest loads. The error is
// for bytes that can't even be walked.
func (l *Loader) Feed(set []byte, high model.Offset) error {
	it := record.NewIter(set)
	for it.Next() {
		b := it.Batch()
		if b.LastOffset() < l.next {
			continue
		}
		l.sum.Batches++
		l.sum.Bytes += int64(b.Size())
		if err := l.batch(b); err != nil {
			l.sum.Damaged++
		}
		l.next = b.NextOffset()
	}
	l.machine.Commit(min(high, l.next))
	return it.Err()
}

func (l *Loader) batch(b record.Batch) error {
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if b.IsControl() {
		l.end(b)
		return nil
	}
	return b.Each(decompressedMax, func(r *record.Record) error {
		if r.Offset < l.next {
			return nil
		}
		l.sum.Records++
		if b.IsTransactional() {
			rec := Record{Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)}
			if r.Value == nil {
				rec.Value = nil
			}
			l.undecided[b.ProducerID()] = append(l.undecided[b.ProducerID()], undecided{r.Offset, rec})
			return nil
		}
		l.machine.Replay(r.Offset, Record{Key: r.Key, Value: r.Value})
		return nil
	})
}

// end ends a transaction: its records count from here, or not at all.
func (l *Loader) end(b record.Batch) {
	mark, ok, err := b.Marker()
	if err != nil || !ok {
		return
	}
	if mark.Type == record.Commit {
		for _, u := range l.undecided[b.ProducerID()] {
			l.machine.Replay(b.LastOffset(), u.rec)
		}
	}
	delete(l.undecided, b.ProducerID())
}

// Done returns the machine and what was seen.
func (l *Loader) Done() (Machine, LoadSum) {
	for _, list := range l.undecided { // order-free: a sum
		l.sum.Undecided += int64(len(list))
	}
	return l.machine, l.sum
}
