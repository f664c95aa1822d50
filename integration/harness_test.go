package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// program is the program under test, built once.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidemark-integration")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if program, err = target.Build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// long reports whether the long variants are wanted.
func long() bool { return os.Getenv("TIDEMARK_TEST_LONG") != "" }

// needRoot ends a test that can't run here for want of something.
func needRoot(t *testing.T, why string, args ...any) {
	t.Helper()
	if os.Getenv("TIDEMARK_TEST_ROOT") == "1" {
		t.Fatalf(why, args...)
	}
	t.Skipf(why, args...)
}

// node is one broker process after another on the same directory and port.
type node struct {
	t    *testing.T
	addr string
	dir  string
	set  []string
	wrap []string // a program that runs the broker: strace, sh
	args []string // if not nil: all that follows "serve"
	num  int32    // node.id; 0 is 1
	p    *proc.Process
}

// newNode prepares a node in a directory of its own; set is "key=value".
func newNode(t *testing.T, set ...string) *node {
	t.Helper()
	return newNodeIn(t, filepath.Join(t.TempDir(), "data"), set...)
}

func newNodeIn(t *testing.T, dir string, set ...string) *node {
	t.Helper()
	port, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, addr: fmt.Sprintf("127.0.0.1:%d", port), dir: dir, set: set}
	t.Cleanup(func() {
		if n.p == nil {
			return
		}
		n.p.Kill()
		if t.Failed() {
			t.Logf("the last process said:\n%s", proc.Tail(n.p.Stderr.String(), 40))
		}
	})
	return n
}

func (n *node) argv() []string {
	argv := append([]string{}, n.wrap...)
	if n.args != nil {
		return append(append(argv, program, "serve"), n.args...)
	}
	argv = append(argv, program, "serve", "--listen", n.addr, "--data-dir", n.dir)
	for _, kv := range n.set {
		argv = append(argv, "--set", kv)
	}
	return argv
}

// launch starts a process and does not wait for it.
func (n *node) launch() {
	n.t.Helper()
	p, err := proc.Start("", nil, n.argv()...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.p = p
}

func (n *node) ready() bool { return strings.HasPrefix(n.p.Stdout.String(), "tidemark ready ") }

// start starts a process and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.awaitReady()
}

func (n *node) awaitReady() {
	n.t.Helper()
	if err := n.p.Until(60*time.Second, n.ready); err != nil {
		n.t.Fatal(err)
	}
}

// stop asks the process to stop and wants exit code 0.
func (n *node) stop() {
	n.t.Helper()
	if err := n.p.Stop(60 * time.Second); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) signal(sig syscall.Signal) {
	n.t.Helper()
	if err := n.p.Signal(sig); err != nil {
		n.t.Fatal(err)
	}
}

// exit waits for the process to end.
func (n *node) exit(patience time.Duration) int {
	n.t.Helper()
	code, err := n.p.Wait(patience)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, proc.Tail(n.p.Stderr.String(), 30))
	}
	return code
}

// alive fails the test if the broker is gone or does not answer.
func (n *node) alive() {
	n.t.Helper()
	if n.p.Ended() {
		n.t.Fatalf("the broker ended:\n%s", proc.Tail(n.p.Stderr.String(), 60))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cl := n.client()
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		n.t.Fatalf("the broker does not answer: %v", err)
	}
}

// client returns a client that comes back quickly after a restart and never
// gives a record up. The caller closes it.
func (n *node) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.addr),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequestRetries(1 << 30), kgo.RetryTimeout(time.Minute), kgo.DialTimeout(2 * time.Second),
		kgo.UnknownTopicRetries(-1),
	}, opts...)...)
	if err != nil {
		n.t.Fatal(err)
	}
	return cl
}

// ask sends one request once.
func (n *node) ask(cl *kgo.Client, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return cl.Broker(int(max(n.num, 1))).Request(ctx, req)
}

// topic creates a topic with settings "key=value".
func (n *node) topic(name string, partitions int32, configs ...string) {
	n.t.Helper()
	cl := n.client()
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = k, &v
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		n.t.Fatal(err)
	}
	if code := resp.Topics[0].ErrorCode; code != 0 {
		n.t.Fatalf("create topic %s: code %d", name, code)
	}
}

// partitionDir is where a partition's files are.
func (n *node) partitionDir(topic string, partition int32) string {
	return filepath.Join(n.dir, "log", fmt.Sprintf("%s-%d", topic, partition))
}

// eventually polls until it is so.
func eventually(t *testing.T, patience time.Duration, what string, so func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// pause lets a span of time pass that is part of what is tested.
func pause(d time.Duration) { <-time.After(d) }
