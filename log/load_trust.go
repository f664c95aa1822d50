package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// trust is pass B for one segment: it is taken as it stands, if its sizes, its
// seal, its index and its ends agree. Where they don't, it is scanned, and then
// anything bad in it is damage.
func (ld *loader) trust(i int) error {
	s := ld.found[i]
	s.trusted = true
	s.seal = ld.readSeal(s)
	if err := ld.checkSeal(i); err != nil {
		return err
	}
	f, err := s.file.pin(0)
	if err != nil {
		return err
	}
	defer s.file.unpin()
	buf := ld.o.Files.buffer()
	defer ld.o.Files.release(buf)
	w := headerWalk{f: f, limit: s.size, buf: *buf}
	t := tip{seg: s.segment, index: newIndexBuilder(s.base, ld.l.cfg.IndexIntervalBytes)}
	x, err := ld.trustedIndexes(i)
	if err == nil {
		s.end, err = t.resume(&w, x)
	}
	switch {
	case err == nil && s.seal == nil:
		err = s.vouch(&w, x, &t)
	case err == nil:
		err = s.endsAsIndexed(&w, x)
	}
	if err == nil && i == len(ld.found)-1 {
		err = s.risesToEntry(&w, x)
	}
	if se := s.seal; err == nil && se != nil && se.size == s.size {
		t.index.heads = se.heads
	}
	if err == nil && s.end > ld.nextBase(i) {
		err = fmt.Errorf("segment reaches to %d, the next begins at %d: %w", s.end, ld.nextBase(i), errNoBatch)
	}
	if err != nil {
		var corrupt *CorruptionError
		if !isBytesError(err) || errors.As(err, &corrupt) {
			return err
		}
		s.seal = nil
		ld.report.Rebuilt = append(ld.report.Rebuilt, fileName(s.base, indexSuffix), fileName(s.base, timeSuffix))
		if _, err := ld.scanSegment(i, true); err != nil {
			return err
		}
	} else if err := ld.adopt(i, &w, &t); err != nil {
		return err
	} else if s.size > 0 {
		s.unread = &unread{size: s.size}
	}
	return ld.trustTxns(i)
}

// entriesBelow are the entries that point below a limit.
func (x *segmentIndexes) entriesBelow(limit int64) []offsetEntry {
	n := len(x.offsets)
	for n > 0 && int64(x.offsets[n-1].pos) >= limit {
		n--
	}
	return x.offsets[:n]
}

// risesToEntry checks that the batch of the last entry of a whole index follows those
// before it, from the entry before on: what is behind it was compared with it alone.
func (s *segment) risesToEntry(w *headerWalk, x *segmentIndexes) error {
	es := x.entriesBelow(w.limit)
	if len(es) == 0 {
		return nil
	}
	pos, to := int64(0), int64(es[len(es)-1].pos)
	if len(es) > 1 {
		pos = int64(es[len(es)-2].pos)
	}
	end, epoch := s.base, model.NoEpoch
	for pos <= to {
		b, err := w.header(pos)
		if err != nil {
			return err
		}
		if b.BaseOffset() < end || b.LeaderEpoch() >= 0 && b.LeaderEpoch() < epoch {
			return fmt.Errorf("batch [%d, %d] of epoch %d at %d, behind offset %d and epoch %d: %w",
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), pos, end, epoch, errNoBatch)
		}
		if pos == to {
			return nil
		}
		end, epoch = b.NextOffset(), max(epoch, b.LeaderEpoch())
		pos += record.SizeOf(b)
	}
	return fmt.Errorf("no batch ends at %d, where the index has one: %w", to, errNoBatch)
}

// endsAsIndexed checks the batch of the last entry: in an index that was written with
// the segment it ends at that offset. One whose base offset has fallen would be passed
// over.
func (s *segment) endsAsIndexed(w *headerWalk, x *segmentIndexes) error {
	es := x.entriesBelow(w.limit)
	if len(es) == 0 {
		return nil
	}
	e := es[len(es)-1]
	b, err := w.header(int64(e.pos))
	if err != nil {
		return err
	}
	if last := s.base + model.Offset(e.rel); b.LastOffset() != last {
		return fmt.Errorf("batch [%d, %d] at %d, the index has %d: %w", b.BaseOffset(), b.LastOffset(), e.pos, last, errNoBatch)
	}
	return nil
}

// isBytesError tells bytes that are not what they should be, or not there, from
// a disk that doesn't answer.
func isBytesError(err error) bool {
	var bad *badBatch
	return errors.Is(err, errNoBatch) || errors.As(err, &bad) || errors.Is(err, errBadIndex)
}

// errBadIndex: an index is missing, or not of its segment.
var errBadIndex = errors.New("index can't be used")

// checkSeal compares a segment with its seal and its neighbour.
func (ld *loader) checkSeal(i int) error {
	s := ld.found[i]
	if s.seal == nil {
		return nil
	}
	if s.seal.size > s.length {
		return ld.damage(i, s.length, s.base, fmt.Errorf("%d bytes, %d were sealed", s.length, s.seal.size))
	}
	if s.seal.final && s.seal.size < s.length {
		ld.unfinishedCut(i, s.seal.size)
	}
	switch next := ld.nextBase(i); {
	case i == len(ld.found)-1:
		if s.seal.size != s.size {
			s.seal = nil // it was written by Checkpoint, and the segment has grown since
		}
	case s.seal.final && s.seal.next < next:
		return ld.damage(i, s.length, s.seal.next, fmt.Errorf("segment %d was followed by %d, now by %d: %w", s.base, s.seal.next, next, errHole))
	case !s.seal.final || s.seal.next != next:
		// It has grown since Checkpoint wrote the seal, or a cut at next goes
		// through it.
		s.seal = nil
	}
	return nil
}

// unfinishedCut notes that the segment ends at pos though its file is longer.
func (ld *loader) unfinishedCut(i int, pos int64) {
	s := ld.found[i]
	if n := len(ld.report.Removed); n > 0 && ld.report.Removed[n-1].File == s.file.name() && s.size == pos {
		return // noted before
	}
	at := min(ld.nextBase(i), s.sealedEnd())
	r := Removal{Why: WhyUnfinishedCut, Start: at, End: at, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}
	r.add(s.file, pos, s.length)
	s.size = pos
	ld.report.Removed = append(ld.report.Removed, r)
}

// sealedEnd is where the seal says that the segment's successor begins.
func (s *foundSegment) sealedEnd() model.Offset {
	if s.seal == nil {
		return math.MaxInt64
	}
	return s.seal.next
}

// nextBase is the base of the segment after i, MaxInt64 for the last.
func (ld *loader) nextBase(i int) model.Offset {
	if i == len(ld.found)-1 {
		return math.MaxInt64
	}
	return ld.found[i+1].base
}

// trustedIndexes returns the indexes of a segment: all of them for the last
// one, which goes on from there, else only their last entries; that is all that
// is needed to find the segment's end, and reading all indexes of a large log
// would take long.
func (ld *loader) trustedIndexes(i int) (*segmentIndexes, error) {
	s := ld.found[i]
	if ld.o.Anew {
		return nil, fmt.Errorf("nothing beside segments is believed: %w", errBadIndex)
	}
	if s.badSeal {
		return nil, fmt.Errorf("%s can't be read: %w", fileName(s.base, sealSuffix), errBadIndex)
	}
	for _, suffix := range []string{indexSuffix, timeSuffix} {
		if name := fileName(s.base, suffix); s.fromSwap || !ld.side[name] {
			if s.size == 0 {
				s.rebuilt = &segmentIndexes{}
				return s.rebuilt, nil
			}
			return nil, fmt.Errorf("%s is missing: %w", name, errBadIndex)
		}
	}
	if i < len(ld.found)-1 {
		x, err := s.peekIndexes()
		if err == nil {
			return x, s.reaches(x)
		}
		if s.seal == nil {
			return nil, fmt.Errorf("%w: %w", errBadIndex, err) // both are whole once a segment was sealed
		}
	}
	s.end = model.Offset(math.MaxInt64) // not known yet; entries are confirmed by resume
	defer func() { s.end = s.base }()
	x, err := s.readIndexes()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadIndex, err)
	}
	return x, s.reaches(x)
}

// unindexedMax is how far from the end of a segment its last index entry may
// be, some large batches included. Walking more than that by headers is slower
// than reading all of it.
const unindexedMax = 16 << 20

// reaches reports an index that ends long before its segment as bad.
func (s *segment) reaches(x *segmentIndexes) error {
	last := int64(0)
	if n := len(x.offsets); n > 0 {
		last = int64(x.offsets[n-1].pos)
	}
	if s.size-last > unindexedMax+int64(s.interval) {
		return fmt.Errorf("%w: last entry at position %d of %d", errBadIndex, last, s.size)
	}
	return nil
}

// peekIndexes reads the last entry of both indexes.
func (s *segment) peekIndexes() (*segmentIndexes, error) {
	x := &segmentIndexes{}
	e, ok, err := lastEntry(s.file.fs, s.path(indexSuffix), offsetEntrySize)
	if err != nil {
		return nil, err
	}
	if ok {
		x.offsets = []offsetEntry{{rel: binary.BigEndian.Uint32(e), pos: binary.BigEndian.Uint32(e[4:])}}
		if int64(x.offsets[0].pos) >= s.size {
			return nil, fmt.Errorf("%w: position %d of %d", errBadIndex, x.offsets[0].pos, s.size)
		}
	}
	e, ok, err = lastEntry(s.file.fs, s.path(timeSuffix), timeEntrySize)
	if err != nil {
		return nil, err
	}
	if ok {
		x.times = []timeEntry{{ts: model.Timestamp(binary.BigEndian.Uint64(e)), rel: binary.BigEndian.Uint32(e[8:])}}
	}
	return x, nil
}

// lastEntry returns the last entry of an index file; ok is false for an empty
// file. A file of another form, or with zeros at its end, is an error.
func lastEntry(fs vfs.FS, path string, size int) (entry []byte, ok bool, err error) {
	f, err := fs.OpenFile(path, 0, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, false, err
	}
	if n == 0 {
		return nil, false, nil
	}
	b := make([]byte, size)
	if n%int64(size) != 0 {
		return nil, false, fmt.Errorf("%w: %d bytes", errBadIndex, n)
	}
	if got, err := f.ReadAt(b, n-int64(size)); got < size {
		return nil, false, err
	}
	if len(trimZeros(b, size)) == 0 {
		return nil, false, fmt.Errorf("%w: ends with zeros", errBadIndex)
	}
	return b, true, nil
}

// adopt notes what resume has found out about a trusted segment.
func (ld *loader) adopt(i int, w *headerWalk, t *tip) error {
	s := ld.found[i]
	s.maxTS, s.maxTSLast = t.index.maxTS, t.index.maxTSLast
	s.setHeadSum(t.index.heads)
	if s.seal != nil {
		s.maxTS, s.maxTSLast = s.seal.maxTS, s.seal.maxTSLast
	}
	if i == len(ld.found)-1 {
		ld.tip = *t
	}
	if s.size == 0 {
		return nil
	}
	b, err := w.header(0)
	if err != nil {
		return err
	}
	if b.BaseOffset() < s.base {
		return ld.damage(i, 0, s.base, fmt.Errorf("batch [%d, %d] in segment %d", b.BaseOffset(), b.LastOffset(), s.base))
	}
	s.first = batchFacts{base: b.BaseOffset(), last: b.LastOffset(), epoch: b.LeaderEpoch(), some: true}
	end := t.marks[len(t.marks)-1]
	if b, err = w.header(end.pos); err != nil {
		return err
	}
	s.lastBatch = batchFacts{base: b.BaseOffset(), last: b.LastOffset(), epoch: b.LeaderEpoch(), some: true}
	return ld.checkEdges(i, end.pos)
}

// checkEdges compares where a trusted segment ends with its seal. Its epochs are
// compared with those of the file (see settleEpochs).
func (ld *loader) checkEdges(i int, lastPos int64) error {
	s := ld.found[i]
	if mutant.On("log-edges-unchecked") {
		return nil
	}
	// Without a successor to compare it with, the seal is what tells where it ends.
	if i == len(ld.found)-1 && s.seal != nil && s.end != s.seal.next {
		return ld.damage(i, lastPos, min(s.seal.next, s.lastBatch.base), fmt.Errorf("batch [%d, %d] in a segment that was sealed with the end %d",
			s.lastBatch.base, s.lastBatch.last, s.seal.next))
	}
	return nil
}

// trustTxns reads the transaction index of a trusted segment; one that is not
// what was sealed, or whose seal can't be read, or is missing like the other indexes,
// is computed anew in pass F.
func (ld *loader) trustTxns(i int) error {
	s := ld.found[i]
	name := fileName(s.base, txnSuffix)
	var b []byte
	if ld.side[name] && !s.fromSwap {
		var err error
		if b, err = vfs.ReadFile(ld.o.FS, ld.l.path(name)); err != nil {
			return err
		}
	}
	txns, err := decodeTxns(b, s.base, s.end)
	if err != nil || s.fromSwap || s.badSeal || ld.o.Anew || s.scanned && !ld.side[name] || (s.seal != nil && digest(b) != s.seal.txnsCRC) {
		ld.report.Rebuilt = append(ld.report.Rebuilt, name)
		ld.txnsMissing = append(ld.txnsMissing, i)
		return nil
	}
	s.txns = txns
	if i == len(ld.found)-1 {
		ld.tip.txns = txns[:len(txns):len(txns)]
	}
	return nil
}
