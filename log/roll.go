package log

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Roll seals the segment that is being written and begins another at LogEnd. An
// empty segment is not sealed.
func (l *Log) Roll(now model.Now) error {
	if err := l.usable(); err != nil {
		return err
	}
	return l.roll(now, l.logEnd)
}

// rollDue reports whether the set that info describes must begin a new segment:
//
//  1. it would make the segment longer than SegmentBytes;
//  2. the segment is not empty, and older than SegmentMs less its jitter: by the
//     timestamps of the set and of the segment's first batch if both have one,
//     else by the wall clock;
//  3. the offset index is full;
//  4. the time index is full but for the entry that is kept for the sealing;
//  5. the set's last offset can't be expressed relative to the segment's base.
//
// An empty segment is only left by rule 5.
func (l *Log) rollDue(now model.Now, info *AppendInfo) bool {
	t := &l.tip
	if int64(info.Last-t.seg.base) > math.MaxInt32 {
		return true
	}
	if t.size == 0 {
		return false
	}
	waited := int64(now.Wall - t.created)
	if info.MaxTimestamp >= 0 && t.index.firstTS >= 0 {
		waited = int64(info.MaxTimestamp - t.index.firstTS)
	}
	return t.size > int64(l.cfg.SegmentBytes)-int64(info.Bytes) ||
		waited > l.cfg.SegmentMs-t.jitter ||
		len(t.index.offsets) >= int(l.cfg.IndexBytes)/offsetEntrySize ||
		len(t.index.times) >= int(l.cfg.IndexBytes)/timeEntrySize-1
}

// roll begins a segment at base, which is not below LogEnd. On an error the log
// is as it was.
func (l *Log) roll(now model.Now, base model.Offset) error {
	old := l.tip.seg
	if base == old.base {
		if l.tip.size > 0 {
			return fmt.Errorf("roll segment %d onto itself with %d bytes: %w", base, l.tip.size, ErrOrder)
		}
		l.startTip(now, old)
		return nil
	}
	fresh, err := l.createSegment(base)
	if err != nil {
		return err
	}
	sealed := l.seal(base)
	l.segments = append(l.segments[:len(l.segments)-1:len(l.segments)-1], sealed, fresh)
	if err := l.snapshot(base); err == nil {
		l.dropOldSnapshots(base)
	}
	l.startTip(now, fresh)
	l.publish()
	return nil
}

// createSegment makes an empty segment file. One that stands there already is
// no segment of this log, else its base would be known: it is what an earlier
// failure has left.
func (l *Log) createSegment(base model.Offset) (*segment, error) {
	l.blank = false
	path := l.path(fileName(base, logSuffix))
	f, err := l.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		if err = removeIfThere(l.fs, path); err == nil {
			f, err = l.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	s := &segment{base: base, file: newSegmentFile(l.fs, l.files, path), interval: l.cfg.IndexIntervalBytes}
	s.file.adopt(f)
	l.flush.dir = true
	return s, nil
}

// sealed returns the segment that is being written as it is once it is sealed,
// and its finished indexes.
func (l *Log) sealed() (*segment, *segmentIndexes) {
	t := &l.tip
	s := &segment{
		base: t.seg.base, file: t.seg.file, end: max(l.logEnd, t.seg.base), size: t.size,
		maxTS: t.index.maxTS, maxTSLast: t.index.maxTSLast, txns: t.txns, interval: l.cfg.IndexIntervalBytes,
		unread: t.seg.unread,
	}
	s.setHeadSum(t.index.heads)
	return s, t.index.sealed()
}

// seal stores the indexes of the segment that is being written, and gives the
// blocks back that were reserved for it. None of that is needed for the data:
// what can't be stored is made anew when it is wanted, and tried again by the next
// Checkpoint, so that a full disk doesn't keep an append from its new segment.
func (l *Log) seal(next model.Offset) *segment {
	s, x := l.sealed()
	if se, err := s.store(x, s.sealFor(next)); err == nil {
		s.seal = se
		l.flush.noteSide(s.sideFiles()...)
	} else {
		for _, name := range s.sideFiles() {
			_ = l.fs.Remove(name) // half an index is worse than none
		}
		s.repair.Store(true)
	}
	s.keep(x)
	l.giveBack()
	return s
}

// giveBack frees the blocks that were reserved beyond the end of the segment.
// Cutting a file to the size it has does that.
func (l *Log) giveBack() {
	t := &l.tip
	if t.reserved <= t.size {
		return
	}
	f, err := t.seg.file.pinForWrite()
	if err != nil {
		return
	}
	defer t.seg.file.unpin()
	if f.Truncate(t.size) == nil {
		t.reserved = t.size
	}
}

// startTip begins to write an empty segment.
func (l *Log) startTip(now model.Now, s *segment) {
	l.tip = tip{
		seg:     s,
		index:   newIndexBuilder(s.base, l.cfg.IndexIntervalBytes),
		created: now.Wall,
		jitter:  l.drawJitter(),
	}
}

func (l *Log) drawJitter() int64 {
	if l.rand == nil || l.cfg.SegmentJitterMs <= 0 {
		return 0
	}
	return l.rand.Int64N(l.cfg.SegmentJitterMs)
}

// sealed returns the finished indexes: the time index gets its closing entry.
func (x *indexBuilder) sealed() *segmentIndexes {
	done := *x
	done.times = append([]timeEntry(nil), x.times...)
	done.noteTime()
	return &segmentIndexes{offsets: done.offsets, times: done.times}
}

// snapshot stores the producers' state as of the offset at. A torn file is
// noticed by its CRC; an older one is used then.
func (l *Log) snapshot(at model.Offset) error {
	path := l.path(fileName(at, snapshotSuffix))
	l.snapshotAt = noSnapshot
	if err := writeWhole(l.fs, path, l.producers.Marshal(nil)); err != nil {
		return fmt.Errorf("snapshot of producers: %w", err)
	}
	l.snapshotAt = at
	l.flush.noteSide(path)
	return nil
}

// dropOldSnapshots removes snapshots that no longer help: those below the first
// segment, and those between segments but for the newest. Failing to is
// harmless.
func (l *Log) dropOldSnapshots(newest model.Offset) {
	if !l.strays {
		return
	}
	names, err := l.fs.List(l.dir)
	if err != nil {
		return
	}
	l.strays = false
	for _, name := range names {
		if !strings.HasSuffix(name, snapshotSuffix) {
			continue
		}
		at, suffix, ok := parseName(name)
		if ok && suffix == snapshotSuffix && at < newest && !l.isBase(at) {
			_ = l.fs.Remove(l.path(name))
		}
	}
}

// removeSnapshotsBelow removes the snapshots that lie before every segment, but
// for the newest if there is none further on. Failing to is harmless.
func removeSnapshotsBelow(fs vfs.FS, dir string, first model.Offset) {
	names, err := fs.List(dir)
	if err != nil {
		return
	}
	newest := ""
	for _, name := range names {
		at, suffix, ok := parseName(name)
		if !ok || suffix != snapshotSuffix {
			continue
		}
		if newest != "" {
			_ = fs.Remove(filepath.Join(dir, newest))
		}
		if newest = ""; at < first {
			newest = name
		}
	}
}

// isBase reports whether a segment begins at an offset.
func (l *Log) isBase(at model.Offset) bool {
	_, found := slices.BinarySearchFunc(l.segments, at, func(s *segment, at model.Offset) int { return cmp.Compare(s.base, at) })
	return found
}

// removeSnapshotsAbove removes snapshots of states that no longer exist.
func (l *Log) removeSnapshotsAbove(end model.Offset) error {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return err
	}
	var errs error
	for _, name := range names {
		at, suffix, ok := parseName(name)
		if ok && strings.HasPrefix(suffix, snapshotSuffix) && at > end {
			errs = errors.Join(errs, removeIfThere(l.fs, l.path(name)))
		}
	}
	return errs
}
