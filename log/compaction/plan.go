package compaction

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
)

// Segment is what planning knows of a segment.
type Segment struct {
	// Base is its first offset, Next the base of the next one.
	Base, Next model.Offset
	// Size in bytes, and those of its indexes.
	Size, OffsetIndex, TimeIndex int64
	// MaxTimestamp is the greatest of its records; a segment without any has that
	// of its file.
	MaxTimestamp model.Timestamp
}

// Bounds say how far a log could be cleaned.
type Bounds struct {
	// Start is the log's start, End its end.
	Start, End model.Offset
	// Stable is the last stable offset: nothing above is cleaned.
	Stable model.Offset
	// Durable is the end of what is synced: nothing above is cleaned.
	Durable model.Offset
	// Cleaned is the end of what was cleaned before, NoOffset if nothing was.
	Cleaned model.Offset
	// Now is the wall clock, MinLagMs and MaxLagMs the topic's compaction lags.
	Now                model.Timestamp
	MinLagMs, MaxLagMs int64
	// FirstTimestamp returns that of a segment's first batch. It is asked only if
	// MaxLagMs sets a limit.
	FirstTimestamp func(base model.Offset) model.Timestamp
}

// Dirt is how dirty a log is.
type Dirt struct {
	// From is where the dirty section begins, To where what may be cleaned of it
	// ends: the base of a segment.
	From, To model.Offset
	// Clean and Dirty are the bytes before From, and from there to To.
	Clean, Dirty int64
	// Reset: what was noted as cleaned doesn't fit the log.
	Reset bool
	// OverdueMs is by how much a record has passed the greatest lag, 0 if none
	// has.
	OverdueMs int64
}

// Ratio is the dirty part of what could be cleaned.
func (d *Dirt) Ratio() float64 {
	if d.Clean+d.Dirty == 0 {
		return 0
	}
	return float64(d.Dirty) / float64(d.Clean+d.Dirty)
}

// Due reports whether a log is to be cleaned, where the topic allows the part
// ratio to be dirty.
func (d *Dirt) Due(ratio float64) bool {
	return d.Dirty > 0 && (d.OverdueMs > 0 || d.Ratio() > ratio)
}

// Measure finds the dirty section of a log. segments are all of them, the last is
// being written and never cleaned.
func Measure(segments []Segment, b Bounds) Dirt {
	d := Dirt{From: b.Cleaned}
	if d.From == model.NoOffset {
		d.From = b.Start
	} else if d.From < b.Start || d.From > b.End {
		d.From, d.Reset = b.Start, true
	}
	active := len(segments) - 1
	to := min(b.Stable, b.Durable, segments[active].Base)
	for i := range segments[:active] {
		s := &segments[i]
		if s.Next <= d.From {
			continue
		}
		if b.MinLagMs > 0 && int64(b.Now-s.MaxTimestamp) < b.MinLagMs {
			to = min(to, s.Base)
			break
		}
	}
	to = max(to, d.From)
	// Segments are cleaned whole.
	d.To = segments[active].Base
	for i := range segments[:active] {
		if s := &segments[i]; s.Next > to {
			d.To = s.Base
			break
		}
	}
	oldest := model.Timestamp(math.MaxInt64)
	for i := range segments[:active] {
		s := &segments[i]
		switch {
		case s.Next <= d.From:
			d.Clean += s.Size
			continue
		case s.Base < d.From:
			d.Clean += s.Size // the section begins inside
		}
		if s.Next <= d.To {
			d.Dirty += s.Size
		}
		if b.MaxLagMs < math.MaxInt64 {
			if ts := b.FirstTimestamp(s.Base); ts > 0 {
				oldest = min(oldest, ts)
			}
		}
	}
	if until := int64(b.Now) - max(b.MaxLagMs, 0); b.MaxLagMs < math.MaxInt64 && int64(oldest) < until {
		d.OverdueMs = until - int64(oldest)
	}
	return d
}

// Limits bound what several segments may become when they are one.
type Limits struct {
	// SegmentBytes and IndexBytes are the topic's segment.bytes and
	// segment.index.bytes.
	SegmentBytes, IndexBytes int64
}

// Group cuts the segments into runs that become one segment each: in one run the
// sizes before the cleaning fit the limits, and the offsets a relative number of
// 31 bits.
func Group(segments []Segment, l Limits) [][]Segment {
	var groups [][]Segment
	for len(segments) > 0 {
		sum := segments[0]
		n := 1
		for n < len(segments) {
			s := &segments[n]
			sum.Size += s.Size
			sum.OffsetIndex += s.OffsetIndex
			sum.TimeIndex += s.TimeIndex
			// An empty one fits anywhere: its offsets stand in no batch.
			if sum.Size > l.SegmentBytes || sum.OffsetIndex > l.IndexBytes || sum.TimeIndex > l.IndexBytes ||
				s.Size > 0 && int64(s.Next-1-sum.Base) > math.MaxInt32 {
				break
			}
			n++
		}
		groups = append(groups, segments[:n:n])
		segments = segments[n:]
	}
	return groups
}
