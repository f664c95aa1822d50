package log

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// WrongEpochs is what VerifySegment and Scrub return for a segment that contradicts
// the epoch cache and is as it was written: the digest of its batches' heads says so.
// Then the cache is wrong, or rather the file that it was read from, which has no
// checksum; Log.MendEpochs puts it right. Who can't have that done treats it as the
// damage that it wraps, which it would be without the digest.
type WrongEpochs struct {
	// Damage is where batch and cache first differ.
	Damage *CorruptionError
	// File is the epoch file.
	File string

	segment *segment // that was read; gone if the log no longer has its file
	limit   int64    // how much of it
	seen    []epoch.Reign
	end     model.Offset // where its last batch ends
}

// Error implements error.
func (w *WrongEpochs) Error() string {
	return fmt.Sprintf("the leader epochs are wrong, the batches as they were written: %v", w.Damage)
}

// Unwrap returns the damage.
func (w *WrongEpochs) Unwrap() error { return w.Damage }

// MendEpochs makes the epoch cache say of a segment what its batches say. Only what
// the cache says of offsets in the segment changes. A Mend stores the file, or the next
// flush.
// ErrStaleView: the segment was cut, removed or replaced since it was read, or the
// cache is another.
func (l *Log) MendEpochs(w *WrongEpochs) error {
	if err := l.usable(); err != nil {
		return err
	}
	if !l.holds(w.segment.file, w.limit) || !l.epochs.Correct(w.seen, w.end) {
		return fmt.Errorf("epochs of segment %d: %w", w.segment.base, ErrStaleView)
	}
	l.epochs.TruncateFromStart(l.logStart)
	l.epochsMended = true
	if u := w.segment.unread; u != nil {
		u.note(0, u.size) // they were all looked at
	}
	return nil
}

// mendedEpochs are epochs that are to be stored.
type mendedEpochs struct {
	fs      vfs.FS
	dir     string
	entries []epoch.Entry
	version uint64
	file    *sharedEpochFile
	stored  bool // Run only, until the Mend is finished
}

// startMendEpochs returns what is to be stored, nil if nothing is.
func (l *Log) startMendEpochs() *mendedEpochs {
	if !l.epochsMended {
		return nil
	}
	l.epochsMended = false
	return &mendedEpochs{fs: l.fs, dir: l.dir, entries: l.epochs.Entries(), version: l.epochs.Version(), file: l.flush.epochs.shared}
}

// store writes the file, beside a flush that may do so too.
func (m *mendedEpochs) store() error {
	if m == nil {
		return nil
	}
	err := m.file.write(m.fs, m.dir, m.entries, m.version)
	m.stored = err == nil
	return err
}

// finishMendEpochs takes the outcome into account. What could not be stored is tried
// again with the next Mend or flush.
func (l *Log) finishMendEpochs(m *mendedEpochs) {
	if m == nil {
		return
	}
	if !m.stored {
		l.epochsMended = true
	} else if f := &l.flush.epochs; !f.known || f.saved < m.version {
		f.note(m.version)
	}
}

// holds reports whether the first n bytes of a file are part of the log.
func (l *Log) holds(file *segmentFile, n int64) bool {
	for _, s := range l.segments {
		if s.file == file {
			return n <= s.size || s == l.tip.seg && n <= l.tip.size
		}
	}
	return false
}

// reigns collects which epochs an exam comes upon.
type reigns struct {
	seen []epoch.Reign
	// wrong is the first batch that contradicts the epoch cache, nil if none does.
	wrong error
}

// add takes a batch into account, in front of which the log ends at after.
func (r *reigns) add(b record.Batch, after model.Offset) {
	e := b.LeaderEpoch()
	if n := len(r.seen); e < 0 || n > 0 && r.seen[n-1].Epoch == e {
		return
	}
	r.seen = append(r.seen, epoch.Reign{Epoch: e, First: b.BaseOffset(), After: after})
}

// contradicted notes a batch that contradicts the epoch cache. It counts at the end,
// when it is known whether the batches are as they were written; where nothing will
// tell, it is an error at once.
func (e *exam) contradicted(b record.Batch, err error) error {
	if !e.want.known || b.LeaderEpoch() < 0 {
		return err
	}
	if e.reigns.wrong == nil {
		e.reigns.wrong = e.bad(err)
	}
	return nil
}

// wrongEpochs is what an exam that came upon a contradiction ends with.
func (e *exam) wrongEpochs() error {
	asWritten := !e.leapt && e.want.known && e.x.heads.sum == e.want.sum || mutant.On("log-epochs-without-digest")
	damage, ok := e.reigns.wrong.(*CorruptionError)
	if !ok || !asWritten || !e.epochs.Clone().Correct(e.reigns.seen, e.expected) {
		return e.reigns.wrong
	}
	return &WrongEpochs{
		Damage: damage, File: epochPath(damage.Dir), segment: e.v.segments[e.i], limit: e.v.limit(e.i),
		seen: e.reigns.seen, end: e.expected,
	}
}
