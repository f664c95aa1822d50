//go:build mutants

package coordinator

import (
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutantServesOldWatermark: a coordinator that serves at once shows less than
// the one before has acknowledged.
func TestMutantServesOldWatermark(t *testing.T) {
	defer mutant.Set("coord-serves-old-watermark")()
	r := serving(t)
	r.rt.Lead(2, &r.out)
	r.rt.Committed(r.now, 3, &r.out)
	r.settle()
	if r.load(5); r.rt.State() != Active {
		t.Fatal("nobody noticed: it waits as it should")
	}
}
