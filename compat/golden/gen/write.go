package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/golden"
)

// The topics of a log directory. Segments are tiny, so that each has several.
type topic struct {
	name       string
	partitions int32
	configs    map[string]string
}

func topics() []topic {
	small := func(more ...string) map[string]string {
		m := map[string]string{"internal.segment.bytes": "1600", "index.interval.bytes": "0", "retention.ms": "-1"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	return []topic{
		{"codecs", 1, small()},
		{"idempotent", 1, small()},
		{"transactions", 1, small()},
		{"open", 1, small()},
		{"compacted", 1, small("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01", "internal.segment.bytes", "500")},
		{"appendtime", 1, small("message.timestamp.type", "LogAppendTime")},
		{"trimmed", 1, small("internal.segment.bytes", "500")},
		{"multi", 3, small()},
		{"empty", 1, small()},
	}
}

func createTopics(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, t := range topics() {
		if err := createTopic(ctx, cl, t.name, t.partitions, t.configs); err != nil {
			return err
		}
	}
	return nil
}

func createTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32, configs map[string]string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Topics {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

// baseTime is the timestamp of the first record: fixed, so that expected
// timestamps are the same each time.
const baseTime = 1_700_000_000_000

// write produces one round of records to every topic.
func write(ctx context.Context, addr string, round int) error {
	for _, step := range []func(context.Context, string, int) error{
		writeCodecs, writeIdempotent, writeTransactions, writeOpen, writeCompacted, writeRest, trim,
	} {
		if err := step(ctx, addr, round); err != nil {
			return err
		}
	}
	return nil
}

// produce writes records to partition p of topic t, in batches of size batch.
func produce(ctx context.Context, cl *kgo.Client, batch int, records ...*kgo.Record) error {
	for len(records) > 0 {
		n := min(batch, len(records))
		if err := cl.ProduceSync(ctx, records[:n]...).FirstErr(); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func producer(addr string, opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5 * time.Millisecond),
	}, opts...)
	return kgo.NewClient(opts...)
}

// record makes record number i of a topic: some with null keys, null values,
// empty ones, headers, and timestamps that go back now and then.
func record(topic string, i int) *kgo.Record {
	r := &kgo.Record{
		Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%7), Value: fmt.Appendf(nil, "%s %d %s", topic, i, strings.Repeat("tide ", 6)),
		Timestamp: time.UnixMilli(baseTime + int64(i)*1000 - int64(i%4)*1500),
	}
	switch i % 6 {
	case 1:
		r.Key = nil
	case 2:
		r.Headers = []kgo.RecordHeader{{Key: "h1", Value: []byte("one")}, {Key: "h1", Value: []byte{}}, {Key: "", Value: nil}}
	case 3:
		r.Value = nil
	case 4:
		r.Key, r.Value = []byte{}, []byte{}
	}
	return r
}

func several(topic string, from, to int) []*kgo.Record {
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, record(topic, i))
	}
	return rs
}

func writeCodecs(ctx context.Context, addr string, round int) error {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for i, codec := range codecs {
		cl, err := producer(addr, kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(codec))
		if err != nil {
			return err
		}
		from := (round*len(codecs) + i) * 10
		err = produce(ctx, cl, 5, several("codecs", from, from+10)...)
		cl.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func writeIdempotent(ctx context.Context, addr string, round int) error {
	for i := range 2 {
		cl, err := producer(addr)
		if err != nil {
			return err
		}
		from := round*40 + i*20
		err = produce(ctx, cl, 2, several("idempotent", from, from+20)...)
		cl.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func writeTransactions(ctx context.Context, addr string, round int) error {
	plain, err := producer(addr)
	if err != nil {
		return err
	}
	defer plain.Close()
	cl, err := producer(addr, kgo.TransactionalID("golden"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range 6 {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		from := (round*6 + i) * 10
		if err := produce(ctx, cl, 3, several("transactions", from, from+6)...); err != nil {
			return err
		}
		// A record outside the transaction, between its records and its marker.
		if err := produce(ctx, plain, 1, record("transactions", from+6)); err != nil {
			return err
		}
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(i%3 != 1)); err != nil {
			return err
		}
	}
	return nil
}

// writeOpen leaves a transaction open, so that the last stable offset stays
// below the high watermark. A second round's producer has the first one's
// transaction aborted.
func writeOpen(ctx context.Context, addr string, round int) error {
	plain, err := producer(addr)
	if err != nil {
		return err
	}
	defer plain.Close()
	cl, err := producer(addr, kgo.TransactionalID("golden-open"), kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := produce(ctx, plain, 1, record("open", round*10)); err != nil {
		return err
	}
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := produce(ctx, cl, 2, several("open", round*10+1, round*10+4)...); err != nil {
		return err
	}
	return produce(ctx, plain, 1, record("open", round*10+4))
}

func writeCompacted(ctx context.Context, addr string, round int) error {
	cl, err := producer(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	var rs []*kgo.Record
	for _, r := range several("compacted", round*40, round*40+40) {
		if r.Key == nil {
			r.Key = []byte("was null")
		}
		rs = append(rs, r)
	}
	return produce(ctx, cl, 4, rs...)
}

func writeRest(ctx context.Context, addr string, round int) error {
	cl, err := producer(addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, name := range []string{"appendtime", "trimmed"} {
		if err := produce(ctx, cl, 3, several(name, round*15, round*15+15)...); err != nil {
			return err
		}
	}
	var rs []*kgo.Record
	for i, r := range several("multi", round*15, round*15+15) {
		r.Partition = int32(i % 3)
		rs = append(rs, r)
	}
	return produce(ctx, cl, 6, rs...)
}

// trim deletes the first records of one topic.
func trim(ctx context.Context, addr string, round int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: "trimmed", Partition: 0, At: int64(7 + 10*round)})
	r, err := kadm.NewClient(cl).DeleteRecords(ctx, o)
	if err != nil {
		return err
	}
	return r.Error()
}

// offsets asks for the bounds of every partition.
func offsets(ctx context.Context, addr string) ([]golden.Partition, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var names []string
	for _, t := range topics() {
		names = append(names, t.name)
	}
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	stable, err := adm.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	var all []golden.Partition
	ends.Each(func(e kadm.ListedOffset) {
		s, _ := starts.Lookup(e.Topic, e.Partition)
		c, _ := stable.Lookup(e.Topic, e.Partition)
		all = append(all, golden.Partition{
			Topic: e.Topic, Partition: e.Partition,
			LogStart: s.Offset, HighWatermark: e.Offset, LastStable: c.Offset, LogEnd: e.Offset,
		})
	})
	return all, nil
}
