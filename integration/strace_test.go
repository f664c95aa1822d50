package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// needStrace ends the test where system calls can't be tampered with.
func needStrace(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		needRoot(t, "no strace (apt-get install strace)")
	}
	if out, err := exec.Command(path, "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "true").CombinedOutput(); err != nil {
		needRoot(t, "strace can't trace here: %v: %s", err, out)
	}
}

// straced wraps a program so that its calls of these names on this file get the
// injection. The program stays our child; the tracer is its grandchild.
func straced(t *testing.T, calls, injection, file string) []string {
	t.Helper()
	return []string{"strace", "-D", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "strace"),
		"-P", file, "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + injection}
}

// TestFailingWriteTakesOnePartition: EIO on a partition's segment is that
// partition's matter: KAFKA_STORAGE_ERROR there, everything else serves, and
// after a start on a disk that works nothing acknowledged is missing.
func TestFailingWriteTakesOnePartition(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, tt := range []struct{ name, calls, injection string }{
		{"write", "pwrite64", "error=EIO:when=4+"},
		{"write once", "pwrite64", "error=EIO:when=4"},
		{"flush", "fdatasync,fsync", "error=EIO:when=4+"},
		{"flush once", "fdatasync,fsync", "error=EIO:when=4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.start()
			n.topic("bad", 2, "flush.messages=1")
			n.topic("good", 1, "flush.messages=1")
			n.stop()
			n.wrap = straced(t, tt.calls, tt.injection, filepath.Join(n.partitionDir("bad", 0), "00000000000000000000.log"))
			n.start()
			cl := n.client()
			defer cl.Close()
			acked, refused, others := int64(0), 0, int64(0)
			// The tracer counts the calls of each thread for itself, and which of them
			// flushes is chance: it may take some until one comes to its fourth.
			for i := 0; i < 12 || refused == 0 && i < 200; i++ {
				offset, code, err := n.produceOnce(cl, tp{"bad", 0}, batch(1, 300))
				if err != nil {
					t.Fatal(err)
				}
				switch code {
				case 0:
					if offset != acked {
						t.Fatalf("offset %d, want %d", offset, acked)
					}
					if refused > 0 && strings.HasPrefix(tt.name, "flush") {
						t.Errorf("a write was acknowledged behind a failed flush")
					}
					acked++
				case 56:
					refused++
				default:
					t.Fatalf("code %d, want KAFKA_STORAGE_ERROR", code)
				}
				for _, p := range []tp{{"bad", 1}, {"good", 0}} {
					if _, code, err := n.produceOnce(cl, p, batch(1, 300)); err != nil || code != 0 {
						t.Fatalf("%v: code %d, %v", p, code, err)
					}
				}
				others++
			}
			if acked < 3 || refused == 0 {
				t.Fatalf("%d acknowledged and %d refused: the fault did not strike", acked, refused)
			}
			n.alive()
			n.wrap = nil
			n.p.Kill()
			n.start()
			cl = n.client()
			defer cl.Close()
			if end := n.end(cl, tp{"bad", 0}); end < acked {
				t.Errorf("the log ends at %d, %d were acknowledged", end, acked)
			}
			if _, code, err := n.produceOnce(cl, tp{"bad", 0}, batch(1, 300)); err != nil || code != 0 {
				t.Errorf("after a start on a disk that works: code %d, %v", code, err)
			}
			for _, p := range []tp{{"bad", 1}, {"good", 0}} {
				if end := n.end(cl, p); end != others {
					t.Errorf("%v ends at %d, want %d", p, end, others)
				}
			}
		})
	}
}

// hashes returns a digest of every file of a directory.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		out[e.Name()] = hex.EncodeToString(sum[:8])
	}
	return out
}

// TestDamageTakesOnePartition: bytes changed between two runs are no torn end.
// That partition is offline with its files as they were found; the broker
// starts and serves the others.
func TestDamageTakesOnePartition(t *testing.T) {
	t.Parallel()
	flip := func(t *testing.T, path string, pos int64) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, pos); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x40
		if _, err := f.WriteAt(b, pos); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		kill   bool
		damage func(t *testing.T, segs []string)
	}{
		{"sealed segment cut short then clean stop", false, func(t *testing.T, segs []string) {
			if err := os.Truncate(segs[0], 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"sealed segment cut short then kill", true, func(t *testing.T, segs []string) {
			if err := os.Truncate(segs[0], 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"sealed segment missing", true, func(t *testing.T, segs []string) {
			if err := os.Remove(segs[1]); err != nil {
				t.Fatal(err)
			}
		}},
		{"payload of the last segment then kill", true, func(t *testing.T, segs []string) { flip(t, segs[len(segs)-1], 300) }},
		{"length field of the last segment then kill", true, func(t *testing.T, segs []string) { flip(t, segs[len(segs)-1], 9) }},
		{"payload of a sealed segment then kill", true, func(t *testing.T, segs []string) { flip(t, segs[0], 300) }},
		{"base offset of a sealed segment then kill", true, func(t *testing.T, segs []string) { flip(t, segs[0], 1047*100) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.start()
			n.topic("damaged", 2, "segment.bytes=1048576")
			n.topic("good", 1)
			cl := n.client()
			defer cl.Close()
			for range 35 {
				for _, p := range []tp{{"damaged", 0}, {"damaged", 1}, {"good", 0}} {
					if _, code, err := n.produceOnce(cl, p, batch(10, 10_000)); err != nil || code != 0 {
						t.Fatal(code, err)
					}
				}
			}
			if tt.kill {
				n.p.Kill()
			} else {
				n.stop()
			}
			dir := n.partitionDir("damaged", 0)
			segs := segments(t, dir)
			if len(segs) < 3 {
				t.Fatalf("%d segments", len(segs))
			}
			tt.damage(t, segs)
			before := hashes(t, dir)
			n.start()
			cl = n.client()
			defer cl.Close()
			_, code, err := n.produceOnce(cl, tp{"damaged", 0}, batch(1, 100))
			if err != nil || code != 56 {
				t.Errorf("produce to the damaged partition: code %d, %v; want KAFKA_STORAGE_ERROR", code, err)
			}
			for _, p := range []tp{{"damaged", 1}, {"good", 0}} {
				if offset, code, err := n.produceOnce(cl, p, batch(1, 100)); err != nil || code != 0 || offset != 350 {
					t.Errorf("%v: offset %d code %d, %v", p, offset, code, err)
				}
				if bytes, code, err := n.fetchOnce(cl, p, 0, 1<<20); err != nil || code != 0 || bytes == 0 {
					t.Errorf("%v: %d bytes code %d, %v", p, bytes, code, err)
				}
			}
			if said := n.p.Stderr.String(); !strings.Contains(said, "damaged-0") || !strings.Contains(said, "ERROR") {
				t.Errorf("no word about the damage:\n%s", said)
			}
			n.stop()
			after := hashes(t, dir)
			for name, sum := range before {
				if after[name] != sum {
					t.Errorf("%s was touched", name)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d files, %d before", len(after), len(before))
			}
		})
	}
}

// TestFailingMetadataDiskEndsTheBroker: a controller that can't write its log
// decides nothing any more. The process says so and ends with 1, and starts
// again with everything once the disk works.
func TestFailingMetadataDiskEndsTheBroker(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, tt := range []struct{ name, calls string }{{"write", "pwrite64"}, {"flush", "fdatasync,fsync"}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.start()
			n.topic("before", 1)
			cl := n.client()
			if _, code, err := n.produceOnce(cl, tp{"before", 0}, batch(7, 100)); err != nil || code != 0 {
				t.Fatal(code, err)
			}
			cl.Close()
			n.stop()
			n.start() // finds which file is written now
			segment := lastSegment(t, n.partitionDir("__cluster_metadata", 0))
			n.p.Kill()
			n.wrap = straced(t, tt.calls, "error=EIO:when=6+", segment)
			n.launch()
			for i := 0; !n.p.Ended(); i++ {
				if i > 3000 {
					t.Fatal("the broker goes on with a metadata log that can't be written")
				}
				if !n.ready() {
					pause(10 * time.Millisecond)
					continue
				}
				cl := n.client(kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
				req := kmsg.NewPtrCreateTopicsRequest()
				req.TimeoutMillis = 1000
				rt := kmsg.NewCreateTopicsRequestTopic()
				rt.Topic, rt.NumPartitions, rt.ReplicationFactor = fmt.Sprintf("made-%d", i), 1, 1
				req.Topics = append(req.Topics, rt)
				_, _ = n.ask(cl, req) // an error or none: the process is what counts
				cl.Close()
			}
			if code := n.exit(20 * time.Second); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if said := n.p.Stderr.String(); !strings.Contains(said, "input/output error") {
				t.Errorf("it does not say why:\n%s", said)
			}
			n.wrap = nil
			n.start()
			cl = n.client()
			defer cl.Close()
			if end := n.end(cl, tp{"before", 0}); end != 7 {
				t.Errorf("the log ends at %d, want 7", end)
			}
			n.topic("after", 1)
		})
	}
}

// TestFailingCheckpointsCostNothing: the small files are hints. A disk that
// refuses to write them is told of, and that is all.
func TestFailingCheckpointsCostNothing(t *testing.T) {
	t.Parallel()
	needStrace(t)
	n := newNode(t, "replica.high.watermark.checkpoint.interval.ms=100", "log.flush.offset.checkpoint.interval.ms=100", "log.flush.start.offset.checkpoint.interval.ms=100")
	n.start()
	n.topic("kept", 2)
	n.stop()
	n.wrap = []string{"strace", "-D", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "strace")}
	for _, name := range []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"} {
		for _, tmp := range []string{"", ".tmp"} {
			n.wrap = append(n.wrap, "-P", filepath.Join(n.dir, "log", name+tmp))
		}
	}
	n.wrap = append(n.wrap, "-e", "trace=pwrite64,fsync,rename,renameat", "-e", "inject=pwrite64,fsync,rename,renameat:error=EIO:when=20+")
	n.start()
	cl := n.client()
	defer func() { cl.Close() }()
	acked := int64(0)
	for range 40 {
		for i := range int32(2) {
			if _, code, err := n.produceOnce(cl, tp{"kept", i}, batch(1, 100)); err != nil || code != 0 {
				t.Fatalf("code %d, %v\n%s", code, err, n.p.Stderr.String())
			}
		}
		acked++
		pause(15 * time.Millisecond)
	}
	n.alive()
	n.p.Kill()
	n.wrap = nil
	n.start()
	cl.Close()
	cl = n.client()
	for i := range int32(2) {
		if end := n.end(cl, tp{"kept", i}); end != acked {
			t.Errorf("partition %d ends at %d, want %d", i, end, acked)
		}
	}
}
