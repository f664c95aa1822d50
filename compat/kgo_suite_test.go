//go:build compat

package compat_test

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
	"github.com/tidemark/tidemark/internal/lifecycle"
)

//go:embed testdata/kgo_tests.txt
var kgoTests string

// franz-go's own tests, of the version that go.mod names, against three brokers with
// topics of three replicas.
func TestKgoSuite(t *testing.T) {
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	runKgoSuite(t, c, buildKgoSuite(t), kgoNames(), 20_000, 6*time.Minute)
}

// The same against one broker, with topics of one replica.
func TestKgoSuiteOfOneBroker(t *testing.T) {
	c := startBrokers(t, 1, "group.initial.rebalance.delay.ms=0")
	runKgoSuite(t, c, buildKgoSuite(t), kgoNames(), 20_000, 6*time.Minute)
}

// The same while one broker after the other is killed with kill -9 and started
// again, two of them being there at any time. Groups only, unless
// TIDEMARK_TEST_LONG is set: the rest waits for brokers more than it tests. The
// kills are rare: a connection that ends at its first request makes this client
// give records up, and a join that waited too long for a coordinator gives up the
// session, which its tests don't forgive.
func TestKgoSuiteUnderKills(t *testing.T) {
	names, records := []string{"TestGroupETL", "TestGroupSimple", "TestConsumeRegex"}, 20_000
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		names, records = kgoNames(), 200_000
	}
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	suite := buildKgoSuite(t)
	ctx, cancel := context.WithCancel(t.Context())
	var kills int
	var failed error
	var killer lifecycle.Group
	killer.Go("killer", func() { kills, failed = killInTurn(ctx, c, 20*time.Second) })
	runKgoSuite(t, c, suite, names, records, 20*time.Minute)
	cancel()
	killer.Wait()
	if failed != nil {
		t.Error(failed)
	}
	t.Logf("%d brokers were killed", kills)
}

// killInTurn kills one broker each pause and starts it again, until ctx ends.
func killInTurn(ctx context.Context, c *target.Cluster, pause time.Duration) (kills int, err error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return kills, nil
		case <-tick.C:
		}
		n := c.Nodes[kills%len(c.Nodes)]
		n.Kill()
		kills++
		if err := n.Launch(); err != nil {
			return kills, err
		}
		if err := n.AwaitReady(); err != nil {
			return kills, err
		}
	}
}

// kgoNames are the tests that must run and pass.
func kgoNames() []string {
	var names []string
	for line := range strings.Lines(kgoTests) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}

func buildKgoSuite(t *testing.T) string {
	t.Helper()
	suite := filepath.Join(t.TempDir(), "kgo.test")
	r, err := proc.Run(t.Context(), nil, "go", "test", "-c", "-o", suite, "github.com/twmb/franz-go/pkg/kgo")
	if err != nil || r.Exit != 0 {
		t.Fatalf("build: %v\n%s", err, r.All())
	}
	return suite
}

func runKgoSuite(t *testing.T, c *target.Cluster, suite string, names []string, records int, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	defer cancel()
	r, err := proc.Run(ctx, nil, "env", "KGO_SEEDS="+c.Addrs(), fmt.Sprint("KGO_TEST_RF=", len(c.Nodes)), fmt.Sprint("KGO_TEST_RECORDS=", records), "HOME="+os.Getenv("HOME"),
		suite, "-test.v", "-test.timeout="+patience.String(), "-test.run=^("+strings.Join(names, "|")+")$")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^--- PASS: ` + name + ` `).MatchString(r.Stdout) {
			t.Errorf("%s did not pass", name)
		}
	}
	if r.Exit != 0 || t.Failed() {
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, "_test.go:") && !strings.Contains(line, ": deleting ") {
				t.Log(strings.TrimSpace(line))
			}
		}
		t.Logf("exit %d\n%s", r.Exit, proc.Tail(r.All(), 200))
	}
}
