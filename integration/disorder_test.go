package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestBatchesOutOfOrder: a segment ends with bytes of an earlier batch again. Kafka
// would drop the whole segment for that, or not start at all. Here the broker is up,
// the records before are kept exact, and the rest comes out by "log salvage". The
// variants are those of the test of the same name in partition/host.
func TestBatchesOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		power   bool
		noIndex bool
		set     string
		codec   compress.Codec
	}{
		{"killed", false, false, "index.interval.bytes=0", compress.None},
		{"stopped without an index", false, true, "index.interval.bytes=0", compress.None},
		{"power and gzip", true, true, "index.interval.bytes=4096", compress.Gzip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.start()
			n.topic("disorder", 1, tt.set)
			n.topic("good", 1)
			cl := n.client()
			defer cl.Close()
			bad, good := tp{"disorder", 0}, tp{"good", 0}
			for i := range 3 {
				b := record.NewBuilder(record.Options{Codec: tt.codec})
				for j := range 10 {
					b.Append(1_700_000_000_000, nil, stamp{1, int64(i*10 + j)}.value(300))
				}
				if _, code, err := n.produceOnce(cl, bad, b.Build()); err != nil || code != 0 {
					t.Fatal(code, err)
				}
				if _, code, err := n.produceOnce(cl, good, batch(10, 300)); err != nil || code != 0 {
					t.Fatal(code, err)
				}
			}
			if tt.noIndex && !tt.power {
				n.stop()
			} else {
				n.p.Kill()
			}
			dir := n.partitionDir("disorder", 0)
			segment := filepath.Join(dir, "00000000000000000000.log")
			whole := n.repeatSecondBatch(segment)
			if tt.noIndex {
				_ = os.Remove(strings.TrimSuffix(segment, ".log") + ".index")
			}
			if tt.power {
				(&member{node: n}).losePower()
				if err := os.Remove(filepath.Join(filepath.Dir(dir), "recovery-point-offset-checkpoint")); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			n.start()
			cl = n.client()
			defer cl.Close()
			if offset, code, err := n.produceOnce(cl, good, batch(1, 300)); err != nil || code != 0 || offset != 30 {
				t.Errorf("the other partition: offset %d, code %d, %v", offset, code, err)
			}
			offset, code, err := n.produceOnce(cl, bad, batch(1, 300))
			end := int64(30)
			if tt.power {
				if end++; err != nil || code != 0 || offset != 30 {
					t.Errorf("offset %d, code %d, %v", offset, code, err)
				}
				list, _, err := receipt.Read(osfs.New(), filepath.Join(n.dir, "kept"))
				if err != nil || len(list) != 1 || list[0].Cause != receipt.CrashTail || list[0].Kept == "" {
					t.Errorf("receipts %+v, %v", list, err)
				}
			} else if err != nil || code != 56 {
				t.Errorf("code %d, %v, want KAFKA_STORAGE_ERROR", code, err)
			}
			n.stop()
			out := filepath.Join(t.TempDir(), "disorder-0")
			said, err := exec.Command(program, "log", "salvage", "--out", out, dir).CombinedOutput()
			if exit, lost := err.(*exec.ExitError); err != nil && (!lost || exit.ExitCode() != 1) {
				t.Fatalf("salvage: %v\n%s", err, said)
			}
			l, _, err := log.Open(log.Options{FS: osfs.New(), Dir: out, Stop: log.StopPower})
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			var got []byte
			if err := l.View().Batches(0, nil, func(b record.Batch) error { got = append(got, b...); return b.CheckCRC() }); err != nil {
				t.Fatal(err)
			}
			if l.LogEnd() != model.Offset(end) || !strings.HasPrefix(string(got), string(whole)) {
				t.Errorf("the salvaged log ends at %d, want %d\n%s", l.LogEnd(), end, said)
			}
		})
	}
}

// repeatSecondBatch appends the second batch of a segment to it once more, and returns
// what was there.
func (n *node) repeatSecondBatch(segment string) []byte {
	n.t.Helper()
	b, err := os.ReadFile(segment)
	if err != nil {
		n.t.Fatal(err)
	}
	first := record.SizeOf(b)
	second := b[first : first+record.SizeOf(b[first:])]
	if err := os.WriteFile(segment, append(b[:len(b):len(b)], second...), 0o644); err != nil {
		n.t.Fatal(err)
	}
	return b
}
