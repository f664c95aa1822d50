//go:build mutants && !race

package server

import (
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// TestMutantFrameReusedIsCaught uses a pipe, over which a frame is always filled
// again at once, so that the mutant has its effect each time. What it does is a
// data race, which the race detector would report by itself.
func TestMutantFrameReusedIsCaught(t *testing.T) {
	defer mutant.Set("shell-frame-reused")()
	for _, size := range retainedSizes() {
		if !retained(t, "pipe", size) {
			t.Errorf("records of %d bytes: nobody noticed that the frame was reused", size)
		}
	}
}
