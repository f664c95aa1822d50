package integration

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// killLoop kills the node at random instants and starts it again, every third
// time killing the new process while it still starts.
func (n *node) killLoop(seed uint64, kills int, upTo time.Duration) (torn int) {
	n.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range kills {
		pause(time.Duration(rng.Int64N(int64(upTo))))
		n.p.Kill()
		torn += strings.Count(n.p.Stderr.String(), "bytes were cut from a log")
		if i%3 == 2 {
			n.launch()
			pause(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
			n.p.Kill()
		}
		n.start()
	}
	torn += strings.Count(n.p.Stderr.String(), "bytes were cut from a log")
	return torn
}

// TestKillNine: whatever instant a process is killed at, what was acknowledged
// is there, once, in order, at its offset.
func TestKillNine(t *testing.T) {
	t.Parallel()
	kills := 15
	if long() {
		kills = 300
	}
	n := newNode(t)
	n.start()
	n.topic("orders", 3)
	n.topic("events", 1, "segment.bytes=1048576") // rolls now and then
	parts := []tp{{"orders", 0}, {"orders", 1}, {"orders", 2}, {"events", 0}}
	seed := uint64(time.Now().UnixNano())
	l := n.load(loadSpec{producers: 3, partitions: parts, size: 200, every: 2 * time.Millisecond, burst: 2})
	torn := n.killLoop(seed, kills, 300*time.Millisecond)
	l.finish()
	records := n.check(l.ledger, parts)
	if int64(records) != l.ledger.sent.Load() {
		t.Errorf("seed %d: %d records in the logs, %d were sent and acknowledged", seed, records, l.ledger.sent.Load())
	}
	t.Logf("seed %d: %d kills, %d records, %d torn ends cut", seed, kills+kills/3, records, torn)
	n.stop()
	n.start() // and after a clean stop
	n.check(l.ledger, parts)
}

// TestKillNineLargeBatches: SIGKILL tears a write of megabytes.
func TestKillNineLargeBatches(t *testing.T) {
	t.Parallel()
	kills, limit := 8, int64(240)
	if long() {
		kills, limit = 60, 2000
	}
	n := newNode(t, "message.max.bytes=9000000", "replica.fetch.max.bytes=9000000")
	n.start()
	n.topic("large", 2)
	parts := []tp{{"large", 0}, {"large", 1}}
	seed := uint64(time.Now().UnixNano())
	l := n.load(loadSpec{producers: 2, partitions: parts, size: 1_040_000, every: 5 * time.Millisecond, burst: 1, limit: limit / 2,
		opts: []kgo.Opt{kgo.ProducerBatchMaxBytes(8 << 20), kgo.BrokerMaxWriteBytes(64 << 20), kgo.ProducerLinger(30 * time.Millisecond), kgo.MaxBufferedBytes(32 << 20)}})
	torn := n.killLoop(seed, kills, 250*time.Millisecond)
	l.wg.Wait()
	l.finish()
	records := n.check(l.ledger, parts)
	if int64(records) != l.ledger.sent.Load() {
		t.Errorf("seed %d: %d records in the logs, %d were sent and acknowledged", seed, records, l.ledger.sent.Load())
	}
	t.Logf("seed %d: %d kills, %d records of 1 MB, %d torn ends cut", seed, kills+kills/3, records, torn)
}

// TestKillWhileRecovering: a start that is killed again and again ends where one
// start would have.
func TestKillWhileRecovering(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("recovers", 4, "segment.bytes=1048576")
	parts := []tp{{"recovers", 0}, {"recovers", 1}, {"recovers", 2}, {"recovers", 3}}
	l := n.load(loadSpec{producers: 2, partitions: parts, size: 2000, every: 2 * time.Millisecond, burst: 4, limit: 8000})
	l.wg.Wait()
	l.finish()
	n.p.Kill()
	// A torn end on top: half a batch behind the last.
	for _, p := range parts[:2] {
		appendTo(t, lastSegment(t, n.partitionDir(p.topic, p.n)), batch(1, 900)[:500])
	}
	killed := 0
	for delay := 4 * time.Millisecond; ; delay += delay / 4 {
		n.launch()
		pause(delay)
		if n.ready() {
			break
		}
		n.p.Kill()
		killed++
	}
	records := n.check(l.ledger, parts)
	if int64(records) != l.ledger.sent.Load() {
		t.Errorf("%d records, want %d", records, l.ledger.sent.Load())
	}
	t.Logf("%d starts killed, %d records", killed, records)
}

// TestTornEndIsCutOnce: the bytes behind the last whole batch leave the file when
// they are found, and are not found again.
func TestTornEndIsCutOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("torn", 1)
	p := tp{"torn", 0}
	write := func(want int64) {
		t.Helper()
		cl := n.client()
		defer cl.Close()
		if offset, code, err := n.produceOnce(cl, p, batch(10, 100)); err != nil || code != 0 || offset != want {
			t.Fatalf("offset %d code %d, %v; want offset %d", offset, code, err, want)
		}
	}
	write(0)
	for i := range int64(3) {
		n.p.Kill()
		torn := lastSegment(t, n.partitionDir("torn", 0))
		info, err := os.Stat(torn)
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, torn, batch(10, 1000)[:5000])
		n.start()
		cuts := func() int { return strings.Count(n.p.Stderr.String(), "bytes were cut from a log") }
		// What a process wrote before its ready line may be read a little later.
		if err := n.p.Until(10*time.Second, func() bool { return cuts() > 0 }); err != nil || cuts() != 1 {
			t.Errorf("start %d: %d cuts, want 1: %v", i, cuts(), err)
		}
		after, err := os.Stat(torn)
		if err != nil {
			t.Fatal(err)
		}
		if after.Size() != info.Size() {
			t.Errorf("start %d: %s has %d bytes, %d before its end was torn", i, filepath.Base(torn), after.Size(), info.Size())
		}
		write(10 * (i + 1))
	}
	n.p.Kill()
	n.start()
	if said := n.p.Stderr.String(); strings.Contains(said, "bytes were cut from a log") {
		t.Errorf("a start that had nothing to cut:\n%s", said)
	}
	write(40)
}

func lastSegment(t *testing.T, dir string) string {
	t.Helper()
	files := segments(t, dir)
	return files[len(files)-1]
}

// segments lists a partition's segment files in order.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	return files
}

func appendTo(t *testing.T, path string, bytes []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes); err != nil {
		t.Fatal(err)
	}
}
