package log

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
)

// LowerRecoveryPoint takes the promise back for offsets from to on. A caller
// that makes lower recovery points durable by itself does so, then calls this,
// then Truncate, which then has no need of Options.LowerRecoveryPoint.
func (l *Log) LowerRecoveryPoint(to model.Offset) {
	if to < l.recoveryPoint {
		l.recoveryPoint = to
		l.generation++
	}
}

// Truncate removes every batch that holds an offset at or above to; the log
// ends at to then. At or above LogEnd it removes only epochs in which nothing
// was written. It returns what was removed; Options.Keep was told of it before,
// and the bytes stay until Reclaim.
//
// The names in the directory are durable when it returns. An error that doesn't
// wrap ErrPoisoned means that nothing has changed.
func (l *Log) Truncate(to model.Offset) (Removal, error) {
	if err := l.usable(); err != nil {
		return Removal{}, err
	}
	if to < 0 {
		return Removal{}, fmt.Errorf("truncate to %d: %w", to, ErrOffsetOutOfRange)
	}
	if err := l.settle(); err != nil {
		return Removal{}, err
	}
	if to >= l.logEnd {
		if !mutant.On("log-keep-empty-epoch") {
			l.epochs.TruncateFromEnd(l.logEnd)
		}
		return Removal{Start: l.logEnd, End: l.logEnd, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}, nil
	}
	if to <= l.segments[0].base {
		return l.TruncateFullyAndStartAt(to)
	}
	v := l.View()
	i := v.segmentFor(to)
	pos, err := v.cutPosition(i, to)
	if err != nil {
		return Removal{}, err
	}
	removal := v.removal(WhyTruncate, i, pos, to)
	l.kept(&removal)
	if mutant.On("log-rp-after-truncate") {
		err := l.cutAt(i, pos, to, &removal)
		return removal, errors.Join(err, l.takeBack(to))
	}
	if err := l.takeBack(to); err != nil {
		return Removal{}, err
	}
	if mutant.On("log-truncate-in-place") && v.isTail(i) && pos > 0 {
		return removal, l.truncateInPlace(pos, to)
	}
	if err := l.cutAt(i, pos, to, &removal); err != nil {
		return removal, l.poison("truncate", err)
	}
	return removal, nil
}

// kept has what is about to leave kept aside.
func (l *Log) kept(r *Removal) {
	if l.keep != nil && !r.Empty() && !mutant.On("receipt-none") {
		l.keep(r)
	}
}

// takeBack makes the recovery point at most to, durably, and tells flushes that
// are under way that they are stale.
func (l *Log) takeBack(to model.Offset) error {
	l.generation++
	if to >= l.recoveryPoint {
		return nil
	}
	if l.lowerRP != nil {
		if err := l.lowerRP(to); err != nil {
			return fmt.Errorf("lower recovery point from %d to %d: %w", l.recoveryPoint, to, err)
		}
	}
	l.recoveryPoint = to
	return nil
}

// cutPosition returns where the first batch begins that holds an offset at or
// above to. The segment may be damaged beyond that; it must not keep anybody
// from cutting it off.
func (v *View) cutPosition(i int, to model.Offset) (int64, error) {
	limit := v.limit(i)
	if limit == 0 {
		return 0, nil
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return 0, err
	}
	defer file.unpin()
	buf := file.cache.buffer()
	defer file.cache.release(buf)
	pos, _, err := v.locate(i, &headerWalk{f: f, limit: limit, buf: *buf}, to)
	return pos, err
}

// cutAt ends the log at to: segment i keeps its bytes below pos, later segments
// go, and a new one begins at to. Old names go before the new one comes, newest
// first: whatever part of that a kill leaves behind is a prefix of what was.
func (l *Log) cutAt(i int, pos int64, to model.Offset, r *Removal) error {
	keep, err := l.shortened(i, pos, to)
	if err != nil {
		return err
	}
	kept := i
	var before *segment
	if keep != nil {
		kept++
	} else if i > 0 {
		if before, err = l.reseal(l.segments[i-1], to); err != nil {
			return err
		}
	}
	for k := len(l.segments) - 1; k >= kept; k-- {
		if err := l.discard(l.segments[k], r); err != nil {
			return err
		}
	}
	snapshots := to
	if kept == 0 {
		snapshots = model.NoOffset // none is of the log that begins at to
	}
	if err := l.removeSnapshotsAbove(snapshots); err != nil {
		return err
	}
	segments := append([]*segment(nil), l.segments[:kept]...)
	if keep != nil {
		if err := l.storeShortened(keep, to); err != nil {
			return err
		}
		l.trash.cuts = append(l.trash.cuts, pendingCut{file: keep.file, size: pos})
		segments[i] = keep
	} else if before != nil {
		segments[i-1] = before
	}
	if kept == 0 {
		if err := l.clearEpochs(); err != nil {
			return err
		}
	}
	fresh, err := l.createSegment(to)
	if err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", l.dir, err)
	}
	l.segments = append(segments, fresh)
	l.startTip(model.Now{Wall: l.tip.created}, fresh)
	l.logEnd = to
	l.logStart = min(max(l.logStart, l.segments[0].base), to)
	l.epochs.TruncateFromEnd(to)
	l.publish()
	return l.recallProducers()
}

// reseal returns segment s with a seal that names its new successor, durably:
// else it would look later as if a segment between them were missing.
func (l *Log) reseal(s *segment, next model.Offset) (*segment, error) {
	last := s.lastSeal()
	if last == nil || last.next == next {
		return s, nil
	}
	se := *last
	se.next, se.heads = next, s.headSum()
	if err := vfs.WriteFileAtomic(l.fs, s.path(sealSuffix), se.encode()); err != nil {
		return nil, fmt.Errorf("seal segment %d anew: %w", s.base, err)
	}
	fresh := &segment{
		base: s.base, file: s.file, end: s.end, size: s.size, maxTS: s.maxTS, maxTSLast: s.maxTSLast,
		txns: s.txns, seal: &se, interval: s.interval, unread: s.unread,
	}
	fresh.setHeadSum(se.heads)
	return fresh, nil
}

// truncateInPlace is what cutAt must not do: it changes bytes that readers may
// be about to read. It exists for the mutant of that name alone.
func (l *Log) truncateInPlace(pos int64, to model.Offset) error {
	s, x, err := l.shortenedTip(pos)
	if err != nil {
		return err
	}
	f, err := s.file.pinForWrite()
	if err != nil {
		return err
	}
	defer s.file.unpin()
	if err := f.Truncate(pos); err != nil {
		return err
	}
	l.tip.size, l.tip.index, l.tip.marks, l.tip.txns = pos, x, nil, s.txns
	l.logEnd = to
	l.epochs.TruncateFromEnd(to)
	l.publish()
	return l.rebuildProducers()
}

// shortened returns segment i as it is without the bytes from pos on, nil if
// nothing remains of it.
func (l *Log) shortened(i int, pos int64, to model.Offset) (*segment, error) {
	if pos == 0 {
		return nil, nil
	}
	s, x, err := l.shortenedAt(i, pos)
	if err != nil {
		return nil, err
	}
	s.end = min(s.end, to)
	s.indexes.Store(x.sealed())
	return s, nil
}

func (l *Log) shortenedTip(pos int64) (*segment, indexBuilder, error) {
	return l.shortenedAt(len(l.segments)-1, pos)
}

// shortenedAt computes the indexes of segment i for its bytes below pos.
func (l *Log) shortenedAt(i int, pos int64) (*segment, indexBuilder, error) {
	v := l.View()
	old := v.segments[i]
	f, err := old.file.pin(pos)
	if err != nil {
		return nil, indexBuilder{}, err
	}
	defer old.file.unpin()
	x := &segmentIndexes{offsets: v.tail.offsets, times: v.tail.times}
	txns := v.tail.txns
	if !v.isTail(i) {
		if x, err = old.load(f); err != nil {
			return nil, indexBuilder{}, v.damaged(i, pos, old.base, err)
		}
		txns = old.txns
	}
	buf := old.file.cache.buffer()
	defer old.file.cache.release(buf)
	t := tip{index: newIndexBuilder(old.base, l.cfg.IndexIntervalBytes)}
	end, err := t.resume(&headerWalk{f: f, limit: pos, buf: *buf}, x)
	if err != nil {
		return nil, indexBuilder{}, v.damaged(i, pos, old.base, err)
	}
	s := &segment{
		base: old.base, file: old.file, end: end, size: pos,
		maxTS: t.index.maxTS, maxTSLast: t.index.maxTSLast, interval: l.cfg.IndexIntervalBytes, unread: old.unread,
	}
	for _, e := range txns {
		if e.last < end {
			s.txns = append(s.txns, e)
		}
	}
	return s, t.index, nil
}

// storeShortened replaces the indexes and the seal of a segment that was cut.
// The seal must be durable: only it says where the segment ends, should its
// successor get lost, until the file is cut. Where it can't be stored the file
// is cut at once, if no reader is in it.
func (l *Log) storeShortened(s *segment, next model.Offset) error {
	se, err := s.storeBelow(s.indexes.Load(), s.sealFor(next))
	if err == nil {
		s.seal = se
		l.flush.noteSide(s.sideFiles()...)
		return nil
	}
	for _, name := range s.sideFiles() {
		if rerr := removeIfThere(l.fs, name); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	done, cerr := s.file.cut(s.size)
	if cerr == nil && done {
		cerr = s.file.sync()
	}
	if cerr != nil || !done {
		return errors.Join(err, cerr)
	}
	return nil
}

// discard renames the file of a segment that is no longer part of the log, and
// removes what stands beside it. It is unlinked by Reclaim.
func (l *Log) discard(s *segment, r *Removal) error {
	if err := discardFiles(l.fs, s, r); err != nil {
		return err
	}
	l.files.dropIndex(s)
	l.trash.discard(s.file)
	return nil
}

// discardFiles is the part of discard that touches the disk.
func discardFiles(fs vfs.FS, s *segment, r *Removal) error {
	for _, name := range s.sideFiles() {
		if err := removeIfThere(fs, name); err != nil {
			return err
		}
	}
	from := s.file.name()
	to := s.path(logSuffix + deletedSuffix)
	for n := 1; ; n++ {
		// The same base may be discarded again before the first is reclaimed.
		if _, err := fs.Stat(to); err != nil {
			break
		}
		to = s.path(fmt.Sprintf("%s.%d%s", logSuffix, n, deletedSuffix))
	}
	if err := s.file.rename(to); err != nil {
		return fmt.Errorf("discard segment: %w", err)
	}
	if r != nil {
		r.renamed(from, to)
	}
	return nil
}

// TruncateFullyAndStartAt empties the log and lets it begin at o: what it held
// is of no use, because the leader's log begins later, or below ours.
func (l *Log) TruncateFullyAndStartAt(o model.Offset) (Removal, error) {
	if err := l.usable(); err != nil {
		return Removal{}, err
	}
	if o < 0 {
		return Removal{}, fmt.Errorf("start at %d: %w", o, ErrOffsetOutOfRange)
	}
	if err := l.settle(); err != nil {
		return Removal{}, err
	}
	v := l.View()
	removal := v.removal(WhyRestart, 0, 0, l.logEnd)
	removal.Start = v.start
	l.kept(&removal)
	if err := l.takeBack(min(o, l.segments[0].base)); err != nil {
		return Removal{}, err
	}
	l.logStart = o
	if err := l.cutAt(0, 0, o, &removal); err != nil {
		return removal, l.poison("truncate fully", err)
	}
	return removal, nil
}

// IncrementLogStart raises the log's start: records below o are no longer read.
// Files stay until a Drop. Below the present start it does nothing.
func (l *Log) IncrementLogStart(o model.Offset) error {
	if err := l.usable(); err != nil {
		return err
	}
	if o > l.logEnd {
		return fmt.Errorf("log start %d of [%d, %d): %w", o, l.logStart, l.logEnd, ErrOffsetOutOfRange)
	}
	if o <= l.logStart {
		return nil
	}
	l.logStart = o
	l.epochs.TruncateFromStart(o)
	l.producers.AdvanceLogStart(o)
	l.publish()
	return nil
}
