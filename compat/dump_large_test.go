//go:build compat

package compat_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// ways are those in which the records of a directory are compressed, and how
// many of a hundred bytes come that way.
func ways() map[string]struct {
	codec kgo.CompressionCodec
	share int
} {
	type way = struct {
		codec kgo.CompressionCodec
		share int
	}
	return map[string]way{
		"none": {kgo.NoCompression(), 40}, "gzip": {kgo.GzipCompression(), 5}, "snappy": {kgo.SnappyCompression(), 20},
		"lz4": {kgo.Lz4Compression(), 25}, "zstd": {kgo.ZstdCompression(), 10},
	}
}

// fillRound writes one round of a directory: some bytes of each codec, by idempotent
// producers and a plain one, with keys that come again, and commits of a group.
// It returns the bytes that went to the compacted topic.
func fillRound(t *testing.T, n *target.Node, round, bytesOfAll int) (keyed int64) {
	t.Helper()
	noise := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(uint64(round), 7))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for name, way := range ways() {
		opts := []kgo.Opt{kgo.ProducerBatchCompression(way.codec), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedBytes(64 << 20)}
		if round%3 == 2 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		cl := client(t, n, opts...)
		for left := bytesOfAll / 100 * way.share; left > 0; {
			size := 1 << rng.IntN(15)
			at := rng.IntN(len(noise) - size)
			value := slices.Concat(noise[at:at+size], bytes.Repeat([]byte{byte(size)}, size/8))
			r := &kgo.Record{Topic: "large-" + name, Key: fmt.Appendf(nil, "%d", rng.IntN(2000)), Value: value}
			if rng.IntN(4) == 0 {
				r.Topic = "large-compacted"
				keyed += int64(size)
			}
			if rng.IntN(8) == 0 {
				r.Headers = []kgo.RecordHeader{{Key: "header", Value: noise[:at%30]}}
			}
			left -= len(value)
			cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for o := range int64(20) {
			offsets := kadm.Offsets{}
			offsets.AddOffset("large-"+name, 0, o, -1)
			if _, err := kadm.NewClient(cl).CommitOffsets(t.Context(), "reader", offsets); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
	}
	return keyed
}

// dumpable lists the files below a log directory that Kafka's tool can dump, and
// their bytes. It fails on indexes without entries.
func dumpable(t *testing.T, dir string) (files []string, total int64) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*-[0-9]*", "0*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if strings.Contains(path, "__cluster_metadata") {
			continue // in records of our own
		}
		switch filepath.Ext(path) {
		case ".index", ".timeindex":
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.Trim(b, "\x00")) == 0 {
				continue
			}
		case ".log", ".snapshot", ".txnindex":
		default:
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		files, total = append(files, path), total+info.Size()
	}
	slices.Sort(files)
	return files, total
}

var optionalLong = regexp.MustCompile(`OptionalLong\[(-?\d+)\]`)

// sameDump has both tools print files and compares what they say, line by line.
// Remarks of ours that Kafka's has no words for are left out.
func sameDump(t *testing.T, files []string) (lines int) {
	t.Helper()
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	began := time.Now()
	theirs, err := jars.Run(ctx, nil, kafka.DumpLog, "--deep-iteration", "--files", strings.Join(files, ","))
	if err != nil || theirs.Exit != 0 {
		t.Fatalf("Kafka's tool: exit %d, %v\n%s", theirs.Exit, err, proc.Tail(theirs.Stderr, 20))
	}
	middle := time.Now()
	ours, err := proc.Run(ctx, nil, append([]string{binary, "log", "dump", "--deep"}, files...)...)
	if err != nil || ours.Exit != 0 {
		t.Fatalf("our tool: exit %d, %v\n%s", ours.Exit, err, proc.Tail(ours.All(), 20))
	}
	t.Logf("Kafka's tool took %s, ours %s", middle.Sub(began).Round(time.Second), time.Since(middle).Round(time.Second))
	want := strings.ReplaceAll(optionalLong.ReplaceAllString(theirs.Stdout, "$1"), "OptionalLong.empty", "none")
	var got []string
	for line := range strings.Lines(ours.Stdout) {
		if !strings.HasPrefix(line, "! ") && !strings.HasPrefix(line, "~ ") {
			got = append(got, line)
		}
	}
	differ := 0
	for line := range strings.Lines(want) {
		if lines >= len(got) || got[lines] != line {
			mine := "(end)\n"
			if lines < len(got) {
				mine = got[lines]
			}
			t.Errorf("line %d:\nours  %sKafka %s", lines+1, mine, line)
			if differ++; differ == 5 {
				t.FailNow()
			}
		}
		lines++
	}
	if lines != len(got) {
		t.Errorf("ours has %d lines, Kafka's %d", len(got), lines)
	}
	return lines
}

// Kafka's dump tool and ours say the same of each file of a gigabyte (a few megabytes
// in the short form): every codec, idempotent producers and plain ones, a compacted
// topic, offsets of a group, several leader epochs, stops in order and by kill -9.
func TestLargeDirectoryIsDumpedAlike(t *testing.T) {
	size, rounds, long := 24<<20, 3, os.Getenv("TIDEMARK_TEST_LONG") != ""
	if long {
		size, rounds = 1600<<20, 6
	}
	n := startNode(t, "offsets.topic.num.partitions=1", "log.cleaner.backoff.ms=1000", "log.cleaner.min.cleanable.ratio=0.1", "log.roll.ms=20000")
	adm := kadm.NewClient(client(t, n))
	segment, interval, compact, dirty := fmt.Sprint(max(size/64, 1<<20)), "4096", "compact", "0.05"
	for name := range ways() {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, map[string]*string{"segment.bytes": &segment, "index.interval.bytes": &interval}, "large-"+name); err != nil {
			t.Fatal(err)
		}
	}
	cleaned := map[string]*string{"segment.bytes": &segment, "cleanup.policy": &compact, "min.cleanable.dirty.ratio": &dirty}
	if _, err := adm.CreateTopic(t.Context(), 2, 1, cleaned, "large-compacted"); err != nil {
		t.Fatal(err)
	}
	keyed := int64(0)
	for round := range rounds {
		keyed += fillRound(t, n, round, size/rounds)
		if round < rounds-1 {
			restart(t, n, round%2 == 0)
		}
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	files, total := dumpable(t, n.LogDir)
	if total < int64(size)/3*2 {
		t.Errorf("%d bytes in %d files: too little to say much", total, len(files))
	}
	left := int64(0)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && strings.Contains(f, "large-compacted") {
			left += info.Size()
		}
	}
	if left > keyed/2 && long {
		t.Errorf("of %d bytes with keys %d are left: little was compacted", keyed, left)
	}
	lines := sameDump(t, files)
	t.Logf("%d files of %d MiB, %d lines alike; %d of %d MiB with keys are left", len(files), total>>20, lines, left>>20, keyed>>20)
}
