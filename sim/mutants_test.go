//go:build mutants

package sim

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// caughtWithin is in how many seeds each mutant that the simulation can reach
// must be caught; docs/VERIFICATION.md says how many it took and where the
// others are caught.
var caughtWithin = map[string]uint64{
	"log-index-off-by-one":     100,
	"log-no-cutback":           100,
	"log-rp-before-epoch-file": 100,
	"log-skip-crc":             100,
	"log-skip-dirsync":         100,
	"loop-lost-wakeup":         100,
	"part-ack-before-append":   100,
	"part-dup-acked-early":     100,
	"shell-frame-reused":       100,
}

func TestMutantsAreCaught(t *testing.T) {
	listed := mutant.Names()
	for _, name := range sortedMutants() {
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(listed, func(m mutant.Mutant) bool { return m.Name == name }) {
				t.Fatal("there is no such mutant")
			}
			for seed := uint64(1); seed <= caughtWithin[name]; seed++ {
				restore := mutant.Set(name)
				r := Run(Options{Seed: seed}, nil)
				restore()
				if r.Failure == nil {
					continue
				}
				t.Logf("caught by seed %d: %.200v", seed, r.Failure)
				if f := Run(Options{Seed: seed}, nil).Failure; f != nil {
					t.Errorf("seed %d fails without the mutant too: %v", seed, f)
				}
				return
			}
			t.Errorf("not caught in %d seeds", caughtWithin[name])
		})
	}
}

func sortedMutants() []string {
	var names []string
	for name := range caughtWithin { // order-free: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
