package log

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// viewOf is a picture of the first n segments, for passes that read batches.
func (ld *loader) viewOf(n int) *View {
	v := &View{start: ld.found[0].base, end: ld.found[0].base}
	for _, s := range ld.found[:n] {
		v.segments = append(v.segments, s.segment)
		v.end = max(v.end, s.end)
	}
	// An empty last segment stands for the one being written.
	v.segments = append(v.segments, &segment{base: v.end})
	return v
}

// producersBefore brings the producers' state to the beginning of segment i.
func (ld *loader) producersBefore(i int) error {
	base := ld.found[i].base
	ld.l.segments = []*segment{ld.found[0].segment}
	if err := ld.l.loadSnapshot(base); err != nil {
		return err
	}
	if i == 0 || ld.l.producers.MapEnd() >= base {
		return nil
	}
	return ld.l.replayProducers(ld.viewOf(i))
}

// fileAgrees reports whether the epoch file says of the first and last batch of
// each trusted segment, and of the first one of each other, what they say
// themselves. What lies above the recovery point it needn't know. Where the log
// starts below what the file still knows, because the checkpoint of the start is
// older than the file, it doesn't agree.
func (ld *loader) fileAgrees(from int) bool {
	if ld.fileEpochs == nil {
		return false
	}
	if from > 0 && ld.l.logStart < ld.trustedEnd(from) {
		if _, ok := ld.fileEpochs.EpochFor(ld.l.logStart); !ok {
			return false
		}
	}
	for i, s := range ld.found {
		if i >= from {
			if first, err := ld.firstBatch(s); err != nil || first.some && first.base < ld.o.RecoveryPoint && !ld.fileSays(first) {
				return false
			}
			continue
		}
		if !ld.fileSays(s.first) || !ld.fileSays(s.lastBatch) {
			return false
		}
	}
	return true
}

// firstBatch reads the header of a segment's first batch.
func (ld *loader) firstBatch(s *foundSegment) (batchFacts, error) {
	f, err := s.file.pin(0)
	if err != nil {
		return batchFacts{}, err
	}
	defer s.file.unpin()
	buf := ld.o.Files.buffer()
	defer ld.o.Files.release(buf)
	w := headerWalk{f: f, limit: s.length, buf: *buf}
	b, err := w.header(0)
	if err != nil {
		return batchFacts{}, nil // not a batch: the scan will say so
	}
	return batchFacts{base: b.BaseOffset(), last: b.LastOffset(), epoch: b.LeaderEpoch(), some: true}, nil
}

// fileSays reports whether the epoch file agrees with a batch. It may have
// forgotten what lies below the log's start.
func (ld *loader) fileSays(b batchFacts) bool {
	if !b.some || b.epoch < 0 || b.last < ld.l.logStart {
		return true
	}
	e, ok := ld.fileEpochs.EpochFor(max(b.base, ld.l.logStart))
	return ok && e == b.epoch
}

// trustedEnd is the offset behind the segments before from, which were not
// scanned.
func (ld *loader) trustedEnd(from int) model.Offset {
	if from < len(ld.found) {
		return ld.found[from].base
	}
	return ld.end
}

// settleEpochs is pass D.
func (ld *loader) settleEpochs(from int) error {
	trustedEnd := ld.trustedEnd(from)
	c := &epoch.Cache{}
	if ld.fileAgrees(from) {
		c = ld.fileEpochs.Clone()
		c.TruncateFromEnd(trustedEnd)
	} else {
		ld.report.Rebuilt = append(ld.report.Rebuilt, checkpoint.EpochFile)
		if err := ld.scannedIsWrong(from); err != nil {
			return fmt.Errorf("rebuild epochs: %w", err)
		}
		if from > 0 {
			v := ld.viewOf(from)
			err := ld.fileIsWrongWhere(v, from)
			if err == nil {
				c, err = ld.rebuildEpochs(v)
			}
			if err != nil {
				return fmt.Errorf("rebuild epochs: %w", err)
			}
		}
	}
	for _, e := range ld.scannedEpochs {
		c.Assign(e.Epoch, e.Start)
	}
	c.TruncateFromEnd(ld.end)
	c.TruncateFromStart(ld.l.logStart)
	if !slices.ContainsFunc(ld.found, func(s *foundSegment) bool { return s.first.some }) {
		c.Clear() // there is no batch that an epoch could be of
	}
	ld.l.epochs = c
	frozen := c.Clone()
	for _, s := range ld.found {
		if s.unread != nil {
			s.unread.epochs = frozen
		}
	}
	if ld.fileEpochs != nil && slices.Equal(ld.fileEpochs.Entries(), c.Entries()) {
		ld.l.flush.epochs.note(c.Version())
	}
	return nil
}

// rebuildTxns computes the transaction index of a trusted segment: from the
// newest snapshot before it through its batches.
func (ld *loader) rebuildTxns(i int) error {
	s := ld.found[i]
	temp := &Log{
		fs: ld.l.fs, dir: ld.l.dir, logStart: ld.found[0].base,
		segments: []*segment{ld.found[0].segment}, producers: producer.New(),
	}
	if err := temp.loadSnapshot(s.base); err != nil {
		return err
	}
	v := ld.viewOf(i + 1)
	var txns []txnEntry
	from := max(temp.producers.MapEnd(), v.start)
	err := v.Batches(min(from, v.end), nil, func(b record.Batch) error {
		if b.BaseOffset() < from {
			return nil
		}
		if done, ok := temp.producers.Update(b); ok && done.Aborted && done.LastOffset >= s.base {
			txns = append(txns, txnEntry{
				producer: done.ProducerID, first: done.FirstOffset, last: done.LastOffset, stable: done.LastStableOffset,
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rebuild aborted transactions of segment %d: %w", s.base, err)
	}
	s.txns = txns
	if i == len(ld.found)-1 {
		ld.tip.txns = txns
		return nil
	}
	f, err := s.file.pin(0)
	if err != nil {
		return err
	}
	defer s.file.unpin()
	if s.rebuilt != nil {
		return nil // the files are no better than the transactions' was
	}
	if s.rebuilt, err = s.load(f); err == nil && s.rebuilt.unsure {
		s.rebuilt, err = s.rebuild(f) // a seal is going to vouch for it
	}
	return err
}

// carryOut is pass F: the first that writes.
func (ld *loader) carryOut() error {
	l := ld.l
	for _, i := range ld.txnsMissing {
		if err := ld.rebuildTxns(i); err != nil {
			return err
		}
	}
	ld.keepAside()
	if err := ld.clearAway(); err != nil {
		return err
	}
	if len(ld.rename) > 0 {
		// What stood beside the segments of before must not come back beside these.
		if err := l.fs.SyncDir(l.dir); err != nil {
			return fmt.Errorf("finish compaction: %w", err)
		}
	}
	for _, r := range ld.rename {
		if err := l.fs.Rename(l.path(r[0]), l.path(r[1])); err != nil {
			return fmt.Errorf("finish compaction: %w", err)
		}
		for _, s := range ld.found {
			if s.fromSwap && s.file.name() == l.path(r[0]) {
				s.file.setPath(l.path(r[1]))
			}
		}
	}
	changed := len(ld.remove)+len(ld.rename) > 0
	for k := len(ld.found) - 1; k > ld.last; k-- {
		if err := l.discard(ld.found[k].segment, ld.tail); err != nil {
			return err
		}
		changed = true
	}
	renew, err := ld.keepSegments()
	if err != nil {
		return err
	}
	if err := l.removeSnapshotsAbove(ld.end); err != nil {
		return err
	}
	l.strays = slices.ContainsFunc(ld.snapshots, func(at model.Offset) bool { return !l.isBase(at) })
	if renew {
		fresh, err := l.createSegment(ld.end)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, fresh)
		l.startTip(ld.o.Now, fresh)
	}
	if ld.tail != nil {
		ld.report.Removed = append(ld.report.Removed, *ld.tail)
	}
	if changed || renew {
		return l.fs.SyncDir(l.dir)
	}
	return nil
}

// keepAside has kept what this load takes off the log. An unfinished cut was told
// before its beginning, if it was this program's; once more does no harm.
func (ld *loader) keepAside() {
	for i := range ld.report.Removed {
		ld.l.kept(&ld.report.Removed[i])
	}
	if ld.tail != nil {
		ld.l.kept(ld.tail)
	}
	if ld.badEpochs != nil {
		ld.l.kept(ld.badEpochs)
	}
}

// clearAway removes what an earlier process has left.
func (ld *loader) clearAway() error {
	for _, name := range ld.remove {
		if err := removeIfThere(ld.l.fs, ld.l.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// keepSegments enters the segments that stay, and stores indexes that were made
// anew. renew tells that the last one can't be written on: its file is longer,
// and the bytes behind its end must stay as they are until they are reclaimed.
func (ld *loader) keepSegments() (renew bool, err error) {
	l := ld.l
	l.segments = nil
	if s := ld.found[ld.last]; s.hadFinalSeal && s.size == 0 && s.length == 0 {
		// An empty one may be written on, without its seal.
		for _, name := range s.sideFiles() {
			if err := removeIfThere(l.fs, name); err != nil {
				return false, err
			}
		}
		s.hadFinalSeal = false
		if err := l.fs.SyncDir(l.dir); err != nil {
			return false, err
		}
	}
	for i, s := range ld.found[:ld.last+1] {
		longer := s.size < s.length
		if s.scanned && s.end > ld.o.RecoveryPoint {
			s.file.setDirty() // a killed process may not have synced it
		}
		if i == ld.last && !longer && !s.hadFinalSeal {
			if err := ld.dropStaleSeal(s); err != nil {
				return false, err
			}
			l.startTip(ld.o.Now, s.segment)
			created, jitter := l.tip.created, l.tip.jitter
			l.tip = ld.tip
			// A killed process may have left blocks reserved behind the end.
			l.tip.created, l.tip.jitter, l.tip.reserved = created, jitter, s.size+1
			l.segments = append(l.segments, &segment{base: s.base, file: s.file, interval: s.interval, unread: s.unread})
			l.tip.seg = l.segments[len(l.segments)-1]
			return false, nil
		}
		if longer && s.size == 0 && i == ld.last {
			return true, l.discard(s.segment, ld.tail)
		}
		if longer {
			l.trash.cuts = append(l.trash.cuts, pendingCut{file: s.file, size: s.size})
		}
		next := ld.end
		if i < ld.last {
			next = ld.found[i+1].base
		}
		if err := ld.storeRebuilt(s, next, longer); err != nil {
			return false, err
		}
		l.segments = append(l.segments, s.segment)
	}
	return true, nil
}

// dropStaleSeal removes what stands beside the segment that is going to be written on if
// the seal knows of another end: power has taken bytes that were there when an orderly
// stop, which failed, wrote it. A later start would miss them: one after a kill, or with
// the recovery point further on, where other bytes stand. The next flush makes that last
// (see unsealed), before the recovery point moves.
func (ld *loader) dropStaleSeal(s *foundSegment) error {
	se := s.seal
	if se == nil || se.size < s.size || se.size == s.size && se.next == ld.end {
		return nil
	}
	for _, name := range s.sideFiles() {
		if err := removeIfThere(ld.l.fs, name); err != nil {
			return err
		}
	}
	s.seal = nil
	return nil
}

// unsealed reports whether the last segment has no seal after a stop out of order. There
// may have been one, removed a moment ago or by a process that was killed then.
func (ld *loader) unsealed() bool {
	return ld.o.Stop != StopClean && len(ld.found) > 0 && ld.found[ld.last].seal == nil
}

// storeRebuilt stores the indexes of a sealed segment if they were made anew. The
// seal of one whose file is longer has to be durable (see Log.storeShortened).
func (ld *loader) storeRebuilt(s *foundSegment, next model.Offset, longer bool) error {
	if s.rebuilt == nil {
		return nil
	}
	if longer {
		s.indexes.Store(s.rebuilt)
		return ld.l.storeShortened(s.segment, next)
	}
	store := s.store
	if s.trusted {
		store = s.storeBelow
	}
	se, err := store(s.rebuilt, s.sealFor(next))
	if vfs.IsNoSpace(err) {
		// They serve from memory, and are stored once there is room.
		s.indexes.Store(s.rebuilt)
		s.repair.Store(true)
		return nil
	}
	if err != nil {
		return fmt.Errorf("store indexes of segment %d: %w", s.base, err)
	}
	s.seal = se
	ld.l.flush.noteSide(s.sideFiles()...)
	s.keep(s.rebuilt)
	return nil
}

// finish makes the log ready for use.
func (ld *loader) finish() error {
	l := ld.l
	l.logEnd = ld.end
	l.recoveryPoint = min(ld.o.RecoveryPoint, ld.end)
	if ld.o.Stop == StopClean {
		l.recoveryPoint = ld.end
	}
	l.publish()
	if ld.o.Stop == StopClean || len(ld.found) == 0 {
		if err := l.loadSnapshot(l.logEnd); err != nil {
			return err
		}
		if err := l.replayProducers(l.View()); err != nil {
			return err
		}
	}
	l.producers.AdvanceLogStart(l.logStart)
	// A killed process may have died between a rename and its sync: a flush that
	// moves the recovery point makes the names durable too. This holds where power is
	// said to have failed as well: who can't tell says that of a kill.
	// Nor may the name of a seal that was removed come back.
	l.flush.dir = l.flush.dir || l.recoveryPoint < l.logEnd || ld.unsealed()
	ld.noteUnchanged()
	return nil
}

// startEmpty makes a log where there is none.
func (ld *loader) startEmpty() error {
	l := ld.l
	ld.report.Created = true
	if err := l.fs.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	if err := ld.clearAway(); err != nil {
		return err
	}
	for _, o := range ld.snapshots {
		if err := removeIfThere(l.fs, l.path(fileName(o, snapshotSuffix))); err != nil {
			return err
		}
	}
	if ld.fileEpochs != nil {
		if err := l.clearEpochs(); err != nil {
			return err
		}
	}
	fresh, err := l.createSegment(l.logStart)
	if err != nil {
		return err
	}
	l.segments = []*segment{fresh}
	l.startTip(ld.o.Now, fresh)
	ld.end = l.logStart
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.flush.dir = false
	return ld.finish()
}

// startFresh makes a log in a directory of which it is known that it holds none.
func (ld *loader) startFresh() error {
	l := ld.l
	ld.report.Created = true
	fresh, err := l.createSegment(l.logStart)
	if err != nil {
		return err
	}
	// Most logs are not written to for a while, and many never are.
	fresh.file.close()
	l.segments = []*segment{fresh}
	l.startTip(ld.o.Now, fresh)
	l.logEnd, l.recoveryPoint = l.logStart, min(ld.o.RecoveryPoint, l.logStart)
	l.producers.Reset(l.logStart)
	l.blank = true
	l.publish()
	return nil
}

// startBlank goes on with the one segment of a log that holds nothing and can
// have lost nothing. Nothing is read, and no handle is opened.
func (ld *loader) startBlank() {
	l, s := ld.l, ld.found[0]
	only := &segment{base: s.base, file: s.file, interval: s.interval}
	l.segments = []*segment{only}
	l.startTip(ld.o.Now, only)
	l.tip.reserved = 1 // a killed process may have left blocks reserved
	l.logStart, l.logEnd, l.recoveryPoint = s.base, s.base, s.base
	l.producers.Reset(s.base)
	l.blank, l.doubtful = true, ld.o.Stop != StopClean
	l.flush.dir = l.doubtful
	l.publish()
}

// belowStart empties a log that ends below its start: what it holds was deleted.
func (ld *loader) belowStart() error {
	l := ld.l
	r := Removal{Why: WhyBelowStart, Start: ld.found[0].base, End: ld.end, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}
	for _, s := range ld.found {
		if s.length > 0 {
			r.add(s.file, 0, s.length)
		}
	}
	ld.l.kept(&r)
	for k := len(ld.found) - 1; k >= 0; k-- {
		if err := l.discard(ld.found[k].segment, &r); err != nil {
			return err
		}
	}
	ld.report.Removed = append(ld.report.Removed, r)
	ld.found = nil
	l.producers = producer.New()
	return ld.startEmpty()
}
