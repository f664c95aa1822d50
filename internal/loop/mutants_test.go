//go:build mutants

package loop

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

// Each planted bug must be found by the exploration of the same scenarios that
// find nothing in the plain code.
func TestModelKillsMutants(t *testing.T) {
	for name, want := range map[string]string{
		"loop-lost-wakeup":      "lost wake-up",
		"loop-inline-overtakes": "handled before",
	} {
		t.Run(name, func(t *testing.T) {
			defer mutant.Set(name)()
			res := explore(producers(3, 2, 0), 1_000_000)
			if res.err == nil {
				t.Fatalf("survived %d states", res.states)
			}
			if !strings.Contains(res.err.why, want) {
				t.Errorf("found %q, want %q", res.err.why, want)
			}
			if testing.Verbose() {
				t.Logf("%s after %d states:\n%s", res.err.why, res.states, replay(producers(3, 2, 0), res.schedule))
			}
		})
	}
}
