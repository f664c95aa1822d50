//go:build compat

package compat_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/target"
)

// consumeFrom reads partition 0 of a topic from an offset to the end that the
// broker names, and checks that offsets rise by one.
func consumeFrom(t *testing.T, n *target.Node, topic string, from kgo.Offset, end int64) []*kgo.Record {
	t.Helper()
	cl := client(t, n, kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: from}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var got []*kgo.Record
	for len(got) == 0 || got[len(got)-1].Offset < end-1 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s: %v after %d records", topic, err, len(got))
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, r) })
	}
	for i, r := range got {
		if r.Offset != got[0].Offset+int64(i) {
			t.Fatalf("%s: offset %d follows %d", topic, r.Offset, got[i-1].Offset)
		}
	}
	return got
}

// franz-go produces idempotently by default; records come back from the start,
// an offset, the end and a timestamp, across a restart of each kind.
func TestKgoProduceConsume(t *testing.T) {
	n := startNode(t)
	const total = 20_000
	base := time.Now().Add(-30 * time.Minute).Truncate(time.Millisecond)
	produce := func(from, to int) {
		cl := client(t, n, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("kgo"), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
		for i := from; i < to; i++ {
			r := kgo.KeySliceRecord(fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i))
			r.Timestamp = base.Add(time.Duration(i) * time.Millisecond)
			r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}}
			cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("record %d: %v", i, err)
				}
			})
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, from kgo.Offset, first int64, end int64) {
		got := consumeFrom(t, n, "kgo", from, end)
		if got[0].Offset != first || len(got) != int(end-first) {
			t.Fatalf("%s: %d records from %d, want %d from %d", when, len(got), got[0].Offset, end-first, first)
		}
		for _, r := range got {
			i := r.Offset
			if string(r.Key) != fmt.Sprintf("key %d", i) || string(r.Value) != fmt.Sprintf("value %d", i) ||
				!r.Timestamp.Equal(base.Add(time.Duration(i)*time.Millisecond)) || string(r.Headers[0].Value) != fmt.Sprint(i) || r.ProducerID < 0 {
				t.Fatalf("%s: record %d is %v", when, i, r)
			}
		}
	}
	produce(0, total/2)
	restart(t, n, false)
	produce(total/2, total)
	for _, when := range []string{"at once", "after kill -9"} {
		check(when+", from the start", kgo.NewOffset().AtStart(), 0, total)
		check(when+", from an offset", kgo.NewOffset().At(12_345), 12_345, total)
		check(when+", from before the end", kgo.NewOffset().AtEnd().Relative(-7), total-7, total)
		check(when+", from a time", kgo.NewOffset().AfterMilli(base.UnixMilli()+777), 777, total)
		if when == "at once" {
			restart(t, n, true)
		}
	}
}

// A fetch beyond either end is told so, and a consumer that resets goes on.
func TestKgoOutOfRange(t *testing.T) {
	n := startNode(t)
	cl := client(t, n, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("range"))
	for i := range 5 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	strict := client(t, n, kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"range": {0: kgo.NewOffset().At(99)}}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := strict.PollFetches(ctx).Err(); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("a fetch at 99 of 5: %v", err)
	}
	if got := consumeFrom(t, n, "range", kgo.NewOffset().At(99), 5); got[0].Offset != 0 && got[0].Offset != 4 {
		t.Errorf("the reset led to %d", got[0].Offset)
	}
}

// The admin requests that tests and small services make, by franz-go.
func TestKgoAdmin(t *testing.T) {
	n := startNode(t)
	adm := kadm.NewClient(client(t, n))
	ctx := t.Context()
	value := "60000"
	if _, err := adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &value}, "admin"); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "admin"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("create twice: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "no spaces"); !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("illegal name: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 3, nil, "three"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("three replicas on one broker: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"no.such": &value}, "unknown"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("unknown setting: %v", err)
	}
	if _, err := adm.UpdatePartitions(ctx, 5, "admin"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "grown to five partitions", func() bool {
		topics, err := adm.ListTopics(ctx, "admin")
		return err == nil && len(topics["admin"].Partitions) == 5
	})
	configs, err := adm.DescribeTopicConfigs(ctx, "admin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "retention.ms" && (c.MaybeValue() != "60000" || c.Source != kmsg.ConfigSourceDynamicTopicConfig) {
			t.Errorf("retention.ms is %s from %v", c.MaybeValue(), c.Source)
		}
	}
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil || len(meta.Brokers) != 1 || meta.Brokers[0].NodeID != 1 || meta.Cluster == "" || meta.Controller != 1 {
		t.Errorf("cluster %+v (%v)", meta, err)
	}
	if r, err := adm.DeleteTopics(ctx, "admin", "missing"); err != nil || r["admin"].Err != nil || !errors.Is(r["missing"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete: %v (%v)", r, err)
	}
	eventually(t, "the deleted topic is gone", func() bool {
		topics, err := adm.ListTopics(ctx)
		return err == nil && !topics.Has("admin")
	})
}
