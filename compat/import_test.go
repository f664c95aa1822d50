//go:build compat

package compat_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
)

const importedRecords = 20_000

// A Kafka broker is killed with -9; `tidemark serve --import` of its directory
// serves every record that it had acknowledged, with the topics' ids, settings
// and numbers of partitions, and the groups' offsets. What it left is not changed.
func TestImportOfAKilledKafka(t *testing.T) {
	if target.IsKafka() {
		t.Skip("asks what another broker makes of Kafka's directory")
	}
	old, ids := killedKafka(t)
	before := listing(t, old)
	dir := t.TempDir()
	n, err := target.New(binary, filepath.Join(dir, "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Flags = []string{"--import", old}
	t.Cleanup(n.Kill)
	for _, when := range []string{"at once", "after a restart with the same command"} {
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		adm := kadm.NewClient(client(t, n))
		checkImported(t, when, adm, ids)
		for i, got := range consumeAll(t, n, "events") {
			if want := fmt.Sprint(i); string(got.Value) != want {
				t.Fatalf("%s: record %d is %q", when, i, got.Value)
			}
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if after := listing(t, old); after != before {
		t.Errorf("the directory of the dead broker has changed:\n%s\nbefore:\n%s", after, before)
	}
	r, err := proc.Run(t.Context(), nil, binary, "serve", "--data-dir", filepath.Join(dir, "data"), "--import", dir)
	if err != nil || r.Exit != 1 || !strings.Contains(r.All(), "in use already") {
		t.Errorf("an import into a used directory: exit %d, %v\n%s", r.Exit, err, r.All())
	}
}

// killedKafka returns the log directory of a Kafka broker that was killed after it
// had acknowledged records, settings and offsets.
func killedKafka(t *testing.T) (dir string, ids map[string]kadm.TopicID) {
	t.Helper()
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	port, err := proc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := jars.Start(ctx, kafka.Options{Dir: t.TempDir(), Port: port, HeapMiB: 400})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	if held, err := osfs.New().Locked(filepath.Join(b.LogDir, ".lock")); err != nil || !held {
		t.Errorf("the directory of a running Kafka: locked %v, %v", held, err)
	}
	if _, err := osfs.New().Lock(filepath.Join(b.LogDir, ".lock")); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("lock of the directory of a running Kafka: %v", err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic("events"), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	segment, forever, compact := "1048576", "999999999", "compact"
	for topic, configs := range map[string]map[string]*string{
		"events": {"segment.bytes": &segment, "retention.ms": &forever}, "table": {"cleanup.policy": &compact}, "deleted": nil,
	} {
		if _, err := adm.CreateTopic(ctx, map[string]int32{"events": 1, "table": 3, "deleted": 1}[topic], 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := adm.DeleteTopic(ctx, "deleted"); err != nil {
		t.Fatal(err)
	}
	for i := range importedRecords {
		cl.Produce(ctx, &kgo.Record{Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("events", 0, 1234, 0)
	if err := adm.CommitAllOffsets(ctx, "readers", offsets); err != nil {
		t.Fatal(err)
	}
	details, err := adm.ListTopics(ctx, "events", "table")
	if err != nil {
		t.Fatal(err)
	}
	ids = map[string]kadm.TopicID{}
	for name, d := range details {
		ids[name] = d.ID
	}
	return b.LogDir, ids
}

// checkImported compares topics, settings and offsets with what Kafka had.
func checkImported(t *testing.T, when string, adm *kadm.Client, ids map[string]kadm.TopicID) {
	t.Helper()
	topics, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(topics) != 2 || topics["events"].ID != ids["events"] || topics["table"].ID != ids["table"] ||
		len(topics["events"].Partitions) != 1 || len(topics["table"].Partitions) != 3 {
		t.Errorf("%s: topics %v, want events with 1 and table with 3 partitions, ids %v", when, topics, ids)
	}
	configs, err := adm.DescribeTopicConfigs(t.Context(), "events", "table")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range configs {
		for _, c := range r.Configs {
			if c.Value != nil {
				got[r.Name+" "+c.Key] = *c.Value
			}
		}
	}
	for key, want := range map[string]string{
		"events segment.bytes": "1048576", "events retention.ms": "999999999", "table cleanup.policy": "compact", "table retention.ms": "604800000",
	} {
		if got[key] != want {
			t.Errorf("%s: %s is %q, want %q", when, key, got[key], want)
		}
	}
	offsets, err := adm.FetchOffsets(t.Context(), "readers")
	if o, ok := offsets.Lookup("events", 0); err != nil || !ok || o.At != 1234 {
		t.Errorf("%s: offsets %v, %v", when, offsets, err)
	}
}

// consumeAll reads the only partition of a topic to its end.
func consumeAll(t *testing.T, n *target.Node, topic string) (got []*kgo.Record) {
	t.Helper()
	cl := client(t, n, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for len(got) < importedRecords {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), importedRecords, err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, r) })
	}
	return got
}

// listing is names, sizes and times of all files in a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
