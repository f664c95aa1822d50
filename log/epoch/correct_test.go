package epoch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// reigns reads "1@0 2@5..7": epoch 2 begins with a batch at 7, the one before it ends at 5.
func reigns(t *testing.T, s string) (seen []Reign) {
	t.Helper()
	for _, f := range strings.Fields(s) {
		var r Reign
		if _, err := fmt.Sscanf(f, "%d@%d..%d", &r.Epoch, &r.After, &r.First); err != nil {
			if _, err := fmt.Sscanf(f, "%d@%d", &r.Epoch, &r.After); err != nil {
				t.Fatalf("%q: %v", f, err)
			}
			r.First = r.After
		}
		seen = append(seen, r)
	}
	return seen
}

func TestCorrect(t *testing.T) {
	for _, tc := range []struct {
		name, before, seen string
		end                model.Offset
		after              string // "-": refused
	}{
		{"right", "0→0 2→4", "0@0 2@4", 8, "0→0 2→4"},
		{"start too high", "0→0 2→7", "0@0 2@4", 8, "0→0 2→4"},
		{"start too low", "0→0 2→1", "0@0 2@4", 8, "0→0 2→4"},
		{"other epoch", "0→0 1→4", "0@0 2@4", 8, "0→0 2→4"},
		{"epoch lost", "0→0 3→6", "0@0 2@4 3@6", 8, "0→0 2→4 3→6"},
		{"epoch too many", "0→0 1→2 2→4", "0@0 2@4", 8, "0→0 2→4"},
		{"before and behind stay", "0→0 1→10 2→15 5→30 7→40", "1@10 2@14 3@16", 20, "0→0 1→10 2→14 3→16 5→30 7→40"},
		{"began before the range", "1→5 2→18 4→20", "1@10 2@14", 20, "1→5 2→14 4→20"},
		{"nothing written yet at the end", "1→0 3→5 4→8", "1@0 3@4", 8, "1→0 3→4 4→8"},
		{"where compaction took the first batches", "1→0 3→5 4→9", "1@0 3@4..7 4@8", 12, "1→0 3→5 4→8"},
		{"none is known where they were", "1→0 3→8 4→9", "1@0 3@4..7 4@9", 12, "1→0 3→4 4→9"},
		{"an epoch in such a gap is not believed", "1→0 2→4 4→9", "1@0 3@4..7 4@9", 12, "1→0 3→4 4→9"},
		{"below the first that is known", "2→6 3→9", "1@0 2@4 3@8", 12, "1→0 2→4 3→8"},
		{"empty cache", "", "1@0 2@4", 8, "1→0 2→4"},
		{"the first of the range too", "0→0 9→12", "4@10 9@12", 20, "0→0 4→10 9→12"},
		{"epochs fall", "0→0 2→4", "2@0 1@4", 8, "-"},
		{"below what stands before", "5→0 6→10", "3@10 4@12", 20, "-"},
		{"above what stands behind", "0→0 2→4 3→20", "0@0 4@4", 20, "-"},
		{"goes on behind", "0→0 2→20", "0@0 2@4", 20, "-"},
		{"nothing seen", "0→0", "", 8, "-"},
	} {
		c := parse(t, tc.before)
		version := c.Version()
		ok := c.Correct(reigns(t, tc.seen), tc.end)
		want := tc.after
		if want == "-" {
			want = tc.before
		}
		if ok != (tc.after != "-") || show(c) != want || (c.Version() != version) != (want != tc.before) {
			t.Errorf("%s: {%s} becomes {%s}, %v, version %d", tc.name, tc.before, show(c), ok, c.Version())
		}
		checkRising(t, c)
	}
}

// Whatever has become of one entry inside a range, the batches of the range put it
// right, and nothing else changes.
func TestCorrectAnyEntry(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for range 20000 {
		var right []Entry
		epoch, at := model.LeaderEpoch(r.IntN(3)), model.Offset(0)
		for range 3 + r.IntN(5) {
			right = append(right, Entry{epoch, at})
			epoch += model.LeaderEpoch(1 + r.IntN(3))
			at += model.Offset(1 + r.IntN(5))
		}
		truth, _ := New(right)
		from := right[r.IntN(len(right)-1)].Start
		end := from + 1 + model.Offset(r.IntN(int(at-from)))
		var seen []Reign
		for o := from; o < end; o++ {
			if e, _ := truth.EpochFor(o); len(seen) == 0 || seen[len(seen)-1].Epoch != e {
				seen = append(seen, Reign{Epoch: e, First: o, After: o})
			}
		}
		bad := truth.Entries()
		k := r.IntN(len(bad))
		if bad[k].Start <= from || bad[k].Start >= end {
			continue
		}
		if r.IntN(2) == 0 {
			bad[k].Start = from + 1 + model.Offset(r.IntN(int(end-from)))
		} else {
			bad[k].Epoch += model.LeaderEpoch(r.IntN(9) - 4)
		}
		c, err := New(bad)
		if err != nil || bad[k].Start >= end {
			continue
		}
		if !c.Correct(seen, end) || show(c) != show(truth) {
			t.Fatalf("{%v} becomes {%s} by %v up to %d, want {%s}", bad, show(c), seen, end, show(truth))
		}
	}
}
