package producer

import (
	"slices"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
)

// CompletedTxn is a transaction that a marker has ended.
type CompletedTxn struct {
	// ProducerID wrote it.
	ProducerID model.ProducerID
	// FirstOffset is that of its first record, LastOffset that of the marker.
	FirstOffset, LastOffset model.Offset
	// LastStableOffset is where the first transaction that is still open
	// begins, or the offset after the marker: what the index of aborted
	// transactions stores, so that a reader knows when to stop searching.
	LastStableOffset model.Offset
	// Aborted is false for a commit.
	Aborted bool
}

// openTxn is a transaction without a marker.
type openTxn struct {
	first model.Offset
	id    model.ProducerID
}

// decidedTxn is a transaction whose marker may not be replicated yet.
type decidedTxn struct {
	first, last model.Offset
}

// decidedKeepMax is how many decided transactions there is room for without
// giving memory back. Replaying a log may pile up far more until the partition
// tells its high watermark.
const decidedKeepMax = 1024

// txns orders the transactions of a partition by where they begin. Slices and
// not trees: transactions begin at the log end, so that new ones are appended,
// and few are open at a time.
type txns struct {
	// open is sorted by first.
	open []openTxn
	// decided is sorted by last; each last was at or above the high watermark
	// when it was last told.
	decided []decidedTxn
	// decidedMin is the least first of decided, meaningless when it is empty.
	decidedMin model.Offset
}

// FirstUnstable returns the first offset whose outcome readers may not rely on
// yet: it belongs to a transaction that is open, or whose marker is not below
// the high watermark as told by AdvanceHighWatermark. The last stable offset
// is max(logStart, min(HW, FirstUnstable)).
func (m *StateManager) FirstUnstable() (model.Offset, bool) {
	t := &m.txns
	switch {
	case len(t.open) == 0 && len(t.decided) == 0:
		return model.NoOffset, false
	case len(t.decided) == 0:
		return t.open[0].first, true
	case len(t.open) == 0:
		return t.decidedMin, true
	}
	return min(t.open[0].first, t.decidedMin), true
}

// FirstUndecided returns where the oldest open transaction begins.
func (m *StateManager) FirstUndecided() (model.Offset, bool) {
	if len(m.txns.open) == 0 {
		return model.NoOffset, false
	}
	return m.txns.open[0].first, true
}

// AdvanceHighWatermark makes stable every decided transaction whose marker is
// below hw, and reports whether FirstUnstable may have moved. The partition
// calls it whenever its high watermark moves; a node that doesn't know one
// (recovery) needn't: the truth comes with the first call.
func (m *StateManager) AdvanceHighWatermark(hw model.Offset) (changed bool) {
	return m.txns.release(hw)
}

// AdvanceLogStart says that the log now begins at o. Markers below it are
// settled whatever the high watermark was, and a state that ends below it ends
// there instead.
func (m *StateManager) AdvanceLogStart(o model.Offset) {
	m.txns.release(o)
	m.mapEnd = max(m.mapEnd, o)
}

// begin notes an open transaction.
func (t *txns) begin(id model.ProducerID, first model.Offset) {
	i := len(t.open)
	for i > 0 && t.open[i-1].first > first {
		i--
	}
	t.open = append(t.open, openTxn{})
	copy(t.open[i+1:], t.open[i:])
	t.open[i] = openTxn{first: first, id: id}
}

// complete moves a transaction from open to decided.
func (t *txns) complete(done CompletedTxn) {
	i := sort.Search(len(t.open), func(i int) bool { return t.open[i].first >= done.FirstOffset })
	for i < len(t.open) && t.open[i].id != done.ProducerID {
		i++
	}
	if i < len(t.open) {
		t.open = append(t.open[:i], t.open[i+1:]...)
	}
	if len(t.decided) == 0 || done.FirstOffset < t.decidedMin {
		t.decidedMin = done.FirstOffset
	}
	t.decided = append(t.decided, decidedTxn{first: done.FirstOffset, last: done.LastOffset})
}

// release drops the decided transactions whose marker lies below o.
func (t *txns) release(o model.Offset) (changed bool) {
	n := 0
	for n < len(t.decided) && t.decided[n].last < o {
		n++
	}
	if n == 0 {
		return false
	}
	if rest := t.decided[n:]; cap(t.decided) > decidedKeepMax && len(rest) < decidedKeepMax/2 {
		t.decided = slices.Clone(rest) // give back what a long replay has needed
	} else {
		t.decided = append(t.decided[:0], rest...)
	}
	for i, d := range t.decided {
		if i == 0 || d.first < t.decidedMin {
			t.decidedMin = d.first
		}
	}
	return true
}

// stableWithout returns the last stable offset at the moment when a marker at
// offset at ends the transaction of id, replication aside.
func (t *txns) stableWithout(id model.ProducerID, at model.Offset) model.Offset {
	for _, o := range t.open {
		if o.id != id {
			return o.first
		}
	}
	return at.Next()
}

func (t *txns) reset() {
	t.open = t.open[:0]
	t.decided = t.decided[:0]
}
