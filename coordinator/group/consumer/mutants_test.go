//go:build mutants

package consumer

import (
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutantUnreleasedGiven: a member that gets what another has not given up is
// noticed at the first hand-over.
func TestMutantUnreleasedGiven(t *testing.T) {
	defer mutant.Set("group-unreleased-given")()
	w := newWorld(t)
	w.ts.set("a", 4)
	w.join("m1", "", "a").obey()
	two := w.join("m2", "", "a")
	if len(two.told) == 0 {
		t.Fatal("nobody noticed: the second member waits as it should")
	}
}
