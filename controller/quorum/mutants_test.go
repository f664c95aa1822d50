//go:build mutants

package quorum

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
