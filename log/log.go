package log

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
)

// Log is the log of one partition. Owned by the partition's loop; only View may
// be called from elsewhere. Make it with Open.
type Log struct {
	fs        vfs.FS
	dir       string
	partition model.TopicPartition
	files     *FileCache
	rand      *rand.Rand
	cfg       Config
	// lowerRP is Options.LowerRecoveryPoint.
	lowerRP func(to model.Offset) error
	// keep is Options.Keep.
	keep func(r *Removal)

	// segments is never empty, bases rise, the last one is being written. The
	// slice is shared with Views and replaced, never changed.
	segments []*segment
	tip      tip

	epochs    *epoch.Cache
	producers *producer.StateManager

	// logStart: records below are not readable. Invariant: logStart ≤ logEnd.
	logStart model.Offset
	// logEnd is the offset that the next record gets.
	logEnd model.Offset
	// recoveryPoint: everything below is durable, and so is the epoch file for
	// it. Invariant: recoveryPoint ≤ logEnd.
	recoveryPoint model.Offset
	// generation counts truncations, so that a flush that began before one
	// doesn't raise the recovery point after it.
	generation uint64

	flush flushState
	trash trash
	// unchanged is what an orderly stop had left, nil if there is anything to write at
	// the next one.
	unchanged *unchanged
	// snapshotAt is where the newest snapshot of the producers stands that is of the
	// present history, noSnapshot if none is known.
	snapshotAt model.Offset
	// blank: the directory holds one empty segment and nothing beside it, so that
	// there is nothing of it that a stop has to keep. Whatever writes ends that.
	blank bool
	// strays: there may be snapshots of producers that no segment begins with. To
	// look for them is to list the directory.
	strays bool
	// doubtful: names in the directory may not be durable, because the process that
	// removed or made them was killed. Asked for only while blank.
	doubtful bool
	// drop is the Drop that was started and not finished, nil without one.
	drop *Drop
	// mend is the Mend that was started and not finished, nil without one.
	mend *Mend
	// epochsMended: the epoch file is wrong, and what is right not stored yet.
	epochsMended bool
	// swap is the Swap that was started and not finished, nil without one.
	swap *Swap
	view atomic.Pointer[View]

	// failure is what made the log unusable, nil as long as it isn't.
	failure error
	closed  bool
}

// tip is the write side of the segment that is being written.
type tip struct {
	seg *segment
	// size is where the next batch goes.
	size  int64
	index indexBuilder
	txns  []txnEntry
	marks []mark
	// created is the wall clock at which this process began to write it.
	created model.Timestamp
	// jitter is by how much segment.ms is shortened here.
	jitter int64
	// reserved is up to where blocks were asked for.
	reserved int64
}

// Epochs returns the leader epochs of the log. To be changed by Log's methods
// only.
func (l *Log) Epochs() *epoch.Cache { return l.epochs }

// Producers returns the state of the producers as of LogEnd. Callers may check
// batches, expire producers and tell the high watermark; the batches themselves
// are applied by Append.
func (l *Log) Producers() *producer.StateManager { return l.producers }

// LogStart is the first offset that may be read.
func (l *Log) LogStart() model.Offset { return l.logStart }

// LogEnd is the offset that the next record gets.
func (l *Log) LogEnd() model.Offset { return l.logEnd }

// RecoveryPoint is the offset below which all is durable.
func (l *Log) RecoveryPoint() model.Offset { return l.recoveryPoint }

// Partition names the partition.
func (l *Log) Partition() model.TopicPartition { return l.partition }

// Dir is the partition's directory.
func (l *Log) Dir() string { return l.dir }

// Err is nil, or why the log can't be used any more.
func (l *Log) Err() error { return l.usable() }

// View returns the latest picture of the log. Any goroutine may call it.
func (l *Log) View() *View { return l.view.Load() }

// SetConfig takes effect with the next append.
func (l *Log) SetConfig(c Config) {
	l.cfg = c.withDefaults()
	l.tip.index.interval = int64(l.cfg.IndexIntervalBytes)
}

// AssignEpoch notes that epoch e begins at start, which a new leader does with
// the log's end before it appends anything. It becomes durable with the next
// flush; until then the batches themselves tell.
func (l *Log) AssignEpoch(e model.LeaderEpoch, start model.Offset) error {
	if err := l.usable(); err != nil {
		return err
	}
	if start < l.logStart || start > l.logEnd {
		return fmt.Errorf("epoch %d at %d of [%d, %d): %w", e, start, l.logStart, l.logEnd, ErrOffsetOutOfRange)
	}
	l.epochs.Assign(e, start)
	return nil
}

// usable returns why nothing may be written, or nil.
func (l *Log) usable() error {
	if l.failure != nil {
		return l.failure
	}
	if l.closed {
		return fmt.Errorf("%s: %w", l.dir, ErrClosed)
	}
	return nil
}

// poison makes every later operation fail: the state on disk is not the one in
// memory, or not known.
func (l *Log) poison(what string, cause error) error {
	if l.failure == nil {
		l.failure = fmt.Errorf("%s: %s: %w: %w", l.dir, what, ErrPoisoned, cause)
	}
	return l.failure
}

// path returns the name of a file in the directory.
func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// publish makes the present state visible to readers.
func (l *Log) publish() {
	assert.That(l.logStart <= l.logEnd, "%s: log start %d above end %d", l.dir, l.logStart, l.logEnd)
	assert.That(l.recoveryPoint <= l.logEnd, "%s: recovery point %d above end %d", l.dir, l.recoveryPoint, l.logEnd)
	v := &View{
		segments: l.segments,
		start:    l.logStart,
		end:      l.logEnd,
		tail: tail{
			size:      l.tip.size,
			offsets:   l.tip.index.offsets,
			times:     l.tip.index.times,
			txns:      l.tip.txns,
			marks:     l.tip.marks,
			maxTS:     l.tip.index.maxTS,
			maxTSLast: l.tip.index.maxTSLast,
			heads:     l.tip.index.heads,
		},
	}
	if old := l.view.Load(); old != nil && sameSlice(old.segments, l.segments) {
		v.sealedBytes = old.sealedBytes
	} else {
		for _, s := range l.segments[:len(l.segments)-1] {
			v.sealedBytes += s.size
		}
	}
	l.view.Store(v)
}

func sameSlice(a, b []*segment) bool { return len(a) == len(b) && &a[0] == &b[0] }

// Close ends the use of the log. A clean close makes everything durable first,
// and stores the indexes of the last segment and the producers' state, so that
// the next Open with StopClean needs no scan. An error means that the stop was
// not clean; the log is closed in any case. Readers that hold a Region may
// finish.
func (l *Log) Close(clean bool) error {
	if l.closed {
		return nil
	}
	var err error
	if clean {
		err = l.closeClean()
	}
	l.closed = true
	// Whoever takes the directory over must not meet what was under way.
	if l.drop != nil {
		l.drop.cancel()
	}
	if l.swap != nil {
		l.swap.cancel()
	}
	if l.mend != nil {
		l.mend.cancel()
	}
	if l.flush.running != nil {
		l.flush.running.cancel()
	}
	for _, s := range l.segments {
		s.file.close()
		l.files.dropIndex(s)
	}
	return err
}

func (l *Log) closeClean() error {
	if err := l.usable(); err != nil {
		return err
	}
	if l.blank {
		return l.closeBlank()
	}
	if l.isUnchanged() {
		return nil
	}
	if left, err := l.Reclaim(); err != nil {
		return err
	} else if left > 0 {
		return fmt.Errorf("%s: %d removals still have readers", l.dir, left)
	}
	if err := l.Checkpoint(); err != nil {
		return err
	}
	l.giveBack()
	l.flush.running = nil // its outcome will not be asked for
	for _, s := range l.segments {
		if s.end > l.recoveryPoint || s == l.tip.seg {
			s.file.setDirty()
		}
	}
	job := l.StartFlush()
	if job == nil {
		return nil
	}
	if err := l.FinishFlush(job, job.Run()); err != nil {
		return err
	}
	if l.recoveryPoint < l.logEnd {
		return fmt.Errorf("%s: flushed to %d of %d", l.dir, l.recoveryPoint, l.logEnd)
	}
	return nil
}

// closeBlank is the clean close of a log that holds nothing. Indexes, producers
// and epochs of no record say nothing, and the next Open makes do without their
// files; ten thousand logs that nobody wrote to are closed without a sync. Names
// that a killed process has removed may not come back, though: they would be
// taken for the log's own.
func (l *Log) closeBlank() error {
	if !l.doubtful {
		return nil
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.dir, err)
	}
	l.doubtful = false
	return nil
}

// Checkpoint stores what would otherwise have to be computed at the next start:
// the indexes of the segment that is being written, with a seal that ends with
// the log, and the producers' state. Nothing is synced.
func (l *Log) Checkpoint() error {
	if err := l.usable(); err != nil {
		return err
	}
	l.blank = false
	as, x := l.sealed()
	se := as.sealFor(l.logEnd)
	se.final = false
	if _, err := as.store(x, se); err != nil {
		return fmt.Errorf("store indexes of segment %d: %w", as.base, err)
	}
	l.flush.noteSide(as.sideFiles()...)
	if err := l.repairIndexes(); err != nil {
		return err
	}
	return l.snapshot(l.logEnd)
}

// repairIndexes stores the indexes that readers found bad and made anew.
func (l *Log) repairIndexes() error {
	var errs error
	for i, s := range l.segments[:len(l.segments)-1] {
		x := s.indexes.Load()
		if x == nil || !s.repair.Swap(false) {
			continue
		}
		se, err := s.storeBelow(x, s.sealFor(l.segments[i+1].base))
		if err != nil {
			s.repair.Store(true)
			errs = errors.Join(errs, fmt.Errorf("store indexes of segment %d: %w", s.base, err))
			continue
		}
		s.resealed.Store(se)
		l.flush.noteSide(s.sideFiles()...)
	}
	return errs
}
