//go:build compat

package compat_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/compat/target"
)

// The broker starts on the log directory of a dead Kafka, stopped in order or
// killed, and serves every record that Kafka served. Kafka's own metadata log is
// not there: topics are found by their directories.
func TestOpensKafkasDirectory(t *testing.T) {
	if target.IsKafka() {
		t.Skip("asks what another broker makes of Kafka's directory")
	}
	for _, name := range []string{"clean", "killed"} {
		t.Run(name, func(t *testing.T) {
			all, err := golden.Partitions(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "data", "log"), os.DirFS(golden.Dir(name))); err != nil {
				t.Fatal(err)
			}
			n := startNodeIn(t, dir)
			for _, when := range []string{"at once", "after a restart"} {
				for _, p := range all {
					checkServed(t, n, fmt.Sprintf("%s, %s-%d", when, p.Topic, p.Partition), p, name == "killed")
				}
				restart(t, n, false)
			}
		})
	}
}

// checkServed compares bounds and committed records with what Kafka said.
func checkServed(t *testing.T, n *target.Node, what string, p golden.Partition, killed bool) {
	t.Helper()
	cl := client(t, n)
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(t.Context(), p.Topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), p.Topic)
	if err != nil {
		t.Fatal(err)
	}
	start, _ := starts.Lookup(p.Topic, p.Partition)
	end, _ := ends.Lookup(p.Topic, p.Partition)
	// Kafka writes the log start down once a minute: a kill brings back what
	// DeleteRecords removed.
	if (start.Offset != p.LogStart && !(killed && start.Offset == 0)) || end.Offset != p.LogEnd {
		t.Errorf("%s: from %d to %d, want %d to %d", what, start.Offset, end.Offset, p.LogStart, p.LogEnd)
	}
	for _, committed := range []bool{false, true} {
		checkRead(t, n, fmt.Sprintf("%s, committed %v", what, committed), p, committed)
	}
}

// checkRead reads a partition with one isolation level.
func checkRead(t *testing.T, n *target.Node, what string, p golden.Partition, committed bool) {
	t.Helper()
	var want []golden.Record
	for _, r := range p.Records {
		if !r.Control && (!committed || !r.Aborted && r.Offset < p.LastStable) {
			want = append(want, r)
		}
	}
	if len(want) == 0 {
		return
	}
	got := readPartition(t, n, p, want[len(want)-1].Offset, committed)
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Offset != w.Offset || g.Timestamp.UnixMilli() != w.Timestamp || g.LeaderEpoch != w.LeaderEpoch || g.ProducerID != w.ProducerID ||
			!same(g.Key, w.Key) || !same(g.Value, w.Value) || len(g.Headers) != len(w.Headers) {
			t.Fatalf("%s: record %d\n got %+v\nwant %+v", what, i, g, w)
		}
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// readPartition reads from the partition's start up to the offset last.
func readPartition(t *testing.T, n *target.Node, p golden.Partition, last int64, committed bool) []*kgo.Record {
	t.Helper()
	isolation := kgo.ReadUncommitted()
	if committed {
		isolation = kgo.ReadCommitted()
	}
	cl := client(t, n, kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Partition: kgo.NewOffset().At(p.LogStart)}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []*kgo.Record
	for len(got) == 0 || got[len(got)-1].Offset < last {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s-%d, committed %v: %v after %d records, want up to %d", p.Topic, p.Partition, committed, err, len(got), last)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, r) })
	}
	return got
}
