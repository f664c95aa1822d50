//go:build compat

package compat_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// binary is the tidemark binary under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidemark-compat")
	if err == nil && !target.IsKafka() {
		binary, err = target.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
	}
	os.Exit(code)
}

// startNode starts a broker with an empty directory that the test's end removes.
func startNode(t *testing.T, set ...string) *target.Node {
	t.Helper()
	return startNodeIn(t, t.TempDir(), set...)
}

// startNodeIn starts a broker on what is in dir.
func startNodeIn(t *testing.T, dir string, set ...string) *target.Node {
	t.Helper()
	props := map[string]string{}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		props[k] = v
	}
	n, err := target.New(binary, filepath.Join(dir, "data"), props)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's last words:\n%s", proc.Tail(n.Stderr(), 40))
		}
		n.Kill()
	})
	return n
}

// restart stops the node, by SIGTERM or kill -9, and starts it again.
func restart(t *testing.T, n *target.Node, kill bool) {
	t.Helper()
	if kill {
		n.Kill()
	} else if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// client returns a franz-go client of the node.
func client(t *testing.T, n *target.Node, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// run runs a program that must succeed.
func run(t *testing.T, stdin io.Reader, argv ...string) proc.Result {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Fatalf("%s is needed for this test: %v", argv[0], err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := proc.Run(ctx, stdin, argv...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != 0 {
		t.Fatalf("%s: exit %d\n%s", strings.Join(argv, " "), r.Exit, proc.Tail(r.All(), 40))
	}
	return r
}

// tool runs one of Kafka's tools that must succeed against the node.
func tool(t *testing.T, n *target.Node, name kafka.Tool, args ...string) string {
	t.Helper()
	r := toolResult(t, n, nil, name, args...)
	if r.Exit != 0 {
		t.Fatalf("%s %s: exit %d\n%s", name, strings.Join(args, " "), r.Exit, proc.Tail(r.All(), 40))
	}
	return r.Stdout
}

// toolResult runs one of Kafka's tools against the node, whatever it exits with.
func toolResult(t *testing.T, n *target.Node, stdin io.Reader, name kafka.Tool, args ...string) proc.Result {
	t.Helper()
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if n != nil {
		args = append([]string{"--bootstrap-server", n.Addr}, args...)
	}
	r, err := jars.Run(ctx, stdin, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits until ok is true: metadata reaches a broker a moment after
// the controller's answer.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Errorf("%s: not within 10 s", what)
			return
		case <-tick.C:
		}
	}
}

// offsetsFile writes the input of kafka-delete-records.
func offsetsFile(t *testing.T, topic string, offset int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "offsets.json")
	text := fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":%d}]}`, topic, offset)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
