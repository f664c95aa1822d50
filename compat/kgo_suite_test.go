//go:build compat

package compat_test

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
)

//go:embed testdata/kgo_tests.txt
var kgoTests string

// franz-go's own tests, of the version that go.mod names, against three brokers with
// topics of three replicas.
func TestKgoSuite(t *testing.T) {
	c := startThree(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var names []string
	for line := range strings.Lines(kgoTests) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	suite := filepath.Join(t.TempDir(), "kgo.test")
	r, err := proc.Run(ctx, nil, "go", "test", "-c", "-o", suite, "github.com/twmb/franz-go/pkg/kgo")
	if err != nil || r.Exit != 0 {
		t.Fatalf("build: %v\n%s", err, r.All())
	}
	r, err = proc.Run(ctx, nil, "env", "KGO_SEEDS="+c.Addrs(), "KGO_TEST_RF=3", "HOME="+os.Getenv("HOME"),
		suite, "-test.v", "-test.timeout=4m", "-test.run=^("+strings.Join(names, "|")+")$")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^--- PASS: ` + name + ` `).MatchString(r.Stdout) {
			t.Errorf("%s did not pass", name)
		}
	}
	if r.Exit != 0 || t.Failed() {
		t.Logf("exit %d\n%s", r.Exit, proc.Tail(r.All(), 200))
	}
}
