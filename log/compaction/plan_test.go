package compaction

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// tens makes segments of ten offsets and the given sizes; the last is being
// written.
func tens(sizes ...int64) []Segment {
	all := make([]Segment, len(sizes))
	for i, size := range sizes {
		all[i] = Segment{
			Base: model.Offset(10 * i), Next: model.Offset(10 * (i + 1)), Size: size,
			OffsetIndex: size / 10, TimeIndex: size / 5, MaxTimestamp: model.Timestamp(100 * i),
		}
	}
	return all
}

func TestMeasure(t *testing.T) {
	all := tens(100, 200, 300, 400, 500) // [40, 50) is being written
	base := Bounds{End: 50, Stable: 50, Durable: 50, Cleaned: model.NoOffset, Now: 1000, MaxLagMs: math.MaxInt64}
	for _, c := range []struct {
		name   string
		change func(*Bounds)
		want   Dirt
	}{
		{"never cleaned", func(*Bounds) {}, Dirt{From: 0, To: 40, Dirty: 1000}},
		{"cleaned half way", func(b *Bounds) { b.Cleaned = 20 }, Dirt{From: 20, To: 40, Clean: 300, Dirty: 700}},
		{"inside a segment, which counts twice", func(b *Bounds) { b.Cleaned = 25 }, Dirt{From: 25, To: 40, Clean: 600, Dirty: 700}},
		{"all cleaned", func(b *Bounds) { b.Cleaned = 40 }, Dirt{From: 40, To: 40, Clean: 1000}},
		{"cleaned into the one being written", func(b *Bounds) { b.Cleaned = 45 }, Dirt{From: 45, To: 40, Clean: 1000}},
		{"the start is above", func(b *Bounds) { b.Cleaned, b.Start = 10, 15 }, Dirt{From: 15, To: 40, Clean: 300, Dirty: 900, Reset: true}},
		{"the log was cut below", func(b *Bounds) { b.Cleaned = 51 }, Dirt{From: 0, To: 40, Dirty: 1000, Reset: true}},
		{"an open transaction", func(b *Bounds) { b.Stable = 30 }, Dirt{From: 0, To: 30, Dirty: 600}},
		{"one inside a segment", func(b *Bounds) { b.Stable = 29 }, Dirt{From: 0, To: 20, Dirty: 300}},
		{"not durable", func(b *Bounds) { b.Durable = 11 }, Dirt{From: 0, To: 10, Dirty: 100}},
		{"nothing above the stable offset", func(b *Bounds) { b.Cleaned, b.Stable = 20, 12 }, Dirt{From: 20, To: 20, Clean: 300}},
		{"younger than the least lag", func(b *Bounds) { b.MinLagMs = 801 }, Dirt{From: 0, To: 20, Dirty: 300}},
		{"exactly as old", func(b *Bounds) { b.MinLagMs = 800 }, Dirt{From: 0, To: 30, Dirty: 600}},
		{"the least lag counts in the dirty section only", func(b *Bounds) { b.MinLagMs, b.Cleaned = 950, 20 }, Dirt{From: 20, To: 20, Clean: 300}},
		{"overdue", func(b *Bounds) { b.MaxLagMs, b.Cleaned = 700, 10 }, Dirt{From: 10, To: 40, Clean: 100, Dirty: 900, OverdueMs: 200}},
		{"exactly at the greatest lag", func(b *Bounds) { b.MaxLagMs, b.Cleaned = 900, 10 }, Dirt{From: 10, To: 40, Clean: 100, Dirty: 900}},
		{"a first batch without timestamp says nothing", func(b *Bounds) { b.MaxLagMs = 890 }, Dirt{From: 0, To: 40, Dirty: 1000, OverdueMs: 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := base
			b.FirstTimestamp = func(base model.Offset) model.Timestamp { return model.Timestamp(10 * base) }
			c.change(&b)
			if got := Measure(all, b); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	if d := Measure(tens(0), base); d.Dirty != 0 || d.Ratio() != 0 || d.Due(0) {
		t.Errorf("an empty log: %+v", d)
	}
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		d     Dirt
		ratio float64
		want  bool
	}{
		{Dirt{Clean: 50, Dirty: 50}, 0.5, false},
		{Dirt{Clean: 49, Dirty: 51}, 0.5, true},
		{Dirt{Clean: 1000, Dirty: 1}, 0, true},
		{Dirt{Clean: 1000}, 0, false},
		{Dirt{Clean: 1000, Dirty: 1, OverdueMs: 1}, 0.9, true},
		{Dirt{Clean: 1000, OverdueMs: 1}, 0.9, false},
		{Dirt{Dirty: 1}, 1, false},
	} {
		if got := c.d.Due(c.ratio); got != c.want {
			t.Errorf("%+v at %v: %v", c.d, c.ratio, got)
		}
	}
}

func TestGroup(t *testing.T) {
	far := tens(10, 10, 10)
	far[1].Next, far[2].Base, far[2].Next = math.MaxInt32+1, math.MaxInt32+1, math.MaxInt32+11
	gap := tens(10, 0, 10)
	gap[1].Next, gap[2].Base, gap[2].Next = math.MaxInt32+1, math.MaxInt32+1, math.MaxInt32+11
	for _, c := range []struct {
		name     string
		segments []Segment
		limits   Limits
		want     string
	}{
		{"none", nil, Limits{100, 100}, "[]"},
		{"all fit", tens(10, 20, 30), Limits{60, 100}, "[3]"},
		{"one byte too many", tens(10, 20, 30), Limits{59, 100}, "[2 1]"},
		{"each too large for another", tens(60, 60, 60), Limits{100, 100}, "[1 1 1]"},
		{"one alone may be larger", tens(600, 60, 40), Limits{100, 1000}, "[1 2]"},
		{"the offset index", tens(100, 100, 100), Limits{1000, 45}, "[2 1]"},
		{"the offsets are too far apart", far, Limits{1000, 1000}, "[2 1]"},
		{"an empty one fits anywhere", gap, Limits{1000, 1000}, "[2 1]"},
		{"empty ones", tens(0, 0, 0, 0), Limits{10, 10}, "[4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups := Group(c.segments, c.limits)
			sizes := []int{}
			for _, g := range groups {
				sizes = append(sizes, len(g))
			}
			if got := fmt.Sprint(sizes); got != c.want {
				t.Errorf("groups of %s, want %s", got, c.want)
			}
			if all := slices.Concat(groups...); !slices.Equal(all, c.segments) {
				t.Errorf("%v is not all of %v", all, c.segments)
			}
		})
	}
}
