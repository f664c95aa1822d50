//go:build mutants

package quorum

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutants: each planted bug makes its own story fail.
func TestMutants(t *testing.T) {
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			defer mutant.Set(name)()
			err := story(t)
			if err == nil {
				t.Fatal("the story does not notice the mutant")
			}
			t.Log(err)
		})
	}
}

// TestMutantsInSeeds tells in how many seeds (a run and its duels) each planted
// bug shows. It takes
// minutes: QUORUM_SEEDS=0-100 runs it.
func TestMutantsInSeeds(t *testing.T) {
	if os.Getenv("QUORUM_SEEDS") == "" {
		t.Skip("QUORUM_SEEDS is not set")
	}
	from, to := seedsFrom(t, 0)
	var names []string
	for name := range stories() {
		if only := os.Getenv("QUORUM_MUTANT"); only != "" && only != name {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		found, first := 0, ""
		for seed := from; seed < to; seed++ {
			if err := mutated(t, name, seed); err != nil {
				if found++; first == "" {
					first = fmt.Sprintf("seed %d: %v", seed, err)
				}
			}
		}
		t.Logf("%s: %d of %d seeds; %.160s", name, found, to-from, first)
	}
}

// mutated runs a seed with a planted bug. A panic of the library is a finding.
func mutated(t *testing.T, name string, seed uint64) (err error) {
	defer mutant.Set(name)()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	var sum tally
	if err := runSeed(t, seed, &sum).first; err != nil {
		return err
	}
	return runDuels(t, seed).first
}
