//go:build compat

package compat_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/target"
)

// complaints are what Kafka's dump tool says of files that do not fit together.
// Of every segment but a log's first it also says that -1 is followed by its
// base offset, which is noise.
var complaints = []string{
	"Mismatches in", " is followed by ", "isvalid: false", "invalid bytes", "Found timestamp mismatch", "Found out of order timestamp",
	"Could not find", "Exception", "ERROR", "not found in log",
}

// fillForDump writes enough to several topics that there are many segments,
// index entries and producer snapshots.
func fillForDump(t *testing.T, n *target.Node, round int) {
	t.Helper()
	adm := kadm.NewClient(client(t, n))
	small, interval := "60000", "1000"
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for i, codec := range codecs {
		topic := fmt.Sprintf("dump-%d", i)
		if round == 0 {
			_, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"internal.segment.bytes": &small, "index.interval.bytes": &interval}, topic)
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // producers
			cl := client(t, n, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.MaxBufferedRecords(50))
			for i := range 1000 {
				r := kgo.KeySliceRecord(fmt.Appendf(nil, "%d", i), []byte(strings.Repeat(fmt.Sprint(i*7919), 20)))
				cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := cl.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dumpAll has Kafka's tool read every segment, index and snapshot in dir, and
// returns what it complained of. It also counts the files by kind.
func dumpAll(t *testing.T, dir string) (complaint string, kinds map[string]int) {
	t.Helper()
	var files []string
	kinds = map[string]int{}
	for _, kind := range []string{".log", ".index", ".timeindex", ".snapshot", ".txnindex"} {
		found, err := filepath.Glob(filepath.Join(dir, "dump-*", "*"+kind))
		if err != nil {
			t.Fatal(err)
		}
		files, kinds[kind] = append(files, found...), len(found)
	}
	r := toolResult(t, nil, nil, kafka.DumpLog, "--deep-iteration", "--files", strings.Join(files, ","))
	var bad []string
	if r.Exit != 0 {
		bad = append(bad, fmt.Sprintf("exit %d: %s", r.Exit, r.Stderr))
	}
	for line := range strings.Lines(r.All()) {
		for _, c := range complaints {
			if strings.Contains(line, c) && !strings.HasPrefix(line, "  -1 is followed by ") {
				bad = append(bad, line)
				break
			}
		}
	}
	if len(bad) > 20 {
		bad = append(bad[:20], fmt.Sprintf("and %d more", len(bad)-20))
	}
	return strings.Join(bad, ""), kinds
}

// Kafka's own dump tool finds nothing wrong with what the broker wrote: batches,
// offset and time indexes, producer snapshots.
func TestKafkaDumpsOurFiles(t *testing.T) {
	n := startNode(t)
	fillForDump(t, n, 0)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	bad, kinds := dumpAll(t, n.LogDir)
	if bad != "" {
		t.Errorf("after SIGTERM:\n%s", bad)
	}
	if kinds[".log"] < 10 || kinds[".index"] != kinds[".log"] || kinds[".timeindex"] != kinds[".log"] || kinds[".snapshot"] < 5 {
		t.Errorf("too few files to say much: %v", kinds)
	}
	checkDumpNotices(t, n.LogDir)

	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	fillForDump(t, n, 1)
	restart(t, n, true)
	if bad, _ := dumpAll(t, n.LogDir); bad != "" {
		t.Errorf("after kill -9:\n%s", bad)
	}
	fillForDump(t, n, 2)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if bad, _ := dumpAll(t, n.LogDir); bad != "" {
		t.Errorf("after kill -9, more records and SIGTERM:\n%s", bad)
	}
}

// checkDumpNotices damages a copy, so that a dump that finds nothing means
// something.
func checkDumpNotices(t *testing.T, logDir string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "dump-0")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(logDir, "dump-0-0"))); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(copied, "00000000000000000000")
	index, err := os.ReadFile(first + ".index")
	if err != nil || len(index) < 16 {
		t.Fatalf("index of %d bytes (%v)", len(index), err)
	}
	index[3]++ // the relative offset of the first entry
	data, err := os.ReadFile(first + ".log")
	if err != nil {
		t.Fatal(err)
	}
	data[17]++ // the CRC of the first batch
	for name, b := range map[string][]byte{".index": index, ".log": data} {
		if err := os.WriteFile(first+name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bad, _ := dumpAll(t, filepath.Dir(copied))
	for _, want := range []string{"Mismatches in", "isvalid: false"} {
		if !strings.Contains(bad, want) {
			t.Errorf("the dump of damaged files lacks %q:\n%s", want, bad)
		}
	}
}
