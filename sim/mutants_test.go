//go:build mutants

package sim

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// within says in which worlds a mutant must be caught.
type within struct {
	nodes int
	seeds uint64
}

// caughtWithin is in how many seeds each mutant that the simulation can reach
// must be caught; docs/VERIFICATION.md says how many it took and where the
// others are caught.
var caughtWithin = map[string]within{
	"ctl-no-epoch-bump":             {3, 20},
	"ctl-power-keeps-seat":          {3, 20},
	"group-generation-kept":         {3, 20},
	"host-acts-before-registration": {3, 20},
	"log-index-off-by-one":          {1, 100},
	"log-rp-before-epoch-file":      {1, 100},
	"log-skip-crc":                  {1, 100},
	"log-skip-dirsync":              {1, 100},
	"loop-lost-wakeup":              {1, 100},
	"part-ack-before-append":        {1, 100},
	"part-ack-before-hw":            {3, 20},
	"part-dup-acked-early":          {1, 100},
	"part-truncate-to-hw":           {3, 20},
	"shell-frame-reused":            {1, 100},
}

func TestMutantsAreCaught(t *testing.T) {
	listed := mutant.Names()
	for _, name := range sortedMutants() {
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(listed, func(m mutant.Mutant) bool { return m.Name == name }) {
				t.Fatal("there is no such mutant")
			}
			in := caughtWithin[name]
			for seed := uint64(1); seed <= in.seeds; seed++ {
				o := Options{Seed: seed, Nodes: in.nodes}
				restore := mutant.Set(name)
				r := Run(o, nil)
				restore()
				if r.Failure == nil {
					continue
				}
				t.Logf("caught by seed %d: %.200v", seed, r.Failure)
				if f := Run(o, nil).Failure; f != nil {
					t.Errorf("seed %d fails without the mutant too: %v", seed, f)
				}
				return
			}
			t.Errorf("not caught in %d seeds", in.seeds)
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
