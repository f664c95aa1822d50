package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// crcTriesMax bounds how often bytes behind a bad batch are taken for a batch
// before they are believed to be one.
const crcTriesMax = 1000

// scanAll is pass C: it checks every batch of the segments from from on and
// settles where the log ends. The producers' state is brought up to there on
// the way.
func (ld *loader) scanAll(from int) error {
	n := len(ld.found)
	ld.last = n - 1
	if from == n {
		ld.end = ld.found[n-1].end
		return nil
	}
	if err := ld.producersBefore(from); err != nil {
		return err
	}
	ld.credible = ld.fileAgrees(from)
	for i := from; i < n; i++ {
		stop, err := ld.scanSegment(i, false)
		if err != nil {
			return err
		}
		if stop {
			break
		}
	}
	ld.end = ld.found[ld.last].end
	return nil
}

// segmentScan is the scan of one segment.
type segmentScan struct {
	ld *loader
	i  int
	s  *foundSegment
	// trusted: anything bad is damage, and producers and epochs aren't fed.
	trusted bool
	sc      scanner
	t       tip
	pos     int64
	// expected is the least base offset that the next batch may have.
	expected model.Offset
	// next is the base of the following segment.
	next model.Offset
	// epoch is that of the last batch.
	epoch model.LeaderEpoch
}

// scanSegment checks the batches of segment i. stop tells that the log ends in
// it and later segments are no part of it.
func (ld *loader) scanSegment(i int, trusted bool) (stop bool, err error) {
	s := ld.found[i]
	f, err := s.file.pin(0)
	if err != nil {
		return false, err
	}
	defer s.file.unpin()
	ld.scanBuffer = grow(ld.scanBuffer, s.length)
	s.seal = ld.readSeal(s)
	if s.seal != nil && s.seal.final && s.seal.size < s.length {
		ld.unfinishedCut(i, s.seal.size)
	}
	if ld.shorterThanSealed(i) {
		return false, ld.damage(i, s.length, s.base, fmt.Errorf("%d bytes, there were %d at an orderly stop", s.length, s.seal.size))
	}
	ss := &segmentScan{
		ld: ld, i: i, s: s, trusted: trusted,
		sc:       scanner{f: f, limit: s.size, buf: ld.scanBuffer},
		t:        tip{seg: s.segment, index: newIndexBuilder(s.base, ld.l.cfg.IndexIntervalBytes)},
		expected: s.base, next: ld.nextBase(i), epoch: ld.epochBefore(i),
	}
	s.first, s.lastBatch = batchFacts{}, batchFacts{}
	stop, err = ss.run()
	if err != nil {
		return false, err
	}
	ld.report.Scanned += ss.pos
	ss.settle()
	if stop {
		ld.last = i
	}
	return stop, nil
}

// shorterThanSealed reports whether the last segment has lost bytes that were there when
// the seal beside it was written. Power may take bytes and leave the seal, but not below
// the recovery point.
func (ld *loader) shorterThanSealed(i int) bool {
	s := ld.found[i]
	return i == len(ld.found)-1 && s.seal != nil && !s.seal.final && s.seal.size > s.length &&
		(ld.o.Stop != StopPower || s.seal.next <= ld.o.RecoveryPoint)
}

func grow(buf []byte, size int64) []byte {
	if want := min(size, scanBufferSize); int64(len(buf)) < want {
		return make([]byte, want)
	}
	return buf
}

// epochBefore is the epoch of the last batch before segment i.
func (ld *loader) epochBefore(i int) model.LeaderEpoch {
	for i--; i >= 0; i-- {
		if b := ld.found[i].lastBatch; b.some {
			return b.epoch
		}
	}
	return model.NoEpoch
}

func (ss *segmentScan) run() (stop bool, err error) {
	for {
		b, err := ss.sc.next(ss.pos)
		var bad *badBatch
		if err != nil && !errors.As(err, &bad) {
			return false, err
		}
		if b == nil && bad == nil {
			return ss.atEnd()
		}
		if ss.expected == ss.next && (bad != nil || b.BaseOffset() >= ss.next) {
			// The next segment goes on exactly here: what follows was cut off,
			// but the file not yet. No cut leaves earlier offsets behind it.
			return false, ss.cutUnfinished()
		}
		if bad == nil {
			bad = ss.check(b)
		}
		if bad != nil {
			return ss.verdict(b, bad)
		}
		if b.LastOffset() >= ss.next && b.BaseOffset() < ss.next {
			return false, ss.cutUnfinished() // the cut went through this batch
		}
		ss.accept(b)
	}
}

// cutUnfinished ends the segment where its successor goes on. A cut has made that one,
// unless the segment was sealed with what stands there.
func (ss *segmentScan) cutUnfinished() error {
	if se := ss.s.seal; se != nil && se.final && se.next == ss.next && se.size > ss.pos {
		return ss.ld.damage(ss.i, ss.pos, min(ss.expected, ss.next),
			fmt.Errorf("the segment was sealed with %d bytes for a successor at %d, which goes on at position %d", se.size, ss.next, ss.pos))
	}
	ss.ld.unfinishedCut(ss.i, ss.pos)
	return nil
}

// check looks at a batch whose header is well formed.
func (ss *segmentScan) check(b record.Batch) *badBatch {
	bad := func(format string, args ...any) *badBatch {
		return &badBatch{Pos: ss.pos, Sound: true, Err: fmt.Errorf(format, args...)}
	}
	if !mutant.On("log-skip-crc") {
		if err := b.CheckCRC(); err != nil {
			return &badBatch{Pos: ss.pos, Err: err}
		}
	}
	if mutant.On("log-skip-structure") {
		return nil
	}
	switch {
	case b.BaseOffset() < ss.expected:
		return bad("batch [%d, %d] where %d or more is expected", b.BaseOffset(), b.LastOffset(), ss.expected)
	case int64(b.LastOffset()-ss.s.base) > math.MaxInt32:
		return bad("batch [%d, %d] is too far from the segment's base %d", b.BaseOffset(), b.LastOffset(), ss.s.base)
	case b.BaseOffset() >= ss.next:
		return bad("batch [%d, %d] before segment %d", b.BaseOffset(), b.LastOffset(), ss.next)
	case ss.skips(b):
		return bad("batch [%d, %d] behind offset %d: the record before the recovery point %d is in none",
			b.BaseOffset(), b.LastOffset(), ss.expected, ss.ld.o.RecoveryPoint)
	case b.LeaderEpoch() >= 0 && b.LeaderEpoch() < ss.epoch || b.LeaderEpoch() < model.NoEpoch:
		return bad("batch [%d, %d] of epoch %d after epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), ss.epoch)
	}
	// Below the recovery point the epoch file is as durable as the batches.
	if ss.ld.credible && b.BaseOffset() < ss.ld.o.RecoveryPoint && b.LeaderEpoch() >= 0 {
		if e, ok := ss.ld.fileEpochs.EpochFor(b.BaseOffset()); ok && e != b.LeaderEpoch() {
			return bad("batch [%d, %d] of epoch %d in what the epoch file calls epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), e)
		}
	}
	return nil
}

// skips reports a base offset that was raised: a recovery point is where a batch
// ends, or where a cut has left off, which is where a segment begins; here it is
// neither.
func (ss *segmentScan) skips(b record.Batch) bool {
	rp := ss.ld.o.RecoveryPoint
	return ss.ld.o.Dense && ss.expected < b.BaseOffset() && ss.expected < rp && rp <= b.LastOffset()
}

// accept takes a good batch into account.
func (ss *segmentScan) accept(b record.Batch) {
	facts := batchFacts{base: b.BaseOffset(), last: b.LastOffset(), epoch: b.LeaderEpoch(), some: true}
	if !ss.s.first.some {
		ss.s.first = facts
	}
	ss.s.lastBatch = facts
	ss.t.add(b, ss.pos)
	// The first one is noted even if the segment before ends in the same epoch:
	// the file may not know of any.
	if e := b.LeaderEpoch(); e > ss.epoch || len(ss.ld.scannedEpochs) == 0 && e >= 0 {
		ss.epoch = e
		if !ss.trusted {
			ss.ld.scannedEpochs = append(ss.ld.scannedEpochs, epoch.Entry{Epoch: e, Start: b.BaseOffset()})
		}
	}
	if !ss.trusted {
		if done, ok := ss.ld.l.producers.Update(b); ok && done.Aborted {
			ss.t.txns = append(ss.t.txns, txnEntry{
				producer: done.ProducerID, first: done.FirstOffset, last: done.LastOffset, stable: done.LastStableOffset,
			})
		}
	}
	ss.expected = b.NextOffset()
	ss.pos += int64(len(b))
}

// atEnd judges the boundary to the next segment. A hole in front of it is legal
// where compaction has removed the last batches. After a loss of power it more
// likely means that the end of this file, or a whole file, never reached the
// disk, unless the seal says that it was sealed so.
func (ss *segmentScan) atEnd() (stop bool, err error) {
	last := ss.i == len(ss.ld.found)-1
	if se := ss.s.seal; last && se != nil && !se.final && se.size == ss.pos && se.next != ss.expected &&
		(ss.ld.o.Stop != StopPower || se.next <= ss.ld.o.RecoveryPoint) {
		return false, ss.ld.damage(ss.i, ss.pos, min(se.next, ss.expected),
			fmt.Errorf("the last batch ends at %d, at an orderly stop it did at %d", ss.expected, se.next))
	}
	if last || ss.expected >= ss.next || ss.trusted || ss.s.fromSwap || ss.next <= ss.ld.o.CleanedTo {
		return false, nil
	}
	se := ss.s.seal
	sealed := se != nil && se.final && se.size == ss.pos
	if sealed && se.next == ss.next {
		return false, nil
	}
	hole := fmt.Errorf("segment ends at %d, the next begins at %d: %w", ss.expected, ss.next, errHole)
	// The seal knows of more bytes than there are: no compaction, the pages are
	// gone, as after a failed fsync.
	if se != nil && se.final && se.size > ss.pos && (ss.ld.o.Stop == StopProcess || ss.expected < ss.ld.o.RecoveryPoint) {
		return false, ss.ld.damage(ss.i, ss.pos, ss.expected, hole)
	}
	if sealed && se.next < ss.next {
		if ss.ld.o.Stop == StopProcess || ss.expected < ss.ld.o.RecoveryPoint {
			return false, ss.ld.damage(ss.i, ss.pos, ss.expected, hole)
		}
	}
	if ss.ld.o.Stop != StopPower || ss.expected < ss.ld.o.RecoveryPoint {
		return false, nil
	}
	ss.ld.cutTail(ss.i, ss.pos, ss.expected, WhyCrashHole)
	return true, nil
}

// verdict decides between a crash and damage (rules 2.6 and 2.7).
func (ss *segmentScan) verdict(b record.Batch, bad *badBatch) (stop bool, err error) {
	ld := ss.ld
	// A whole batch of below the recovery point, behind one of above, is no torn
	// write: the base offset of either, which no checksum covers, was changed.
	durable := bad.Sound && b.BaseOffset() < ld.o.RecoveryPoint && !ss.tornOffset(b)
	// So it is where the last epoch below the recovery point is one that this batch
	// falls behind.
	durable = durable || bad.Sound && ss.expected == ld.o.RecoveryPoint && b.LeaderEpoch() >= 0 && b.LeaderEpoch() < ss.epoch
	if (ss.trusted || durable || ss.expected < ld.o.RecoveryPoint) && (ss.trusted || !mutant.On("log-damage-cut")) {
		return false, ld.damage(ss.i, bad.Pos, ss.expected, bad)
	}
	if ld.o.Stop == StopProcess {
		if bad.Sound {
			// No write that was cut short leaves a whole batch: it, or one before it,
			// was changed where no checksum looks.
			return false, ld.damage(ss.i, bad.Pos, ss.expected, bad)
		}
		behind, err := ss.validBehind(bad.Pos)
		if err != nil {
			return false, err
		}
		if behind {
			return false, ld.damage(ss.i, bad.Pos, ss.expected, fmt.Errorf("%w, with valid batches behind it", bad))
		}
	}
	ld.cutTail(ss.i, ss.pos, ss.expected, WhyCrashTail)
	return true, nil
}

// sectorSize is the least that a disk writes at once, in bytes.
const sectorSize = 512

// tornOffset reports whether a sound batch has the base offset that a loss of
// power leaves of the next one, where the file has lost the sectors in front of a
// boundary that goes through the offset, or the zeros with which its length begins.
// No checksum covers them, so that the batch looks as whole as one from far below.
func (ss *segmentScan) tornOffset(b record.Batch) bool {
	lost := sectorSize - ss.pos%sectorSize
	if ss.ld.o.Stop != StopPower || lost >= record.SizePrefix {
		return false
	}
	for _, x := range b[:lost] {
		if x != 0 {
			return false
		}
	}
	left := uint64(1)<<(8*max(0, baseOffsetSize-lost)) - 1
	return uint64(b.BaseOffset()) == uint64(ss.expected)&left
}

// baseOffsetSize is that of a batch's first field in bytes.
const baseOffsetSize = 8

// cutTail notes that the log ends in segment i at pos.
func (ld *loader) cutTail(i int, pos int64, at model.Offset, why string) {
	r := Removal{Why: why, Start: at, End: at, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}
	ld.found[i].size = pos
	for k := i; k < len(ld.found); k++ {
		if s := ld.found[k]; s.length > pos {
			r.add(s.file, pos, s.length)
		}
		pos = 0
	}
	ld.tail = &r
}

// settle fills in the segment from the scan.
func (ss *segmentScan) settle() {
	s := ss.s
	s.scanned = true
	s.end = ss.expected
	s.maxTS, s.maxTSLast = ss.t.index.maxTS, ss.t.index.maxTSLast
	if !ss.trusted {
		s.txns = ss.t.txns
	}
	// The seal tells what was written, the scan what is there. That counts as written
	// where the epoch cache is going to be made of it too; below, the first scrub holds
	// both against each other.
	if se := s.seal; se != nil && se.size == ss.pos && se.heads.known && !ss.ld.o.Anew {
		ss.t.index.heads = se.heads
	} else if ss.trusted && !ss.ld.o.Anew {
		ss.t.index.heads.known = false
	}
	s.setHeadSum(ss.t.index.heads)
	s.rebuilt = ss.t.index.sealed()
	ss.t.size = s.size
	ss.ld.tip = ss.t
}

// validBehind reports whether a valid batch begins anywhere behind pos, in this
// segment or a later one: a torn last write leaves none.
func (ss *segmentScan) validBehind(pos int64) (bool, error) {
	for _, s := range ss.ld.found[ss.i+1:] {
		if s.length > 0 {
			return true, nil
		}
	}
	tries := 0
	limit := ss.sc.limit
	for at := pos + 1; at+record.HeaderSize <= limit; {
		window, err := ss.sc.bytes(at, int(min(limit-at, scanBufferSize)))
		if err != nil {
			return false, err
		}
		q := 0
		for ; q+record.HeaderSize <= len(window); q++ {
			if !ss.plausible(window[q:], limit-at-int64(q)) {
				continue
			}
			if tries++; tries > crcTriesMax {
				return true, nil
			}
			whole, err := ss.sc.bytes(at+int64(q), int(record.SizeOf(window[q:])))
			if err != nil {
				return false, err
			}
			if b := record.Batch(whole); b.CheckHeader() == nil && b.CheckCRC() == nil {
				return true, nil
			}
			q++
			break // the window's bytes may have moved
		}
		at += int64(q)
	}
	return false, nil
}

// plausible reports whether b may begin with the header of a batch that
// continues this log; rest is how many bytes the file has from there.
func (ss *segmentScan) plausible(b []byte, rest int64) bool {
	if b[16] != record.Magic {
		return false
	}
	base := int64(binary.BigEndian.Uint64(b))
	size := record.SizeOf(b)
	return base >= int64(ss.expected) && base-int64(ss.expected) <= math.MaxInt32 &&
		size >= record.HeaderSize && size <= rest
}
