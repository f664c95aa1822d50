//go:build mutants

package group

import (
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutants: random lives notice each planted bug.
func TestMutants(t *testing.T) {
	for _, name := range []string{
		"coord-replay-before-append", "coord-visible-before-commit", "group-assigned-twice", "group-commit-any-generation", "group-generation-kept",
	} {
		t.Run(name, func(t *testing.T) {
			defer mutant.Set(name)()
			for seed := range uint64(200) {
				if err := caught(seed); err != "" {
					t.Logf("seed %d: %s", seed, err)
					return
				}
			}
			t.Fatal("no seed notices the mutant")
		})
	}
}

// caught is what a random life, or an assertion in it, finds.
func caught(seed uint64) (found string) {
	defer func() {
		if r := recover(); r != nil {
			found = "an assertion"
		}
	}()
	if err := runProperty(seed, 400); err != nil {
		return err.Error()
	}
	return ""
}
