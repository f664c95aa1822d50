package epoch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// parse reads "0→0 2→10" into a Cache.
func parse(t *testing.T, s string) *Cache {
	t.Helper()
	var entries []Entry
	for _, f := range strings.Fields(s) {
		var e Entry
		if _, err := fmt.Sscanf(f, "%d→%d", &e.Epoch, &e.Start); err != nil {
			t.Fatalf("%q: %v", f, err)
		}
		entries = append(entries, e)
	}
	c, err := New(entries)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func show(c *Cache) string {
	var parts []string
	for _, e := range c.Entries() {
		parts = append(parts, fmt.Sprintf("%d→%d", e.Epoch, e.Start))
	}
	return strings.Join(parts, " ")
}

// checkRising is invariant 2 for the cache alone.
func checkRising(t *testing.T, c *Cache) {
	t.Helper()
	if _, err := New(c.Entries()); err != nil {
		t.Fatalf("invariant 2: %v in %s", err, show(c))
	}
}

func TestAssign(t *testing.T) {
	for _, tc := range []struct {
		before string
		epoch  model.LeaderEpoch
		start  model.Offset
		after  string
	}{
		{"", 0, 0, "0→0"},
		{"0→0", 0, 10, "0→0"},
		{"0→0 2→10", 2, 7, "0→0 2→7"},
		{"0→0 2→10", 3, 10, "0→0 3→10"},
		{"0→0 2→10 4→20", 3, 15, "0→0 2→10 3→15"},
		{"0→0 2→10 4→20", 1, 12, "0→0 1→12"},
		{"0→5", 1, 3, "1→3"},
		{"0→0 2→10", 2, 10, "0→0 2→10"},
		{"0→0 2→10", 2, 11, "0→0 2→10"},
		{"0→0 2→10", 0, 0, "0→0"},
		{"0→0", -1, 5, "0→0"},
		{"0→0", 5, -1, "0→0"},
		{"", -1, -1, ""},
	} {
		c := parse(t, tc.before)
		version := c.Version()
		changed := c.Assign(tc.epoch, tc.start)
		if got := show(c); got != tc.after {
			t.Errorf("{%s} assign (%d,%d) = {%s}, want {%s}", tc.before, tc.epoch, tc.start, got, tc.after)
		}
		if changed != (tc.before != tc.after) || changed != (c.Version() > version) {
			t.Errorf("{%s} assign (%d,%d): changed %v, version %d to %d",
				tc.before, tc.epoch, tc.start, changed, version, c.Version())
		}
	}
}

func TestEndOffsetFor(t *testing.T) {
	const full = "2→10 4→20 7→25"
	for _, tc := range []struct {
		cache  string
		asked  model.LeaderEpoch
		epoch  model.LeaderEpoch
		offset model.Offset
	}{
		{full, -1, -1, -1},
		{full, 7, 7, 30},
		{full, 8, -1, -1},
		{full, 1, 1, 10},
		{full, 0, 0, 10},
		{full, 2, 2, 20},
		{full, 3, 2, 20},
		{full, 4, 4, 25},
		{full, 5, 4, 25},
		{full, 6, 4, 25},
		{full, math.MaxInt32, -1, -1},
		{"", 0, -1, -1},
		{"", -1, -1, -1},
	} {
		got := parse(t, tc.cache).EndOffsetFor(tc.asked, 30)
		if got.Epoch != tc.epoch || got.Offset != tc.offset {
			t.Errorf("{%s} end of epoch %d = (%d,%d), want (%d,%d)",
				tc.cache, tc.asked, got.Epoch, got.Offset, tc.epoch, tc.offset)
		}
	}
}

func TestTruncate(t *testing.T) {
	const full = "0→0 2→10 4→20"
	for _, tc := range []struct {
		end   bool
		at    model.Offset
		after string
	}{
		{true, 20, "0→0 2→10"},
		{true, 21, full},
		{true, 10, "0→0"},
		{true, 11, "0→0 2→10"},
		{true, 0, ""},
		{false, 0, full},
		{false, 5, "0→5 2→10 4→20"},
		{false, 10, "2→10 4→20"},
		{false, 15, "2→15 4→20"},
		{false, 20, "4→20"},
		{false, 25, "4→25"},
		{false, -1, full},
	} {
		c := parse(t, full)
		var changed bool
		if tc.end {
			changed = c.TruncateFromEnd(tc.at)
		} else {
			changed = c.TruncateFromStart(tc.at)
		}
		if got := show(c); got != tc.after {
			t.Errorf("truncate end=%v at %d = {%s}, want {%s}", tc.end, tc.at, got, tc.after)
		}
		if changed != (tc.after != full) || changed != (c.Version() == 1) {
			t.Errorf("truncate end=%v at %d: changed %v, version %d", tc.end, tc.at, changed, c.Version())
		}
	}
}

func TestNewRefusesWhatDoesNotRise(t *testing.T) {
	for _, tc := range []struct {
		entries []Entry
		want    string
	}{
		{[]Entry{{0, 0}, {0, 5}}, "entry 1 does not rise: epoch 0 at offset 5 after epoch 0 at offset 0"},
		{[]Entry{{0, 0}, {1, 0}}, "entry 1 does not rise"},
		{[]Entry{{3, 0}, {1, 5}}, "entry 1 does not rise"},
		{[]Entry{{0, 9}, {1, 5}}, "entry 1 does not rise"},
		{[]Entry{{-1, 0}}, "entry 0 is negative"},
		{[]Entry{{0, 0}, {1, -5}}, "entry 1 is negative"},
	} {
		_, err := New(tc.entries)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%v): error %v, want %q", tc.entries, err, tc.want)
		}
	}
}

func TestNewCopiesAndCloneShareNothing(t *testing.T) {
	entries := []Entry{{0, 0}, {1, 5}}
	c, err := New(entries)
	if err != nil {
		t.Fatal(err)
	}
	entries[0].Start = 4
	d := c.Clone()
	c.TruncateFromStart(2)
	c.Assign(2, 9)
	if got := show(d); got != "0→0 1→5" {
		t.Errorf("clone is {%s}", got)
	}
	if got := show(c); got != "0→2 1→5 2→9" {
		t.Errorf("cache is {%s}", got)
	}
	if d.Version() == c.Version() {
		t.Error("versions are equal after changes of one")
	}
}

func TestEnds(t *testing.T) {
	c := parse(t, "")
	if e, ok := c.Latest(); ok || e.Epoch != model.NoEpoch || e.Start != model.NoOffset {
		t.Errorf("latest of empty: %v %v", e, ok)
	}
	if e, ok := c.Earliest(); ok || e.Epoch != model.NoEpoch {
		t.Errorf("earliest of empty: %v %v", e, ok)
	}
	if c.LatestEpoch() != model.NoEpoch || c.Clear() {
		t.Error("empty cache claims an epoch, or a change by Clear")
	}
	c = parse(t, "0→0 2→10 4→20")
	if e, _ := c.Latest(); e != (Entry{4, 20}) || c.LatestEpoch() != 4 {
		t.Errorf("latest %v", e)
	}
	if e, _ := c.Earliest(); e != (Entry{0, 0}) {
		t.Errorf("earliest %v", e)
	}
	for _, tc := range []struct {
		of   model.LeaderEpoch
		want Entry
		ok   bool
	}{{0, Entry{-1, -1}, false}, {1, Entry{0, 0}, true}, {4, Entry{2, 10}, true}, {9, Entry{4, 20}, true}} {
		if e, ok := c.Previous(tc.of); e != tc.want || ok != tc.ok {
			t.Errorf("previous of %d = %v %v, want %v %v", tc.of, e, ok, tc.want, tc.ok)
		}
	}
	if !c.Clear() || c.Len() != 0 || c.Version() != 1 {
		t.Errorf("after Clear: len %d version %d", c.Len(), c.Version())
	}
}

// The model: the epoch that each offset's batch has, or would have, with the
// offsets below the log start owned by nobody. It knows no entries, so that it
// shares no idea with Cache but the meaning.
type owners []model.LeaderEpoch

// span is how many offsets the model covers. The last one stands for all that
// follow.
const span = 8

func (o owners) entries() []Entry {
	var out []Entry
	for i, e := range o {
		if e != model.NoEpoch && (i == 0 || o[i-1] != e) {
			out = append(out, Entry{e, model.Offset(i)})
		}
	}
	return out
}

func (o owners) assign(e model.LeaderEpoch, start int) owners {
	last := o[span-1]
	if last == e && slices.Index(o, e) <= start {
		return o
	}
	out := slices.Clone(o)
	for i := range out {
		switch {
		case i >= start:
			out[i] = e
		case out[i] >= e && i > 0:
			out[i] = out[i-1] // the epoch before goes on
		case out[i] >= e:
			out[i] = model.NoEpoch
		}
	}
	return out
}

func (o owners) truncateFromEnd(at int) owners {
	out := slices.Clone(o)
	for i := at; i < span; i++ {
		out[i] = model.NoEpoch
		if i > 0 {
			out[i] = out[i-1]
		}
	}
	return out
}

func (o owners) truncateFromStart(at int) owners {
	out := slices.Clone(o)
	for i := range at {
		out[i] = model.NoEpoch
	}
	return out
}

func (o owners) endOffsetFor(asked model.LeaderEpoch, leo model.Offset) (model.LeaderEpoch, model.Offset) {
	last := o[span-1]
	if asked == model.NoEpoch || last == model.NoEpoch || asked > last {
		return model.NoEpoch, model.NoOffset
	}
	if asked == last {
		return asked, leo
	}
	floor, end := asked, 0
	for i, e := range o {
		if e != model.NoEpoch && e <= asked {
			floor = e
		}
		if e > asked {
			end = i
			break
		}
	}
	return floor, model.Offset(end)
}

// allOwners returns every model with at most four epochs out of 0 to 5.
func allOwners() []owners {
	var out []owners
	var grow func(o owners, distinct int)
	grow = func(o owners, distinct int) {
		if len(o) == span {
			out = append(out, slices.Clone(o))
			return
		}
		last := model.NoEpoch
		if len(o) > 0 {
			last = o[len(o)-1]
		}
		grow(append(o, last), distinct)
		if distinct == 4 {
			return
		}
		for e := last + 1; e <= 5; e++ {
			grow(append(o, e), distinct+1)
		}
	}
	grow(nil, 0)
	return out
}

// TestAllSmallCaches compares every operation on every cache of at most four
// epochs with the model.
func TestAllSmallCaches(t *testing.T) {
	all := allOwners()
	if len(all) < 2000 {
		t.Fatalf("only %d caches", len(all))
	}
	for _, o := range all {
		base, err := New(o.entries())
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, c *Cache, want owners) {
			t.Helper()
			checkRising(t, c)
			if !slices.Equal(c.Entries(), want.entries()) {
				t.Fatalf("{%s} %s = {%s}, want %v", show(base), what, show(c), want.entries())
			}
			if (c.Version() != base.Version()) != !slices.Equal(c.Entries(), base.Entries()) {
				t.Fatalf("{%s} %s: version %d to %d", show(base), what, base.Version(), c.Version())
			}
		}
		for at := range span {
			c := base.Clone()
			c.TruncateFromEnd(model.Offset(at))
			same(fmt.Sprintf("end %d", at), c, o.truncateFromEnd(at))

			c = base.Clone()
			c.TruncateFromStart(model.Offset(at))
			same(fmt.Sprintf("start %d", at), c, o.truncateFromStart(at))

			e, ok := base.EpochFor(model.Offset(at))
			if e != o[at] || ok != (o[at] != model.NoEpoch) {
				t.Fatalf("{%s} epoch for %d = %d %v, want %d", show(base), at, e, ok, o[at])
			}
			for e := model.LeaderEpoch(0); e <= 6; e++ {
				c = base.Clone()
				c.Assign(e, model.Offset(at))
				same(fmt.Sprintf("assign (%d,%d)", e, at), c, o.assign(e, at))
			}
		}
		for asked := model.LeaderEpoch(-1); asked <= 6; asked++ {
			for _, leo := range []model.Offset{span - 1, span + 5} {
				got := base.EndOffsetFor(asked, leo)
				e, off := o.endOffsetFor(asked, leo)
				if got.Epoch != e || got.Offset != off {
					t.Fatalf("{%s} end of %d = %v, want (%d,%d)", show(base), asked, got, e, off)
				}
			}
		}
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	c := parse(t, "0→0 2→10 4→20")
	n := testing.AllocsPerRun(100, func() {
		c.Assign(4, 30)
		c.EndOffsetFor(3, 40)
		c.EpochFor(15)
		c.Compare(15, 3, 0, 40)
		c.CutFor(model.OffsetAndEpoch{Offset: 12, Epoch: 2}, 15, 40)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
