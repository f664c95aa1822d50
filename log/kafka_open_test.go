//go:build compat

package log_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// Apache Kafka opens a directory that we wrote, after a clean stop and after a
// kill, and serves every record of it.
func TestKafkaOpensOurDirectory(t *testing.T) {
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean %v", clean), func(t *testing.T) { kafkaOpens(t, jars, clean, false) })
	}
	t.Run("compacted", func(t *testing.T) { kafkaOpens(t, jars, true, true) })
}

func kafkaOpens(t *testing.T, jars kafka.Jars, clean, compacted bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := kafka.Options{Dir: t.TempDir(), Port: 21800 + 2*(os.Getpid()%2000), HeapMiB: 400}
	b, err := jars.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := jars.Run(ctx, nil, kafka.Topics, "--bootstrap-server", b.Addr, "--create", "--topic", "ours", "--partitions", "1", "--replication-factor", "1")
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("create topic: exit %d\n%s", r.Exit, r.All())
	}
	if err != nil {
		b.Kill()
		t.Fatal(err)
	}
	if err := b.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	want := putOurs(t, filepath.Join(b.LogDir, "ours-0"), clean, compacted)
	if !clean {
		if err := os.Remove(filepath.Join(b.LogDir, ".kafka_cleanshutdown")); err != nil {
			t.Fatal(err)
		}
	}
	if b, err = jars.Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics("ours"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []string
	for len(got) < len(want) {
		f := client.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), len(want), err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, fmt.Sprintf("%d %s", r.Offset, r.Value)) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d; first %v, want %v", len(got), len(want), got[:2], want[:2])
	}
}

// putOurs writes a log of several segments, codecs and transactions in place of
// Kafka's, compacted if so wished, and returns what a reader of committed records
// gets.
func putOurs(t *testing.T, dir string, clean, compacted bool) (want []string) {
	r := newRig(t)
	r.o.Config = log.Config{SegmentBytes: 8_000, IndexIntervalBytes: 1000}
	r.start(log.StopClean, 0)
	open := false
	for i := range 200 {
		s := logtest.Spec{Base: r.l.LogEnd(), Records: 1 + i%5, ValueSize: 40 + i, Timestamp: model.Timestamp(1_700_000_000_000 + i), Codec: compress.Codec(i % 5)}
		hidden := false
		if compacted {
			s.Keys = 60
		}
		switch {
		case i%20 < 3:
			s.Producer, s.Txn, s.Sequence, s.Records, open = 4000, true, model.Sequence(i/20*3+i%20), 1, true
			hidden = i%40 < 20
		case i%20 == 5 && open:
			s.Producer, s.Txn, open, hidden = 4000, true, false, true
			s.Marker = map[bool]string{true: "abort", false: "commit"}[i%40 < 20]
			s.Codec = compress.None
		}
		batch := logtest.Batch(s)
		r.append(batch)
		if !hidden {
			r.must(batch.Each(0, func(x *record.Record) error {
				want = append(want, fmt.Sprintf("%d %s", x.Offset, x.Value))
				return nil
			}))
		}
	}
	if compacted {
		want = compactForKafka(r)
	}
	if clean {
		r.must(r.l.Close(true))
	}
	old, err := os.ReadDir(dir)
	r.must(err)
	for _, f := range old {
		if f.Name() != "partition.metadata" {
			r.must(os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	names, err := r.mem.List(testDir)
	r.must(err)
	segments := 0
	for _, name := range names {
		b, err := vfs.ReadFile(r.mem, filepath.Join(testDir, name))
		r.must(err)
		r.must(os.WriteFile(filepath.Join(dir, name), b, 0o644))
		if strings.HasSuffix(name, ".log") {
			segments++
		}
	}
	if segments < 3 {
		t.Fatalf("only %d segments", segments)
	}
	return want
}
