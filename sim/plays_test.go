package sim

import (
	"slices"
	"strings"
	"testing"
)

// stageEnds is a trace of which only the ends of plays are kept. The first that comes to
// its end ends the world.
type stageEnds struct {
	w   *World
	all []string
}

// Write implements io.Writer.
func (e *stageEnds) Write(line []byte) (int, error) {
	if _, why, ok := strings.Cut(string(line), "play       ends: "); ok {
		e.all = append(e.all, strings.TrimSpace(why))
		if e.done() {
			e.w.phase = over
		}
	}
	return len(line), nil
}

func (e *stageEnds) done() bool { return slices.Contains(e.all, "done") }

// Each play comes to its end in one of the first few worlds that have nothing else: a
// step that waits for what never comes would make it a play that shows nothing.
func TestPlaysEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("some dozen worlds")
	}
	seeds := []uint64{5, 4, 3, 2, 6, 7, 8, 9, 10, 11, 12, 1} // most come to it in the first two
	for _, s := range slices.Concat(playbill, secondBill) {
		t.Run(s.title, func(t *testing.T) {
			var all []string
			for _, seed := range seeds {
				ends := &stageEnds{}
				restore := seedRaft(seed)
				ends.w = newWorld(Options{Seed: seed, Nodes: 3, Until: 10 * DefaultEvents, only: s.title}, ends)
				ends.w.run()
				restore()
				if ends.w.failure != nil {
					t.Fatalf("seed %d: %v", seed, ends.w.failure)
				}
				if ends.done() {
					return
				}
				all = append(all, ends.all...)
			}
			t.Errorf("not in %d worlds; it ended with %q", len(seeds), all)
		})
	}
}
