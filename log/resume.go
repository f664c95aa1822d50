package log

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/protocol/record"
)

// epochPath is the name of the epoch file in a partition's directory.
func epochPath(dir string) string { return filepath.Join(dir, checkpoint.EpochFile) }

// resume brings the write side to the end of a segment that holds w.limit
// bytes, with the help of indexes that may end earlier or reach further: it
// walks the headers from their last entry within the segment. It returns the
// offset after the last batch. The error wraps errNoBatch if the walk doesn't
// end exactly at the limit, or the indexes lead astray.
func (t *tip) resume(w *headerWalk, x *segmentIndexes) (end model.Offset, err error) {
	base := t.index.base
	end = base
	t.size = w.limit
	t.index.heads.known = w.limit == 0 // not of what nobody has checked
	if w.limit == 0 {
		return end, nil
	}
	k := len(x.offsets)
	for k > 0 && int64(x.offsets[k-1].pos) >= w.limit {
		k--
	}
	pos := int64(0)
	if k > 0 {
		e := x.offsets[k-1]
		if err := w.confirm(base, e); err != nil {
			return end, err
		}
		// The capacity is cut: readers may share what lies behind.
		t.index.offsets = x.offsets[:k:k]
		n := len(x.times)
		for n > 0 && x.times[n-1].rel > e.rel {
			n--
		}
		t.index.times = x.times[:n:n]
		if n > 0 {
			last := x.times[n-1]
			t.index.maxTS, t.index.maxTSLast = last.ts, base+model.Offset(last.rel)
		}
		first, err := w.header(0)
		if err != nil {
			return end, err
		}
		t.index.firstTS, t.index.batches = first.MaxTimestamp(), 1
		pos = int64(e.pos)
	}
	epoch := model.NoEpoch
	for pos < w.limit {
		b, err := w.header(pos)
		if err != nil {
			return end, err
		}
		if b.BaseOffset() < end || b.LeaderEpoch() >= 0 && b.LeaderEpoch() < epoch {
			return end, fmt.Errorf("batch [%d, %d] of epoch %d at %d, behind offset %d and epoch %d: %w",
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), pos, end, epoch, errNoBatch)
		}
		epoch = max(epoch, b.LeaderEpoch())
		size := record.SizeOf(b)
		t.index.addBatch(b, pos)
		t.mark(mark{base: b.BaseOffset(), last: b.LastOffset(), pos: pos, size: size})
		end = b.NextOffset()
		pos += size
	}
	return end, nil
}

// rebuildProducers brings the producers' state to the end of the log: the
// newest good snapshot not above it, and the batches behind that.
func (l *Log) rebuildProducers() error {
	if err := l.loadSnapshot(l.logEnd); err != nil {
		return err
	}
	return l.replayProducers(l.View())
}

// recallProducers does so after a cut: what was known of batches that are left is
// known still, though no snapshot holds it.
func (l *Log) recallProducers() error {
	known := l.producers.Memory()
	if err := l.rebuildProducers(); err != nil {
		return err
	}
	l.producers.Recall(known)
	return nil
}

// loadSnapshot resets the producers' state to the newest good snapshot not
// above at, or to nothing at the start of the log.
func (l *Log) loadSnapshot(at model.Offset) error {
	l.snapshotAt = noSnapshot
	names, err := l.fs.List(l.dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		o, suffix, ok := parseName(name)
		if !ok || suffix != snapshotSuffix || o > at {
			continue
		}
		b, err := vfs.ReadFile(l.fs, l.path(name))
		if err != nil {
			continue
		}
		l.producers.Reset(o)
		if l.producers.Unmarshal(b) == nil {
			l.snapshotAt = o
			return nil
		}
	}
	l.producers.Reset(min(at, l.segments[0].base))
	return nil
}

// replayProducers applies the batches of v behind the state's end, also those
// below the log's start: a transaction may have begun there.
func (l *Log) replayProducers(v *View) error {
	from := max(l.producers.MapEnd(), v.segments[0].base)
	if from < v.end {
		err := v.batches(from, nil, func(b record.Batch) error {
			if b.BaseOffset() >= from {
				l.producers.Update(b)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("replay producers from %d: %w", from, err)
		}
	}
	l.producers.AdvanceLogStart(l.logStart)
	return nil
}

// isLeftover reports whether a file is what an interrupted operation of ours
// has left: of no use to anybody.
func isLeftover(name string) bool {
	if strings.HasSuffix(name, deletedSuffix) || name == FailedNote {
		return true
	}
	stem, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return false
	}
	_, _, ours := parseName(stem)
	return ours || stem == checkpoint.EpochFile || stem == FailedNote
}
