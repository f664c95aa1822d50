package log

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// Open opens the log in a directory, or creates it. What it believes depends on
// Options.Stop. On damage, a *CorruptionError, nothing on disk has been changed;
// any other error is one of the disk.
//
// The passes:
//
//	A survey    name every file, plan what of a crash's leftovers goes
//	B trusted   segments below the recovery point, or all after a clean stop:
//	            sizes, first and last batch, seals, indexes
//	C scan      segments from the one that holds the recovery point on: every
//	            batch; decides where the log ends
//	D epochs    from the file where it agrees with the batches, else from them
//	E producers newest good snapshot, and what follows it
//	F carry out the plan: only now is anything written
func Open(o Options) (*Log, LoadReport, error) {
	ld := &loader{o: o}
	if ld.o.Files == nil {
		ld.o.Files = NewFileCache(0, 0)
	}
	l, err := ld.load()
	if err != nil {
		for _, s := range ld.found {
			s.file.close()
		}
		return nil, ld.report, err
	}
	return l, ld.report, nil
}

// loader is the work of one Open.
type loader struct {
	o      Options
	report LoadReport
	l      *Log

	// found are the segments that stand on disk, oldest first.
	found []*foundSegment
	// remove and rename are what pass F does first.
	remove []string
	rename [][2]string
	// snapshots are the offsets of all producer snapshots.
	snapshots []model.Offset
	side      map[string]bool // names of index files that stand beside segments
	// blank: Log.blank, as the survey found it.
	blank bool

	// end is the offset at which the log ends, in segment last. Later segments
	// are dropped.
	end  model.Offset
	last int
	// tail is what is cut off there, nil if nothing is.
	tail *Removal
	// tip is the write side of the last segment.
	tip tip
	// txnsMissing are the trusted segments whose transaction index must be made
	// anew.
	txnsMissing []int

	// fileEpochs are those of the epoch file, nil if it is missing or bad.
	fileEpochs *epoch.Cache
	// badEpochs is an epoch file that makes no sense, nil if it does.
	badEpochs *Removal
	// credible: the file agrees with the segments wherever it was compared.
	credible bool
	// scannedEpochs are the epochs that pass C met, with their first offsets.
	scannedEpochs []epoch.Entry
	scanBuffer    []byte
}

// foundSegment is a segment under inspection.
type foundSegment struct {
	*segment
	// length is that of the file; size may become less.
	length int64
	// rebuilt are indexes that have to be stored, nil if those on disk serve.
	rebuilt *segmentIndexes
	// scanned: every batch was checked in this load.
	scanned bool
	// hadFinalSeal: it must not be appended to.
	hadFinalSeal bool
	// trusted: it lies below the recovery point, and the next start will take it as
	// it stands.
	trusted bool
	// badSeal: there is a seal, and it can't be read. Then power may have failed
	// while the files beside the segment were written, and none is believed.
	badSeal bool
	// fromSwap: the files beside it are not to be believed.
	fromSwap bool
	// first and lastBatch describe its first and last batch, if it has one.
	first, lastBatch batchFacts
}

// batchFacts is what is compared with the epoch cache.
type batchFacts struct {
	base, last model.Offset
	epoch      model.LeaderEpoch
	some       bool
}

// begin makes the log that is to be filled in.
func (ld *loader) begin() {
	ld.l = &Log{
		fs: ld.o.FS, dir: ld.o.Dir, partition: ld.o.Partition, files: ld.o.Files, rand: ld.o.Rand,
		cfg: ld.o.Config.withDefaults(), lowerRP: ld.o.LowerRecoveryPoint, keep: ld.o.Keep,
		epochs: &epoch.Cache{}, producers: producer.New(),
		logStart: max(ld.o.LogStart, 0), snapshotAt: noSnapshot,
	}
	ld.l.flush.epochs.shared = &sharedEpochFile{}
}

func (ld *loader) load() (*Log, error) {
	ld.begin()
	if ld.o.Fresh {
		return ld.l, ld.startFresh()
	}
	if ld.o.Renew {
		if err := renew(ld.o.FS, ld.o.Dir, ld.o.RecoveryPoint); err != nil {
			return nil, err
		}
	}
	if err := ld.survey(); err != nil {
		return nil, err
	}
	if err := ld.lostSegment(); err != nil {
		return nil, err
	}
	if len(ld.found) == 0 {
		return ld.l, ld.startEmpty()
	}
	if base := ld.found[0].base; ld.blank && ld.o.RecoveryPoint <= base && ld.l.logStart <= base {
		ld.startBlank()
		return ld.l, nil
	}
	if err := ld.noted(); err != nil {
		return nil, err
	}
	from := ld.scanFrom()
	for i := range ld.found[:from] {
		if err := ld.trust(i); err != nil {
			return nil, err
		}
	}
	if err := ld.scanAll(from); err != nil {
		return nil, err
	}
	if ld.end < ld.l.logStart {
		return ld.l, ld.belowStart()
	}
	ld.l.logStart = max(ld.l.logStart, ld.found[0].base)
	if err := ld.settleEpochs(from); err != nil {
		return nil, err
	}
	if ld.scanBuffer = nil; ld.o.Checked != nil && ld.o.Stop != StopClean {
		ld.o.Checked()
	}
	if err := ld.carryOut(); err != nil {
		return nil, err
	}
	return ld.l, ld.finish()
}

// scanFrom returns the first segment whose batches are checked one by one: the
// one that holds the last durable record. A segment that ends exactly at the
// recovery point is scanned too, because the flush that moved the point there
// may have come before the sealing, and its indexes be lost.
func (ld *loader) scanFrom() int {
	n := len(ld.found)
	if ld.o.Stop == StopClean {
		return n
	}
	i := n - 1
	for i > 0 && ld.found[i].base >= ld.o.RecoveryPoint {
		i--
	}
	return i
}

// survey is pass A. Nothing is changed yet.
func (ld *loader) survey() error {
	names, err := ld.o.FS.List(ld.o.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", ld.o.Dir, err)
	}
	names, err = ld.settleSwaps(names)
	if err != nil {
		return err
	}
	ld.side = make(map[string]bool)
	for _, name := range names {
		base, suffix, ok := parseName(name)
		switch {
		case isLeftover(name):
			ld.remove = append(ld.remove, name)
		case ok && suffix == logSuffix:
			if err := ld.find(base, ld.l.path(name), false); err != nil {
				return err
			}
		case ok && suffix == snapshotSuffix:
			ld.snapshots = append(ld.snapshots, base)
		case ok && isIndexSuffix(suffix):
			ld.side[name] = true
		case name != checkpoint.EpochFile && name != checkpoint.PartitionMetadataFile:
			ld.report.Ignored = append(ld.report.Ignored, name)
		}
	}
	slices.SortFunc(ld.found, func(a, b *foundSegment) int {
		switch {
		case a.base < b.base:
			return -1
		case a.base > b.base:
			return 1
		}
		return 0
	})
	ld.orphans()
	ld.fileEpochs = ld.readEpochs()
	names = slices.DeleteFunc(names, func(name string) bool { return name == checkpoint.PartitionMetadataFile })
	ld.blank = len(names) == 1 && len(ld.found) == 1 && ld.found[0].length == 0 && len(ld.rename) == 0
	return nil
}

// find enters a segment file.
func (ld *loader) find(base model.Offset, path string, fromSwap bool) error {
	info, err := ld.o.FS.Stat(path)
	if err != nil {
		return fmt.Errorf("size of segment: %w", err)
	}
	ld.found = append(ld.found, &foundSegment{
		segment: &segment{
			base: base, end: base, size: info.Size,
			file:  newSegmentFile(ld.o.FS, ld.o.Files, path),
			maxTS: model.NoTimestamp, maxTSLast: base, interval: ld.l.cfg.IndexIntervalBytes,
		},
		length:   info.Size,
		fromSwap: fromSwap,
	})
	return nil
}

// orphans plans the removal of index files without a segment.
func (ld *loader) orphans() {
	bases := make(map[model.Offset]bool, len(ld.found))
	for _, s := range ld.found {
		bases[s.base] = true
	}
	for name := range ld.side {
		if base, _, _ := parseName(name); !bases[base] {
			ld.remove = append(ld.remove, name)
		}
	}
	slices.Sort(ld.remove)
}

// lostSegment returns damage if a seal stands without its segment. What takes a
// segment away removes the seal first, and leaves the segment under another name until
// both are durable; only a loss of power can take the name of a segment that was not
// durable yet, and leave that of its seal.
func (ld *loader) lostSegment() error {
	for _, name := range ld.remove {
		base, suffix, ok := parseName(name)
		if !ok || suffix != sealSuffix || !ld.side[name] || ld.leavesAnother(base) {
			continue
		}
		b, err := vfs.ReadFile(ld.o.FS, ld.l.path(name))
		if err != nil {
			continue
		}
		se, err := decodeSeal(b)
		if err != nil || se.size == 0 || se.next <= ld.l.logStart || ld.o.Stop == StopPower && base >= ld.o.RecoveryPoint {
			continue
		}
		return &CorruptionError{
			Dir: ld.o.Dir, Segment: base, Offset: base, BelowRecoveryPoint: ld.o.Stop == StopClean || base < ld.o.RecoveryPoint,
			Err: fmt.Errorf("%s was sealed with %d bytes and is gone: %w", fileName(base, logSuffix), se.size, errHole),
		}
	}
	return nil
}

// leavesAnother reports whether a segment stands under the name of one that awaits
// its unlinking.
func (ld *loader) leavesAnother(base model.Offset) bool {
	return slices.ContainsFunc(ld.remove, func(name string) bool {
		return strings.HasPrefix(name, fileName(base, logSuffix)) && strings.HasSuffix(name, deletedSuffix)
	})
}

// settleSwaps decides what becomes of an interrupted compaction, as Kafka does:
// .cleaned is incomplete and goes, together with every .swap at or above the
// least of it (an interrupted split); any other .swap is complete and takes the
// place of the segments whose range it covers. It returns the names that are
// left for the survey.
func (ld *loader) settleSwaps(names []string) ([]string, error) {
	cleanedMin, anyCleaned := model.Offset(0), false
	for _, name := range names {
		if base, suffix, ok := parseName(name); ok && strings.HasSuffix(suffix, cleanedSuffix) {
			if !anyCleaned || base < cleanedMin {
				cleanedMin, anyCleaned = base, true
			}
		}
	}
	var rest []string
	swapped := make(map[model.Offset]bool)
	for _, name := range names {
		base, suffix, ok := parseName(name)
		switch {
		case ok && strings.HasSuffix(suffix, cleanedSuffix),
			ok && strings.HasSuffix(suffix, swapSuffix) && anyCleaned && base >= cleanedMin:
			ld.remove = append(ld.remove, name)
		case ok && suffix == logSuffix+swapSuffix:
			if err := ld.find(base, ld.l.path(name), true); err != nil {
				return nil, err
			}
			swapped[base] = true
			ld.rename = append(ld.rename, [2]string{name, strings.TrimSuffix(name, swapSuffix)})
		case ok && strings.HasSuffix(suffix, swapSuffix):
			// Its indexes are made anew; that is rarer than worth a rename.
			ld.remove = append(ld.remove, name)
		default:
			rest = append(rest, name)
		}
	}
	if len(swapped) == 0 {
		return rest, nil
	}
	return ld.replaced(rest)
}

// replaced plans the removal of the segments that the swaps stand for.
func (ld *loader) replaced(names []string) ([]string, error) {
	type span struct{ from, to model.Offset }
	var spans []span
	for i, s := range ld.found {
		end, err := ld.swapEnd(i)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span{s.base, max(end, s.base+1)})
	}
	var rest []string
	for _, name := range names {
		base, suffix, ok := parseName(name)
		covered := ok && suffix != snapshotSuffix && !isLeftover(name) &&
			slices.ContainsFunc(spans, func(sp span) bool { return base >= sp.from && base < sp.to })
		if covered {
			ld.remove = append(ld.remove, name)
			continue
		}
		rest = append(rest, name)
	}
	return rest, nil
}

// readEpochs returns the epoch file's content, nil if it is missing or bad.
func (ld *loader) readEpochs() *epoch.Cache {
	entries, err := checkpoint.ReadEpochs(ld.o.FS, epochPath(ld.o.Dir))
	var c *epoch.Cache
	if err == nil && len(entries) > 0 {
		c, err = epoch.New(entries)
	}
	if err == nil {
		return c
	}
	if info, serr := ld.o.FS.Stat(epochPath(ld.o.Dir)); serr == nil && info.Size > 0 {
		r := unreadable(epochPath(ld.o.Dir), info.Size)
		ld.badEpochs = &r
	}
	return nil
}

// swapEnd reads the output of a compaction for the offset after its last batch. It was
// synced before it got its name, and its sources go for it: bytes in it that are no
// batch are damage. It may be empty.
func (ld *loader) swapEnd(i int) (model.Offset, error) {
	s := ld.found[i]
	f, err := s.file.pin(0)
	if err != nil {
		return 0, err
	}
	defer s.file.unpin()
	sc := scanner{f: f, limit: s.size, buf: make([]byte, min(s.size, scanBufferSize))}
	end := s.base
	for pos := int64(0); ; {
		b, err := sc.next(pos)
		if err == nil && b != nil {
			err = b.CheckCRC()
		}
		var bad *badBatch
		var corrupt *record.CorruptError
		if errors.As(err, &bad) || errors.As(err, &corrupt) || err == nil && b != nil && b.BaseOffset() < end {
			return 0, ld.damage(i, pos, end, fmt.Errorf("the output of a compaction holds no batch at position %d: %w", pos, errors.Join(err, errNoBatch)))
		}
		if err != nil {
			return 0, err
		}
		if b == nil {
			return end, nil
		}
		end = b.NextOffset()
		pos += int64(len(b))
	}
}

// damage builds the error for bytes in segment i that no stop explains.
func (ld *loader) damage(i int, pos int64, o model.Offset, err error) error {
	s := ld.found[i]
	return &CorruptionError{
		Dir: ld.o.Dir, Segment: s.base, Pos: pos, Offset: o, Err: err,
		BelowRecoveryPoint: ld.isBelow(o),
	}
}

// isBelow reports whether what stands at an offset was once durable.
func (ld *loader) isBelow(o model.Offset) bool {
	return ld.o.Stop == StopClean || o < ld.o.RecoveryPoint
}

var errHole = errors.New("a segment is missing")

// readSeal returns the seal of a segment, nil without a good one.
func (ld *loader) readSeal(s *foundSegment) *seal {
	name := fileName(s.base, sealSuffix)
	if s.fromSwap || !ld.side[name] {
		return nil
	}
	b, err := vfs.ReadFile(ld.o.FS, ld.l.path(name))
	if err != nil {
		s.badSeal = true
		return nil
	}
	se, err := decodeSeal(b)
	if err != nil {
		s.badSeal = true
		return nil
	}
	s.hadFinalSeal = se.final
	return se
}
