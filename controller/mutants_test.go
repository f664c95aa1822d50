//go:build mutants

package controller

import (
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

// TestMutantsByChance: the random runs find the bugs as well that lose data.
func TestMutantsByChance(t *testing.T) {
	for _, name := range []string{"ctl-elr-kept", "ctl-sole-reelected", "ctl-power-keeps-seat", "ctl-alter-no-cas", "ctl-isr-any-incarnation"} {
		t.Run(name, func(t *testing.T) {
			defer mutant.Set(name)()
			for seed := range uint64(2000) {
				if err := runSafety(t, seed); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("no seed notices the mutant")
		})
	}
}
