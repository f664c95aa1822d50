//go:build mutants

package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// TestMutantsOfACluster: a cluster of brokers with a bug planted is found out, by
// the test that is there for it. The test runs once more, in a process of its
// own, with brokers that have the bug, and must fail.
func TestMutantsOfACluster(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "tidemark")
	r, err := proc.Run(t.Context(), nil, "go", "build", "-tags", "mutants", "-o", broken, "github.com/tidemark/tidemark/cmd/tidemark")
	if err != nil || r.Exit != 0 {
		t.Fatalf("build: %v\n%s", err, r.All())
	}
	for _, c := range []struct{ mutant, test, says string }{
		{"", "TestLeaderIsolated", ""},
		{"", "TestRestartedFollowerKeepsWhatItHas", ""},
		{"", "TestLeadershipGoesAndComesBack", ""},
		{"part-ack-before-hw", "TestLeaderIsolated", "was acknowledged at offset"},
		{"part-truncate-to-hw", "TestRestartedFollowerKeepsWhatItHas", "divergence_test.go"},
		{"part-no-kip279", "TestLeadershipGoesAndComesBack", "divergence_test.go"},
	} {
		t.Run(c.mutant+" "+c.test, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			r, err := proc.Run(ctx, nil, "env", "TIDEMARK_MUTANT="+c.mutant, target.EnvBinary+"="+broken, os.Args[0], "-test.run", "^"+c.test+"$", "-test.v")
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case !strings.Contains(r.Stdout, "=== RUN   "+c.test):
				t.Fatalf("%s did not run:\n%s", c.test, proc.Tail(r.All(), 20))
			case c.mutant == "" && r.Exit != 0:
				t.Errorf("%s fails without a mutant:\n%s", c.test, proc.Tail(r.All(), 40))
			case c.mutant != "" && r.Exit == 0:
				t.Errorf("%s doesn't see %s", c.test, c.mutant)
			case !strings.Contains(r.Stdout, c.says):
				t.Errorf("%s fails otherwise than by %q:\n%s", c.test, c.says, proc.Tail(r.All(), 40))
			}
		})
	}
}
