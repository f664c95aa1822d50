package log

import (
	"sort"

	"github.com/tidemark/tidemark/internal/model"
)

// View is a picture of the log at one moment: its segments, where it starts and
// where it ends. It is immutable and may be used by any goroutine for as long
// as wanted; it costs nothing to keep but memory. When what it shows has been
// truncated or deleted meanwhile, reading gives ErrStaleView once the bytes are
// gone, and never bytes that were written later.
type View struct {
	// segments is never empty; the last one is being written. Bases rise.
	segments   []*segment
	start, end model.Offset
	// sealedBytes is the size of all segments but the last.
	sealedBytes int64
	// tail is the state of the last segment.
	tail tail
}

// tail is what readers need to know of the segment that is being written. The
// slices share memory with the writer, which only appends behind their ends.
type tail struct {
	size      int64
	offsets   []offsetEntry
	times     []timeEntry
	txns      []txnEntry
	marks     []mark
	maxTS     model.Timestamp
	maxTSLast model.Offset
	heads     headSum
}

// mark is the place of a batch near the end of the log. Reads there, by far the
// most frequent ones, then need no search in the file.
type mark struct {
	base, last model.Offset
	pos, size  int64
}

// Start is the log start offset: records below it are not readable.
func (v *View) Start() model.Offset { return v.start }

// End is the log end offset.
func (v *View) End() model.Offset { return v.end }

// Size is the number of bytes in all segments.
func (v *View) Size() int64 { return v.sealedBytes + v.tail.size }

// SegmentInfo describes a segment for those who decide on retention and
// compaction.
type SegmentInfo struct {
	// Base is its first offset, Next the base of the next segment, or the log's
	// end.
	Base, Next model.Offset
	// Size in bytes.
	Size int64
	// MaxTimestamp is the greatest of its records, NoTimestamp if none has one.
	MaxTimestamp model.Timestamp
	// Active: it is the one being written.
	Active bool
}

// Segments describes all segments, oldest first.
func (v *View) Segments() []SegmentInfo {
	infos := make([]SegmentInfo, len(v.segments))
	for i, s := range v.segments {
		infos[i] = SegmentInfo{Base: s.base, Next: v.next(i), Size: v.limit(i), MaxTimestamp: s.maxTS}
	}
	last := &infos[len(infos)-1]
	last.MaxTimestamp, last.Active = v.tail.maxTS, true
	return infos
}

// BelowStart reports whether a segment lies wholly below the log's start, so that
// StartDrop finds something to do.
func (v *View) BelowStart() bool { return len(v.segments) > 1 && v.segments[1].base <= v.start }

// Modified returns when the file of the segment with that base was written last.
// It asks the file system.
func (v *View) Modified(base model.Offset) (model.Timestamp, error) {
	file := v.segments[v.segmentFor(base)].file
	info, err := file.fs.Stat(file.name())
	if err != nil {
		return model.NoTimestamp, err
	}
	return model.Timestamp(info.ModTime.UnixMilli()), nil
}

// Holds reports whether the segment with that base is the same here as in another
// view of the log: neither gone nor cut nor replaced, nor sealed anew.
func (v *View) Holds(other *View, base model.Offset) bool {
	a, b := v.segments[v.segmentFor(base)], other.segments[other.segmentFor(base)]
	return a == b && a.base == base
}

// isTail reports whether segment i is the one being written.
func (v *View) isTail(i int) bool { return i == len(v.segments)-1 }

// limit is the readable size of segment i.
func (v *View) limit(i int) int64 {
	if v.isTail(i) {
		return v.tail.size
	}
	return v.segments[i].size
}

// next is the base of the segment after i, or the end of the log.
func (v *View) next(i int) model.Offset {
	if v.isTail(i) {
		return v.end
	}
	return v.segments[i+1].base
}

// segmentFor returns the index of the segment whose range holds o; the first
// one if o lies below all.
func (v *View) segmentFor(o model.Offset) int {
	if last := len(v.segments) - 1; o >= v.segments[last].base {
		return last
	}
	i := sort.Search(len(v.segments), func(i int) bool { return v.segments[i].base > o })
	return max(i-1, 0)
}

// markFor finds the batch that holds target, or the first one behind it, among
// the marks. ok is false if it may lie before the marks.
func (t *tail) markFor(target model.Offset) (m mark, ok bool) {
	n := len(t.marks)
	if n == 0 || target < t.marks[0].base || target > t.marks[n-1].last {
		return m, false
	}
	i := sort.Search(n, func(i int) bool { return t.marks[i].last >= target })
	return t.marks[i], true
}
