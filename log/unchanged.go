package log

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
)

// What an orderly stop has left, and the next start has found whole, is durable. As
// long as nothing has changed another orderly stop has nothing to write, so that ten
// thousand logs that nobody wrote to are closed without a sync.

// unchanged is such a log.
type unchanged struct {
	view   *View
	epochs []epoch.Entry
}

// noSnapshot is Log.snapshotAt while no file is known to hold the producers' state.
const noSnapshot = model.NoOffset

// noteUnchanged ends a load: did nothing of the log have to be made anew, and does
// everything that Checkpoint writes stand beside it?
func (ld *loader) noteUnchanged() {
	if ld.o.Stop != StopClean || ld.last >= len(ld.found) {
		return
	}
	l, r, s := ld.l, &ld.report, ld.found[ld.last]
	same := len(r.Removed)+len(r.Rebuilt)+len(ld.remove)+len(ld.rename) == 0 && !l.flush.dir
	sealed := s.seal != nil && !s.seal.final && s.seal.size == s.length && s.seal.next == ld.end
	epochs := l.flush.epochs.known && l.flush.epochs.saved == l.epochs.Version()
	if same && sealed && epochs && l.snapshotAt == l.logEnd {
		l.unchanged = &unchanged{view: l.View(), epochs: l.epochs.Entries()}
	}
}

// isUnchanged reports whether an orderly stop would write nothing but what stands
// there. Everything that changes records shows another View; flush.dir tells of files
// beside them. An epoch that begins at the log's end is of no record yet: no start would
// believe in it. Others change where the epoch file contradicts the records.
func (l *Log) isUnchanged() bool {
	u := l.unchanged
	if u == nil || u.view != l.View() || l.flush.dir || l.flush.running != nil {
		return false
	}
	if l.recoveryPoint != l.logEnd || l.drop != nil || l.swap != nil || l.mend != nil || len(l.trash.cuts)+len(l.trash.doomed) > 0 {
		return false
	}
	if slices.ContainsFunc(l.segments, func(s *segment) bool { return s.file.isDirty() || s.repair.Load() }) {
		return false
	}
	c := l.epochs.Clone()
	c.TruncateFromEnd(l.logEnd)
	return slices.Equal(u.epochs, c.Entries())
}
