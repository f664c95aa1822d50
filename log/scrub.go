package log

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// Scrubbing is how a sealed segment is to be looked through.
type Scrubbing struct {
	// Epochs is a copy of the log's epoch cache at the time of the view; Newest is
	// the epoch that the partition is led in, NoEpoch for any.
	Epochs *epoch.Cache
	Newest model.LeaderEpoch
	// Buf is what is read at once; it grows to the largest batch.
	Buf []byte
	// Spend is told of the bytes that were read. It may wait. Its error ends the
	// scrub, and is the scrub's.
	Spend func(n int) error
}

// Scrubbed is what a scrub came upon that costs no record.
type Scrubbed struct {
	// Bytes is the segment's size.
	Bytes int64
	// Wrong are the names of files beside the segment that are not what its batches
	// say. The indexes in memory have been made anew; the files follow when the
	// log's owner stores them (StartMend).
	Wrong []string
	// Unvouched: nothing said what the batches' heads were when they were written.
	// From now on they are held against what was read.
	Unvouched bool
}

// Scrub reads all of the sealed segment with that base, as VerifySegment does, and
// then holds against it what stands beside it. It runs on any goroutine, beside
// everything else: it has a handle of its own, so that neither a cut nor an
// unlinking waits for it, and it leaves the page cache as it finds it where the
// system can do that. A segment that is gone, replaced or cut is ErrStaleView. A
// *CorruptionError is damage.
func (v *View) Scrub(base model.Offset, o Scrubbing) (Scrubbed, error) {
	i := v.segmentFor(base)
	s := v.segments[i]
	if s.base != base || v.isTail(i) || s.storing.Load() {
		return Scrubbed{}, fmt.Errorf("scrub segment %d: %w", base, ErrStaleView)
	}
	f, err := s.file.openApart(s.size)
	if err != nil {
		return Scrubbed{}, err
	}
	defer f.Close()
	e := v.newExam(i, o.Epochs, o.Newest)
	if e.sides, err = newSideExam(s); err != nil {
		return Scrubbed{}, err
	}
	if err = e.read(f, o.Buf, o.Spend); err == nil {
		err = e.sides.compare(&e.x)
	}
	if stale := s.file.stale(s.size); stale != nil {
		return Scrubbed{}, stale // what was read need not be what the log had
	}
	if s.storing.Load() {
		return Scrubbed{}, fmt.Errorf("scrub segment %d: %w", base, ErrStaleView)
	}
	if err != nil {
		return Scrubbed{}, err
	}
	done := Scrubbed{Bytes: s.size, Wrong: e.sides.wrong, Unvouched: !s.headSum().known}
	if done.Unvouched {
		s.setHeadSum(e.x.heads)
	}
	if len(done.Wrong) > 0 || done.Unvouched {
		s.file.cache.dropIndex(s)
		s.keep(e.x.sealed())
		s.repair.Store(true)
	}
	return done, nil
}

// openApart opens the file once more, for reading.
func (s *segmentFile) openApart(reach int64) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.liveTo(reach) {
		return nil, fmt.Errorf("segment %s: %w", s.path, ErrStaleView)
	}
	f, err := s.fs.OpenFile(s.path, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	return vfs.Aside(f), nil
}

// stale returns ErrStaleView if not all bytes below reach are the log's any more.
func (s *segmentFile) stale(reach int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.liveTo(reach) {
		return fmt.Errorf("segment %s: %w", s.path, ErrStaleView)
	}
	return nil
}

// liveTo reports whether the file has its place in the log, up to reach at least:
// what was discarded, and what is about to take a place, has another name. The lock
// is held.
func (s *segmentFile) liveTo(reach int64) bool {
	return reach <= s.limit && !s.gone && filepath.Ext(s.path) == logSuffix
}

// sideExam compares the files beside a segment with its batches.
type sideExam struct {
	s       *segment
	offsets []offsetEntry
	times   []timeEntry
	bad     map[string]bool // suffixes of files that are wrong
	wrong   []string

	maxTS model.Timestamp
	at    int // the entry of offsets that comes next
	when  int // the same of times
}

func newSideExam(s *segment) (*sideExam, error) {
	x := &sideExam{s: s, bad: make(map[string]bool), maxTS: model.NoTimestamp}
	ob, err := x.content(indexSuffix)
	if err != nil {
		return nil, err
	}
	tb, err := x.content(timeSuffix)
	if err != nil {
		return nil, err
	}
	if x.offsets, err = decodeOffsets(ob, s.size, s.span()); err != nil {
		x.bad[indexSuffix] = true
	}
	if x.times, err = decodeTimes(tb, s.span()); err != nil {
		x.bad[timeSuffix] = true
	}
	return x, nil
}

// content reads a file beside the segment; that it isn't there is no error.
func (x *sideExam) content(suffix string) ([]byte, error) {
	b, err := vfs.ReadFile(x.s.file.fs, x.s.path(suffix))
	if errors.Is(err, os.ErrNotExist) {
		if suffix == indexSuffix || suffix == timeSuffix {
			x.bad[suffix] = true
		}
		return nil, nil
	}
	return b, err
}

// batch holds the entries against a batch. An entry of the offset index has to name
// where one begins that ends at its offset or below; one of the time index, the
// greatest timestamp up to the batch that holds its offset.
func (x *sideExam) batch(b record.Batch, pos int64) {
	for ; x.at < len(x.offsets) && int64(x.offsets[x.at].pos) <= pos; x.at++ {
		if e := x.offsets[x.at]; int64(e.pos) < pos || b.LastOffset() > x.s.base+model.Offset(e.rel) {
			x.bad[indexSuffix] = true
		}
	}
	if b.Count() > 0 {
		x.maxTS = max(x.maxTS, b.MaxTimestamp())
	}
	for ; x.when < len(x.times) && x.s.base+model.Offset(x.times[x.when].rel) <= b.LastOffset(); x.when++ {
		if x.times[x.when].ts != x.maxTS {
			x.bad[timeSuffix] = true
		}
	}
}

// compare tells what is wrong once all batches were seen. An index may have fewer
// entries than ours would, as Kafka's has, but must reach the end as every sealed
// segment's does.
func (x *sideExam) compare(built *indexBuilder) error {
	s := x.s
	if x.at < len(x.offsets) || s.reaches(&segmentIndexes{offsets: x.offsets}) != nil {
		x.bad[indexSuffix] = true
	}
	if x.when < len(x.times) || built.maxTS >= 0 && (len(x.times) == 0 || x.times[len(x.times)-1].ts != built.maxTS) {
		x.bad[timeSuffix] = true
	}
	tb, err := x.content(txnSuffix)
	if err != nil {
		return err
	}
	if !bytes.Equal(tb, encodeTxns(nil, s.txns)) {
		x.bad[txnSuffix] = true
	}
	if err := x.compareSeal(); err != nil {
		return err
	}
	for _, suffix := range []string{indexSuffix, timeSuffix, txnSuffix, sealSuffix} {
		if x.bad[suffix] {
			x.wrong = append(x.wrong, fileName(s.base, suffix))
		}
	}
	return nil
}

// compareSeal compares the seal with the one that was written, and the indexes with
// what it says of them.
func (x *sideExam) compareSeal() error {
	want := x.s.lastSeal()
	if want == nil {
		return nil
	}
	b, err := x.content(sealSuffix)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, want.encode()) {
		if have, err := decodeSeal(b); err != nil || !have.sameSegment(want) {
			x.bad[sealSuffix] = true
		}
	}
	for _, f := range []struct {
		suffix string
		crc    uint32
	}{{indexSuffix, want.offsetsCRC}, {timeSuffix, want.timesCRC}} {
		b, err := x.content(f.suffix)
		if err != nil {
			return err
		}
		if digest(b) != f.crc {
			x.bad[f.suffix] = true
		}
	}
	return nil
}

// sameSegment reports whether two seals say the same of a segment's bytes.
func (s *seal) sameSegment(other *seal) bool {
	return s.final == other.final && s.size == other.size && s.next == other.next && s.maxTS == other.maxTS && s.maxTSLast == other.maxTSLast &&
		!s.heads.differs(other.heads)
}
