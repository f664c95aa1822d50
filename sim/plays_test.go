package sim

import (
	"slices"
	"strings"
	"testing"
)

// playEnds is a trace of which only the ends of plays are kept.
type playEnds []string

// Write implements io.Writer.
func (e *playEnds) Write(line []byte) (int, error) {
	if _, why, ok := strings.Cut(string(line), "play       ends: "); ok {
		*e = append(*e, strings.TrimSpace(why))
	}
	return len(line), nil
}

// Each play comes to its end in one of the first few worlds that have nothing else: a
// step that waits for what never comes would make it a play that shows nothing.
func TestPlaysEnd(t *testing.T) {
	most := uint64(12)
	if testing.Short() {
		t.Skip("some dozen worlds")
	}
	for _, s := range slices.Concat(playbill, secondBill) {
		t.Run(s.title, func(t *testing.T) {
			var all []string
			for seed := range most {
				var ends playEnds
				if r := Run(Options{Seed: seed + 1, Nodes: 3, only: s.title}, &ends); r.Failure != nil {
					t.Fatalf("seed %d: %v", seed+1, r.Failure)
				}
				if slices.Contains(ends, "done") {
					return
				}
				all = append(all, ends...)
			}
			t.Errorf("not in %d worlds; it ended with %q", most, all)
		})
	}
}
