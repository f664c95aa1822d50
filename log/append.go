package log

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// appendChunk is the most that one write call gets. Longer writes can be torn
// by a kill, and cost several times more on some machines.
const appendChunk = 512 << 10

// marksMax is how many of the last batches are remembered by position.
const marksMax = 64

// reserveMin is the size from which on blocks are reserved ahead: most
// partitions are small and stay small.
const reserveMin = 64 << 10

// Append writes whole batches, stamped with their final offsets and epochs, at
// the end of the log, and takes their epochs and producers into account. The
// first base offset is not below LogEnd, offsets rise, epochs don't fall; gaps
// are legal. A set is in one segment; the five rules of roll.go decide whether
// it begins a new one.
//
// On an error nothing was appended: what was written is cut off again, and if
// that fails too the error wraps ErrPoisoned. set may be reused afterwards.
func (l *Log) Append(now model.Now, set []byte) (AppendInfo, error) {
	if err := l.usable(); err != nil {
		return AppendInfo{}, err
	}
	info, err := l.inspect(set)
	if err != nil {
		return AppendInfo{}, err
	}
	far := int64(info.Last-l.logEnd) > math.MaxInt32
	if l.rollDue(now, &info) {
		base := l.logEnd
		if far {
			base = info.First // offsets are stored relative to the base, in 31 bits
		}
		if err := l.roll(now, base); err != nil {
			return AppendInfo{}, err
		}
		info.Rolled = true
	}
	if int64(info.Last-l.tip.seg.base) > math.MaxInt32 || l.tip.size+int64(len(set)) > math.MaxInt32 {
		return AppendInfo{}, fmt.Errorf("set of %d bytes to offset %d doesn't fit segment %d of %d bytes: %w",
			len(set), info.Last, l.tip.seg.base, l.tip.size, ErrOrder)
	}
	l.blank = false
	if err := l.write(set); err != nil {
		if l.tip.seg.base > l.logEnd {
			err = l.poison("append to a segment that begins beyond the end", err)
		}
		return AppendInfo{}, err
	}
	l.apply(set)
	l.publish()
	return info, nil
}

// inspect checks that the set is whole and continues the log.
func (l *Log) inspect(set []byte) (AppendInfo, error) {
	info := AppendInfo{First: model.NoOffset, NextOffset: l.logEnd, Bytes: len(set), MaxTimestamp: model.NoTimestamp}
	latest := l.epochs.LatestEpoch()
	it := record.NewIter(set)
	for it.Next() {
		b := it.Batch()
		if b.BaseOffset() < info.NextOffset {
			return info, fmt.Errorf("batch [%d, %d] where %d is expected: %w", b.BaseOffset(), b.LastOffset(), info.NextOffset, ErrOrder)
		}
		if b.LeaderEpoch() < latest {
			return info, fmt.Errorf("batch [%d, %d] of epoch %d after epoch %d: %w", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), latest, ErrOrder)
		}
		latest = b.LeaderEpoch()
		if info.Batches == 0 {
			info.First = b.BaseOffset()
		}
		info.Batches++
		info.Last, info.NextOffset = b.LastOffset(), b.NextOffset()
		info.MaxTimestamp = max(info.MaxTimestamp, b.MaxTimestamp())
	}
	if err := it.Err(); err != nil {
		return info, err
	}
	if it.Rest() > 0 || info.Batches == 0 {
		return info, fmt.Errorf("%d whole batches and %d bytes of another: %w", info.Batches, it.Rest(), ErrOrder)
	}
	return info, nil
}

// write puts the set behind the last batch, all of it or nothing.
func (l *Log) write(set []byte) error {
	t := &l.tip
	f, err := t.seg.file.pinForWrite()
	if err != nil {
		return err
	}
	defer t.seg.file.unpin()
	l.reserve(f, int64(len(set)))
	for off := 0; off < len(set); {
		chunk := set[off:min(off+appendChunk, len(set))]
		n, err := f.WriteAt(chunk, t.size+int64(off))
		if err == nil && n < len(chunk) {
			err = io.ErrShortWrite
		}
		if err != nil {
			err = fmt.Errorf("append to %s at %d, %d of %d bytes: %w", t.seg.file.name(), t.size, off+n, len(set), err)
			return l.cutBack(f, err)
		}
		off += n
	}
	t.size += int64(len(set))
	return nil
}

// cutBack makes the file as long as it was before a failed append: bytes left
// behind would be found by a later recovery, among others with the same offsets.
func (l *Log) cutBack(f vfs.File, cause error) error {
	if mutant.On("log-no-cutback") {
		return cause
	}
	t := &l.tip
	err := f.Truncate(t.size)
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil && size != t.size {
			err = fmt.Errorf("%d bytes remain, want %d", size, t.size)
		}
	}
	if err != nil {
		return l.poison("cut back a failed append", errors.Join(cause, err))
	}
	t.reserved = t.size
	return cause
}

// reserve asks for blocks ahead of the end: fewer, larger extents, and fewer
// trips into the allocator. It doubles with the segment, so that a small one
// reserves little.
func (l *Log) reserve(f vfs.File, n int64) {
	t := &l.tip
	if l.cfg.PreallocateBytes <= 0 || t.size+n <= t.reserved || t.size+n < reserveMin {
		return
	}
	ahead := min(l.cfg.PreallocateBytes, max(t.size, 4*reserveMin))
	end := min(t.size+n+ahead, max(int64(l.cfg.SegmentBytes), t.size+n))
	if f.Allocate(t.size, end-t.size) != nil {
		end = t.size + n + ahead // it is a hint: no error, and no retry at once
	}
	t.reserved = end
}

// apply takes batches into account that are in the file.
func (l *Log) apply(set []byte) {
	pos := l.tip.size - int64(len(set))
	it := record.NewIter(set)
	for it.Next() {
		b := it.Batch()
		l.tip.add(b, pos)
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
		if done, ok := l.producers.Update(b); ok && done.Aborted {
			l.tip.txns = append(l.tip.txns, txnEntry{
				producer: done.ProducerID, first: done.FirstOffset, last: done.LastOffset, stable: done.LastStableOffset,
			})
		}
		l.logEnd = b.NextOffset()
		pos += int64(len(b))
	}
}

// add indexes a batch at pos.
func (t *tip) add(b record.Batch, pos int64) {
	size := b.Size()
	indexed := pos
	if mutant.On("log-index-off-by-one") {
		indexed += int64(size)
	}
	t.index.addBatch(b, indexed)
	t.mark(mark{base: b.BaseOffset(), last: b.LastOffset(), pos: pos, size: int64(size)})
}

// mark remembers where a batch is. Views share the slice, so that a full one is
// not shifted but replaced, by one that begins with its later half.
func (t *tip) mark(m mark) {
	if len(t.marks) == marksMax {
		fresh := make([]mark, marksMax/2, marksMax)
		copy(fresh, t.marks[marksMax/2:])
		t.marks = fresh
	}
	t.marks = append(t.marks, m)
}
