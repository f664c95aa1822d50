package log

import "github.com/tidemark/tidemark/internal/model"

// Retention says how much of a log is kept.
type Retention struct {
	// MaxAgeMs is retention.ms: a segment whose newest record is older goes; a
	// negative one keeps it whatever its age.
	MaxAgeMs int64
	// MaxBytes is retention.bytes: the oldest segments go as long as what is left
	// is not smaller than it; a negative one sets no bound.
	MaxBytes int64
	// Now is the wall clock.
	Now model.Timestamp
	// Committed is the high watermark: no segment that reaches beyond goes.
	Committed model.Offset
	// Modified returns when a segment was written last. It is asked for segments
	// without a timestamp.
	Modified func(base model.Offset) model.Timestamp
}

// Expired is what retention takes from a log.
type Expired struct {
	// To is the log start that it asks for; at the log's end the segment that is
	// being written goes too, so that another has to be begun first.
	To model.Offset
	// BySize and ByAge count the segments that are too many, and those that are
	// too old of what is left then.
	BySize, ByAge int
}

// Segments counts all of them.
func (e Expired) Segments() int { return e.BySize + e.ByAge }

// Expire decides which segments a log gives up: from the oldest on, as long as
// each is to go, in two passes, by size and then by age. segments are those of a
// View whose start is start; what lies below the start counts for nothing. The
// segment that is being written goes like any other, unless it is empty.
// Source: Kafka's UnifiedLog, deleteOldSegments.
func Expire(segments []SegmentInfo, start model.Offset, r Retention) Expired {
	e := Expired{To: start}
	for len(segments) > 1 && segments[0].Next <= start {
		segments = segments[1:]
	}
	if r.MaxBytes >= 0 {
		excess := -r.MaxBytes
		for i := range segments {
			excess += segments[i].Size
		}
		segments, e.BySize = e.take(segments, r.Committed, func(s *SegmentInfo) bool {
			excess -= s.Size
			return excess >= 0
		})
	}
	if r.MaxAgeMs >= 0 {
		_, e.ByAge = e.take(segments, r.Committed, func(s *SegmentInfo) bool {
			newest := s.MaxTimestamp
			if newest < 0 {
				newest = r.Modified(s.Base)
			}
			return int64(r.Now-newest) > r.MaxAgeMs
		})
	}
	return e
}

// take gives up segments while they are to go, and returns the rest.
func (e *Expired) take(segments []SegmentInfo, committed model.Offset, goes func(*SegmentInfo) bool) (rest []SegmentInfo, n int) {
	for n < len(segments) {
		s := &segments[n]
		if s.Active && s.Size == 0 || s.Next > committed || !goes(s) {
			break
		}
		e.To = s.Next
		n++
	}
	return segments[n:], n
}
