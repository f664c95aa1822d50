package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/proc"
)

// TestStopUnderLoad: SIGTERM finishes what is under way, marks the directory
// clean and exits with 0; nothing that was acknowledged is missing.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("orders", 3)
	parts := []tp{{"orders", 0}, {"orders", 1}, {"orders", 2}}
	l := n.load(loadSpec{producers: 2, partitions: parts, size: 500, every: time.Millisecond, burst: 3})
	marker := filepath.Join(n.dir, "log", ".kafka_cleanshutdown")
	for range 3 {
		eventually(t, 20*time.Second, "records flow", func() bool { return l.ledger.told.Load() > 500 })
		before := time.Now()
		n.signal(syscall.SIGTERM)
		if code := n.exit(30 * time.Second); code != 0 {
			t.Fatalf("exit code %d\n%s", code, n.p.Stderr.String())
		}
		t.Logf("stopped under load in %s", time.Since(before).Round(time.Millisecond))
		if _, err := os.Stat(marker); err != nil {
			t.Errorf("no marker of a clean stop: %v", err)
		}
		n.start()
		if _, err := os.Stat(marker); err == nil {
			t.Error("the marker stands while the broker runs")
		}
		if said := n.p.Stderr.String(); strings.Contains(said, "WARN") || strings.Contains(said, "ERROR") {
			t.Errorf("a start after a clean stop warns:\n%s", said)
		}
	}
	l.finish()
	if records := n.check(l.ledger, parts); int64(records) != l.ledger.sent.Load() {
		t.Errorf("%d records, want %d", records, l.ledger.sent.Load())
	}
}

// TestStopFinishesWhatIsUnderWay: requests that were sent before the stop are
// answered, a long poll at once, and then the connection closes.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("polled", 1)
	c := n.dial()
	defer c.Close()
	poll := kmsg.NewPtrFetchRequest()
	poll.MaxWaitMillis, poll.MinBytes, poll.MaxBytes, poll.ReplicaID, poll.SessionEpoch = 30_000, 1, 1<<20, -1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "polled"
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes = 1 << 20
	rt.Partitions = append(rt.Partitions, rp)
	poll.Topics = append(poll.Topics, rt)
	if _, err := c.Write(frame(poll, 11, 7)); err != nil {
		t.Fatal(err)
	}
	n.alive() // a round trip later the poll is parked
	before := time.Now()
	n.signal(syscall.SIGTERM)
	if b, err := readFrame(c, 10*time.Second); err != nil || len(b) < 4 || b[3] != 7 {
		t.Errorf("the parked poll was not answered: %v", err)
	}
	if code := n.exit(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("a long poll held the stop up for %s", took)
	}
}

// TestIdleStop: a broker with nothing to do stops in less than a second.
func TestIdleStop(t *testing.T) {
	n := newNode(t)
	n.start()
	n.topic("idle", 20)
	best := time.Hour
	for range 3 { // the machine may be busy with something else
		before := time.Now()
		n.stop()
		best = min(best, time.Since(before))
		n.start()
	}
	t.Logf("idle stop with 20 partitions: %s", best.Round(time.Millisecond))
	if best > time.Second {
		t.Errorf("an idle stop took %s", best)
	}
}

// TestSecondSignalEndsAtOnce: the first SIGTERM waits for a client that does not
// read its answer; the second one waits for nothing, and the next start recovers.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("hangs", 1)
	p := tp{"hangs", 0}
	cl := n.client()
	for range 40 {
		if _, code, err := n.produceOnce(cl, p, batch(10, 50_000)); err != nil || code != 0 {
			t.Fatal(code, err)
		}
	}
	cl.Close()
	c := n.dial()
	defer c.Close()
	if _, err := c.Write(frame(fetchMuch(p.topic), 11, 1)); err != nil {
		t.Fatal(err)
	}
	n.alive()
	n.signal(syscall.SIGTERM)
	if code, err := n.p.Wait(700 * time.Millisecond); err == nil {
		t.Fatalf("the stop did not wait: exit code %d", code)
	}
	before := time.Now()
	n.signal(syscall.SIGTERM)
	if code := n.exit(10 * time.Second); code == 0 {
		t.Errorf("exit code %d of a stop that was cut short", code)
	}
	if took := time.Since(before); took > 3*time.Second {
		t.Errorf("the second signal took %s", took)
	}
	n.start()
	cl = n.client()
	defer cl.Close()
	if end := n.end(cl, p); end != 400 {
		t.Errorf("the log ends at %d, want 400", end)
	}
}

// TestStopDoesNotWaitForReadersForEver: a client that reads nothing holds a stop
// up for a bounded time, and the stop is clean all the same.
func TestStopDoesNotWaitForReadersForEver(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("unread", 1)
	p := tp{"unread", 0}
	cl := n.client()
	for range 40 {
		if _, code, err := n.produceOnce(cl, p, batch(10, 50_000)); err != nil || code != 0 {
			t.Fatal(code, err)
		}
	}
	cl.Close()
	c := n.dial()
	defer c.Close()
	if _, err := c.Write(frame(fetchMuch(p.topic), 11, 1)); err != nil {
		t.Fatal(err)
	}
	n.alive()
	before := time.Now()
	n.signal(syscall.SIGTERM)
	code := n.exit(60 * time.Second)
	t.Logf("stopped beside a client that does not read in %s, exit code %d", time.Since(before).Round(time.Millisecond), code)
	if _, err := os.Stat(filepath.Join(n.dir, "log", ".kafka_cleanshutdown")); err != nil || code != 0 {
		t.Errorf("exit code %d, marker: %v\n%s", code, err, proc.Tail(n.p.Stderr.String(), 10))
	}
	if took := time.Since(before); took > 9*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// fetchMuch asks for all that a partition has.
func fetchMuch(topic string) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.ReplicaID, req.SessionEpoch = 50<<20, -1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes = 50 << 20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// TestSecondProcessIsRefused: the directory has one owner, and the message says
// so; the first process is not disturbed.
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	second := newNodeIn(t, n.dir)
	second.launch()
	if code := second.exit(20 * time.Second); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if msg := second.p.Stderr.String(); !strings.Contains(msg, "locked by another process") || !strings.Contains(msg, n.dir) {
		t.Errorf("it says %q", msg)
	}
	if out := second.p.Stdout.String(); out != "" {
		t.Errorf("standard output has %q", out)
	}
	n.alive()
	n.stop()
	second.start() // and now it may
	second.stop()
}

// TestExitCodes: 2 for what the user wrote, 1 for what the world refused, with a
// message that names it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	other := filepath.Join(t.TempDir(), "other")
	tests := []struct {
		what string
		args []string
		exit int
		says []string
	}{
		{"bad value", []string{"serve", "--data-dir", other, "--set", "num.partitions=0"}, 2, []string{"num.partitions", `"0"`, "≥ 1"}},
		{"not a number", []string{"serve", "--data-dir", other, "--set", "message.max.bytes=big"}, 2, []string{"message.max.bytes", `"big"`, "number"}},
		{"not a choice", []string{"serve", "--data-dir", other, "--set", "compression.type=brotli"}, 2, []string{"compression.type", `"brotli"`, "zstd"}},
		{"unknown flag", []string{"serve", "--no-such-flag"}, 2, []string{"--no-such-flag"}},
		{"unknown command", []string{"serv"}, 2, []string{"serv"}},
		{"surplus argument", []string{"serve", "now"}, 2, []string{"now"}},
		{"no such file", []string{"serve", "--config", filepath.Join(other, "none.properties")}, 2, []string{"none.properties"}},
		{"comma", []string{"serve", "--data-dir", other + ",x"}, 2, []string{"--data-dir", "comma"}},
		{"port taken", []string{"serve", "--listen", n.addr, "--data-dir", other}, 1, []string{n.addr, "in use"}},
		{"no such address", []string{"serve", "--listen", "203.0.113.9:1", "--data-dir", other}, 1, []string{"203.0.113.9"}},
		{"directory is a file", []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", program}, 1, []string{program}},
		{"no broker there", []string{"topic", "list", "--bootstrap-server", "127.0.0.1:1"}, 1, nil},
		{"version", []string{"version"}, 0, nil},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		r, err := proc.Run(ctx, nil, append([]string{program}, tt.args...)...)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		if r.Exit != tt.exit {
			t.Errorf("%s: exit code %d, want %d: %s", tt.what, r.Exit, tt.exit, r.All())
		}
		if lines := strings.Count(r.Stderr, "\n"); tt.exit == 2 && (lines == 0 || lines > 3) {
			t.Errorf("%s: a message of %d lines: %s", tt.what, lines, r.Stderr)
		}
		for _, want := range tt.says {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("%s: the message does not name %s: %s", tt.what, want, r.Stderr)
			}
		}
	}
	n.stop()
	n.set = []string{"cluster.id=AAAAAAAAAAAAAAAAAAAAAA"}
	n.launch()
	if code := n.exit(20 * time.Second); code != 1 || !strings.Contains(n.p.Stderr.String(), "AAAAAAAAAAAAAAAAAAAAAA") {
		t.Errorf("foreign cluster id: exit code %d: %s", code, n.p.Stderr.String())
	}
	n.set = []string{"node.id=7"}
	n.launch()
	if code := n.exit(20 * time.Second); code != 1 || !strings.Contains(n.p.Stderr.String(), "node") {
		t.Errorf("foreign node id: exit code %d: %s", code, n.p.Stderr.String())
	}
	n.set = nil
	n.start() // nothing was harmed
}
