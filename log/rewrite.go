package log

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/compaction"
	"github.com/tidemark/tidemark/protocol/record"
)

// Rewrite makes one segment of what compaction leaves of several. It is the work
// of one goroutine, any but the log's owner: it reads through a View and writes
// files of its own, which are no part of the log before StartSwap.
type Rewrite struct {
	v       *View
	first   int // number of the first source in v
	sources []*segment

	fs   vfs.FS
	path string
	f    vfs.File
	buf  []byte
	pos  int64 // where buf goes
	x    indexBuilder
	end  model.Offset
	seg  *segment
	idx  *segmentIndexes
	// unvouched: nothing says whether some source is as it was written.
	unvouched bool
}

// StartRewrite begins the rewriting of n segments from the one with that base.
// What a Rewrite that never ended has left of the same is overwritten.
// bufferBytes is about how much is written at a time.
func (v *View) StartRewrite(base model.Offset, n, bufferBytes int) (*Rewrite, error) {
	i := v.segmentFor(base)
	if v.segments[i].base != base || n < 1 || i+n >= len(v.segments) {
		return nil, fmt.Errorf("rewrite %d segments from %d: %w", n, base, ErrOffsetOutOfRange)
	}
	first := v.segments[i]
	r := &Rewrite{
		v: v, first: i, sources: v.segments[i : i+n : i+n], fs: first.file.fs,
		path: first.path(logSuffix + cleanedSuffix), buf: make([]byte, 0, bufferBytes),
		x: newIndexBuilder(base, first.interval), end: base,
	}
	f, err := r.fs.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rewrite segments from %d: %w", base, err)
	}
	r.f = f
	return r, nil
}

// Batches calls fn with each batch of the sources, as View.CheckedBatches does. Then
// it holds their heads against what was written: what a disk has made of them would
// be vouched for by the seal of the output otherwise.
func (r *Rewrite) Batches(buf []byte, fn func(b record.Batch) error) error {
	for i, s := range r.sources {
		want, have := s.headSum(), headSum{known: true}
		err := r.v.checkedBatches(r.first+i, s.base, buf, func(b record.Batch) error {
			have.add(b)
			return fn(b)
		})
		if err != nil {
			return err
		}
		r.unvouched = r.unvouched || !want.known
		if have.differs(want) {
			return r.v.damagedAt(r.first+i, s.base, errors.New("bytes that no CRC covers are not those that were written"))
		}
	}
	return nil
}

// Bytes is the size of the sources.
func (r *Rewrite) Bytes() int64 {
	n := int64(0)
	for _, s := range r.sources {
		n += s.size
	}
	return n
}

// Append has add append the next batch, or nothing, to the bytes it is given, and
// writes them when there are enough.
func (r *Rewrite) Append(add func(dst []byte) ([]byte, error)) error {
	at := len(r.buf)
	buf, err := add(r.buf)
	if err != nil {
		return err
	}
	r.buf = buf
	if len(buf) == at {
		return nil
	}
	b := record.Batch(buf[at:])
	pos := r.pos + int64(at)
	if pos+int64(len(b)) > math.MaxInt32 || int64(b.LastOffset()-r.x.base) > math.MaxInt32 {
		return fmt.Errorf("rewritten segment %d would pass what a segment can hold", r.x.base)
	}
	r.x.addBatch(b, pos)
	r.end = b.NextOffset()
	if len(r.buf) >= cap(r.buf)/2 {
		return r.write()
	}
	return nil
}

func (r *Rewrite) write() error {
	if len(r.buf) == 0 {
		return nil
	}
	if n, err := r.f.WriteAt(r.buf, r.pos); err != nil {
		return fmt.Errorf("write %s, %d of %d bytes: %w", r.path, n, len(r.buf), err)
	}
	r.pos += int64(len(r.buf))
	r.buf = r.buf[:0]
	return nil
}

// Finish makes the new segment durable, under a name that a start removes.
// aborted are the aborted transactions whose markers are in it.
func (r *Rewrite) Finish(aborted []compaction.Aborted) error {
	if err := r.write(); err != nil {
		return err
	}
	if !mutant.On("log-swap-unsynced") {
		if err := r.f.SyncData(); err != nil {
			return fmt.Errorf("fdatasync %s: %w", r.path, err)
		}
	}
	r.idx = r.x.sealed()
	s := &segment{
		base: r.x.base, file: newSegmentFile(r.fs, r.sources[0].file.cache, r.path), end: r.end, size: r.pos,
		maxTS: r.x.maxTS, maxTSLast: r.x.maxTSLast, interval: r.sources[0].interval,
	}
	if !r.unvouched {
		s.setHeadSum(r.x.heads)
	}
	for _, a := range aborted {
		s.txns = append(s.txns, txnEntry{producer: a.ProducerID, first: a.First, last: a.Last, stable: a.Stable})
	}
	se := s.sealFor(r.v.segments[r.first+len(r.sources)].base)
	se.offsetsCRC = digest(encodeOffsets(nil, r.idx.offsets))
	se.timesCRC = digest(encodeTimes(nil, r.idx.times))
	se.txnsCRC = digest(encodeTxns(nil, s.txns))
	s.seal = &se
	s.file.adopt(r.f)
	r.seg, r.f, r.buf = s, nil, nil
	return nil
}

// Size is what the new segment takes, valid after Finish.
func (r *Rewrite) Size() int64 { return r.pos }

// Abandon removes what was written. Not to be called once StartSwap succeeded.
func (r *Rewrite) Abandon() {
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
	if r.seg != nil {
		r.seg.file.close()
	}
	_ = r.fs.Remove(r.path) // else the next start does
}

// CheckedBatches calls fn with each batch from the one that holds from on, up to
// the segment that begins at to, which is left out, after checking its CRC; a
// segment's end is told to edge by the base of the next. A bad batch is a
// *CorruptionError. buf is as for Batches. It stops at the first error, fn's or
// its own.
func (v *View) CheckedBatches(from, to model.Offset, buf []byte, edge func(next model.Offset), fn func(b record.Batch) error) error {
	for i := v.segmentFor(from); i < len(v.segments)-1 && v.segments[i].base < to; i++ {
		if err := v.checkedBatches(i, from, buf, fn); err != nil {
			return err
		}
		edge(v.segments[i+1].base)
	}
	return nil
}

func (v *View) checkedBatches(i int, from model.Offset, buf []byte, fn func(b record.Batch) error) error {
	if len(buf) < record.HeaderSize {
		buf = make([]byte, scanBufferSize)
	}
	return v.segmentBatches(i, from, buf, func(b record.Batch) error {
		if err := b.CheckCRC(); err != nil && !mutant.On("log-rewrite-unchecked") {
			return v.damagedAt(i, b.BaseOffset(), err)
		}
		return fn(b)
	})
}

// damagedAt is damaged for a batch whose position is not known.
func (v *View) damagedAt(i int, o model.Offset, err error) error {
	s := v.segments[i]
	return &CorruptionError{
		Dir: filepath.Dir(s.file.name()), Segment: s.base, Offset: o, Err: err, BelowRecoveryPoint: true,
	}
}

// Compactable describes all segments for those who plan a compaction, without
// the sizes of their indexes. For a segment without timestamps it asks the file
// system.
func (v *View) Compactable() []compaction.Segment {
	all := make([]compaction.Segment, len(v.segments))
	for i, s := range v.segments {
		c := compaction.Segment{Base: s.base, Next: v.next(i), Size: v.limit(i), MaxTimestamp: s.maxTS}
		if !v.isTail(i) && c.MaxTimestamp < 0 {
			c.MaxTimestamp, _ = v.Modified(s.base)
		}
		all[i] = c
	}
	return all
}

// MeasureIndexes fills in the sizes of the indexes of the segments of the view
// that some begin with. It asks the file system.
func (v *View) MeasureIndexes(some []compaction.Segment) {
	for i := range some {
		some[i].OffsetIndex, some[i].TimeIndex = v.segments[i].indexSizes()
	}
}

// indexSizes returns the sizes of a segment's index files, 0 for one that is not
// there.
func (s *segment) indexSizes() (offsets, times int64) {
	if x := s.indexes.Load(); x != nil {
		return int64(len(x.offsets)) * offsetEntrySize, int64(len(x.times)) * timeEntrySize
	}
	return s.fileSize(indexSuffix), s.fileSize(timeSuffix)
}

func (s *segment) fileSize(suffix string) int64 {
	info, err := s.file.fs.Stat(s.path(suffix))
	if err != nil {
		return 0
	}
	return info.Size
}

// FirstTimestamp returns the greatest timestamp of the first batch of the segment
// with that base, NoTimestamp for an empty one.
func (v *View) FirstTimestamp(base model.Offset) (model.Timestamp, error) {
	i := v.segmentFor(base)
	limit := v.limit(i)
	if limit == 0 {
		return model.NoTimestamp, nil
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return model.NoTimestamp, err
	}
	defer file.unpin()
	buf := file.cache.buffer()
	defer file.cache.release(buf)
	w := headerWalk{f: f, limit: limit, buf: *buf}
	b, err := w.header(0)
	if errors.Is(err, errNoBatch) {
		return model.NoTimestamp, v.damaged(i, 0, base, err)
	}
	if err != nil {
		return model.NoTimestamp, err
	}
	return b.MaxTimestamp(), nil
}

// Aborted returns the entries of the transaction index that AbortedTxns looks at.
func (v *View) Aborted(from, upper model.Offset) []compaction.Aborted {
	var found []compaction.Aborted
	for i := v.segmentFor(from); i < len(v.segments); i++ {
		es := v.tail.txns
		if !v.isTail(i) {
			es = v.segments[i].txns
		}
		for _, e := range es {
			if e.last >= from && e.first < upper {
				found = append(found, compaction.Aborted{ProducerID: e.producer, First: e.first, Last: e.last, Stable: e.stable})
			}
		}
	}
	return found
}
