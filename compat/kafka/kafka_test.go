package kafka_test

import (
	"os/exec"
	"testing"

	"github.com/tidemark/tidemark/compat/kafka"
)

// Fetching the jars is a test of its own, so that ./test does it once, before
// the tests that need them and with time enough for a first download.
func TestResolve(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads when the cache is empty")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal(err)
	}
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kafka.ResolveApps(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The help text shows that a tool starts.
	r, err := jars.Run(t.Context(), nil, kafka.Topics, "--version")
	if err != nil || r.Exit != 0 || r.Stdout == "" {
		t.Fatalf("kafka-topics --version: exit %d, %v\n%s", r.Exit, err, r.All())
	}
	t.Logf("Apache Kafka's tools say %s", r.Stdout)
}
