package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// batchOf builds a batch of records with these keys; a nil key is null.
func batchOf(o record.Options, ts model.Timestamp, keys ...[]byte) record.Batch {
	b := record.NewBuilder(o)
	for _, k := range keys {
		b.Append(ts, k, []byte("value"))
	}
	return b.Build()
}

// edited returns the batch with bytes changed and its CRC made right again.
func edited(b record.Batch, change func(record.Batch)) record.Batch {
	change(b)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func produceTo(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func createTopic(t *testing.T, cl *kgo.Client, name string, partitions int32, configs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pointers := make(map[string]*string)
	for k, v := range configs {
		pointers[k] = &v
	}
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, pointers, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// TestProduceRefusals sends what Kafka refuses and expects Kafka's code; nothing
// of it may be in the log afterwards.
func TestProduceRefusals(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	cl := client(t, b)
	createTopic(t, cl, "plain", 1, map[string]string{"max.message.bytes": "2000"})
	createTopic(t, cl, "compacted", 1, map[string]string{"cleanup.policy": "compact"})
	createTopic(t, cl, "strict", 1, map[string]string{"message.timestamp.before.max.ms": "1000"})
	createTopic(t, cl, "__consumer_offsets", 1, nil)
	now := model.Timestamp(time.Now().UnixMilli())
	good := func() record.Batch { return batchOf(record.Options{}, now, []byte("k")) }
	tests := []struct {
		name      string
		topic     string
		partition int32
		acks      int16
		version   int16
		records   []byte
		want      protocol.Code
		records87 []int32 // indexes in RecordErrors
	}{
		{name: "unknown topic", topic: "nowhere", records: good(), want: protocol.CodeUnknownTopicOrPartition},
		{name: "unknown partition", topic: "plain", partition: 7, records: good(), want: protocol.CodeUnknownTopicOrPartition},
		{name: "no batch", topic: "plain", records: []byte{}, want: protocol.CodeInvalidRecord},
		{name: "half a batch", topic: "plain", records: good()[:40], want: protocol.CodeInvalidRecord},
		{name: "two batches", topic: "plain", records: append(good(), good()...), want: protocol.CodeInvalidRecord},
		{name: "magic 1", topic: "plain", records: edited(good(), func(b record.Batch) { b[16] = 1 }), want: protocol.CodeInvalidRecord},
		{name: "zstd before version 7", topic: "plain", version: 6, records: batchOf(record.Options{Codec: compress.Zstd}, now, []byte("k")), want: protocol.CodeUnsupportedCompressionType},
		{name: "acks 2", topic: "plain", acks: 2, records: good(), want: protocol.CodeInvalidRequiredAcks},
		{name: "internal topic", topic: "__consumer_offsets", records: good(), want: protocol.CodeInvalidTopicException},
		{name: "base offset 5", topic: "plain", records: edited(good(), func(b record.Batch) { b[7] = 5 }), want: protocol.CodeInvalidRecord},
		{name: "too large and corrupt", topic: "plain", records: corrupt(batchOf(record.Options{}, now, make([]byte, 3000))), want: protocol.CodeMessageTooLarge},
		{name: "bad CRC", topic: "plain", records: corrupt(good()), want: protocol.CodeCorruptMessage},
		{name: "codec 6", topic: "plain", records: edited(good(), func(b record.Batch) { b[22] |= 6 }), want: protocol.CodeUnknownServerError},
		{name: "count 2 for one record", topic: "plain", records: edited(good(), func(b record.Batch) { b[60] = 2 }), want: protocol.CodeInvalidRecord},
		{name: "control batch", topic: "plain", records: edited(good(), func(b record.Batch) { b[22] |= 0x20 }), want: protocol.CodeInvalidRecord},
		{name: "producer without sequence", topic: "plain", records: batchOf(record.Options{Idempotent: true, ProducerID: 5, BaseSequence: -1}, now, []byte("k")), want: protocol.CodeInvalidRecord},
		{name: "null key on a compacted topic", topic: "compacted", records: batchOf(record.Options{}, now, []byte("k"), nil, []byte("k"), nil), want: protocol.CodeInvalidRecord, records87: []int32{1, 3}},
		{name: "too old", topic: "strict", records: batchOf(record.Options{}, now-5000, []byte("k")), want: protocol.CodeInvalidTimestamp, records87: []int32{0}},
		{name: "too new", topic: "plain", records: batchOf(record.Options{}, now+2*3600*1000, []byte("k")), want: protocol.CodeInvalidTimestamp, records87: []int32{0}},
		{name: "LogAppendTime from a client", topic: "plain", records: batchOf(record.Options{TimestampType: record.LogAppendTime, AppendTime: now}, now, []byte("k")), want: protocol.CodeInvalidTimestamp},
		{name: "transactional without an id", topic: "plain", records: batchOf(record.Options{Idempotent: true, ProducerID: 5, Transactional: true}, now, []byte("k")), want: protocol.CodeTransactionalIDAuthorizationFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			acks := tt.acks
			if acks == 0 {
				acks = 1
			}
			version := tt.version
			if version == 0 {
				version = 12
			}
			resp := rawDial(t, b).call(produceTo(tt.topic, tt.partition, acks, tt.records), version).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != tt.want || p.BaseOffset != -1 {
				t.Fatalf("code %d base offset %d, want code %d base offset -1", p.ErrorCode, p.BaseOffset, tt.want)
			}
			var got []int32
			for _, e := range p.ErrorRecords {
				got = append(got, e.RelativeOffset)
			}
			if tt.records87 != nil && !equal(got, tt.records87) {
				t.Fatalf("record errors %v, want %v", got, tt.records87)
			}
		})
	}
	for _, h := range b.replicas.All() {
		if end := h.State().LogEnd; end != 0 {
			t.Errorf("%s ends at %d: something refused was written", h.TopicPartition(), end)
		}
	}
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func corrupt(b record.Batch) record.Batch {
	b[len(b)-1] ^= 1
	return b
}

// TestTrailingHalfBatchIsCut: one whole batch and the beginning of another is
// the one batch.
func TestTrailingHalfBatchIsCut(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	cl := client(t, b)
	createTopic(t, cl, "plain", 1, nil)
	one := batchOf(record.Options{}, model.Timestamp(time.Now().UnixMilli()), []byte("k"))
	resp := rawDial(t, b).call(produceTo("plain", 0, 1, append(append([]byte{}, one...), one[:30]...)), 12).(*kmsg.ProduceResponse)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("code %d base offset %d", p.ErrorCode, p.BaseOffset)
	}
	if end := b.replicas.All()[0].State().LogEnd; end != 1 {
		t.Fatalf("log end %d, want 1", end)
	}
}

// TestIdempotence follows the numbers of Kafka's rules for one producer.
func TestIdempotence(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	cl := client(t, b)
	createTopic(t, cl, "once", 1, nil)
	c := rawDial(t, b)
	now := model.Timestamp(time.Now().UnixMilli())
	send := func(epoch model.ProducerEpoch, seq model.Sequence, n int) (protocol.Code, int64) {
		t.Helper()
		batch := batchOf(record.Options{Idempotent: true, ProducerID: 7, ProducerEpoch: epoch, BaseSequence: seq}, now, make([][]byte, n)...)
		p := c.call(produceTo("once", 0, -1, batch), 12).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		return p.ErrorCode, p.BaseOffset
	}
	steps := []struct {
		epoch model.ProducerEpoch
		seq   model.Sequence
		n     int
		code  protocol.Code
		base  int64
	}{
		{0, 0, 5, 0, 0},
		{0, 0, 5, 0, 0}, // a retry has its first offset
		{0, 6, 1, protocol.CodeOutOfOrderSequenceNumber, -1},
		{0, 5, 5, 0, 5},
		{0, 10, 1, 0, 10}, {0, 11, 1, 0, 11}, {0, 12, 1, 0, 12}, {0, 13, 1, 0, 13}, {0, 14, 1, 0, 14},
		{0, 0, 5, protocol.CodeOutOfOrderSequenceNumber, -1}, // no longer among the last five
		{0, 10, 1, 0, 10},
		{1, 3, 1, protocol.CodeOutOfOrderSequenceNumber, -1},
		{1, 0, 1, 0, 15},
		{0, 15, 1, protocol.CodeInvalidProducerEpoch, -1},
	}
	for i, s := range steps {
		if code, base := send(s.epoch, s.seq, s.n); code != s.code || base != s.base {
			t.Fatalf("step %d (epoch %d sequence %d): code %d base %d, want code %d base %d", i, s.epoch, s.seq, code, base, s.code, s.base)
		}
	}
}

// TestTransactionalBatchIsRefused: there are no transactions yet.
func TestTransactionalBatchIsRefused(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	cl := client(t, b)
	createTopic(t, cl, "plain", 1, nil)
	req := produceTo("plain", 0, -1, batchOf(record.Options{Idempotent: true, ProducerID: 5, Transactional: true}, model.Timestamp(time.Now().UnixMilli()), []byte("k")))
	req.TransactionID = kmsg.StringPtr("tx")
	if p := rawDial(t, b).call(req, 11).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeInvalidTxnState {
		t.Fatalf("code %d, want %d", p.ErrorCode, protocol.CodeInvalidTxnState)
	}
}

// TestAcksZeroFailureClosesTheConnection: the client has no other way to learn
// that its metadata is stale.
func TestAcksZeroFailureClosesTheConnection(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	cl := client(t, b)
	req := produceTo("nowhere", 0, 0, batchOf(record.Options{}, 0, []byte("k")))
	c := rawDial(t, b)
	c.send(req, 12)
	c.wantClosed()
	// A good one has no answer and keeps the connection.
	createTopic(t, cl, "plain", 1, nil)
	c = rawDial(t, b)
	c.send(produceTo("plain", 0, 0, batchOf(record.Options{}, model.Timestamp(time.Now().UnixMilli()), []byte("k"))), 12)
	c.send(kmsg.NewPtrApiVersionsRequest(), 0)
	if key := c.answer(); key == nil {
		t.Fatal("no answer behind an acks=0 produce")
	}
	if end := b.replicas.All()[0].State().LogEnd; end != 1 {
		t.Fatalf("log end %d, want 1", end)
	}
}

// TestProduceOfEveryVersion: what each version answers, topics by name up to 12
// and by id from 13.
func TestProduceOfEveryVersion(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("versions", 2)
	c := a.dial()
	next := int64(0)
	for _, v := range versions(t, protocol.KeyProduce) {
		for _, acks := range []int16{-1, 1} {
			req := produceTo(name, 0, acks, plainBatch(3, 10))
			req.Topics[0].TopicID = id
			resp := c.call(req, v).(*kmsg.ProduceResponse)
			rt := resp.Topics[0]
			if len(resp.Topics) != 1 || v < 13 && rt.Topic != name || v >= 13 && rt.TopicID != id {
				t.Fatalf("v%d: %+v", v, resp)
			}
			p := rt.Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != next || p.LogAppendTime != -1 || v >= 5 && p.LogStartOffset != 0 || p.ErrorMessage != nil || len(p.ErrorRecords) != 0 {
				t.Errorf("v%d acks %d: %+v, want offset %d", v, acks, p, next)
			}
			next += 3
		}
		// One bad partition does not touch its neighbour; unknown ones are told.
		req := produceTo(name, 1, -1, plainBatch(1, 1))
		req.Topics[0].TopicID = id
		bad, missing := req.Topics[0].Partitions[0], req.Topics[0].Partitions[0]
		bad.Partition, bad.Records = 0, corrupt(plainBatch(1, 1))
		missing.Partition = 9
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, bad, missing)
		unknown := req.Topics[0]
		unknown.Topic, unknown.TopicID, unknown.Partitions = a.name("nowhere"), model.TopicID{8, 8}, unknown.Partitions[:1]
		req.Topics = append(req.Topics, unknown)
		got := map[string]protocol.Code{}
		for _, rt := range c.call(req, v).(*kmsg.ProduceResponse).Topics {
			for _, p := range rt.Partitions {
				which := "known"
				if v < 13 && rt.Topic != name || v >= 13 && rt.TopicID != id {
					which = "unknown"
				}
				got[fmt.Sprint(which, p.Partition)] = p.ErrorCode
			}
		}
		want := map[string]protocol.Code{"known1": 0, "known0": protocol.CodeCorruptMessage, "known9": protocol.CodeUnknownTopicOrPartition, "unknown1": protocol.CodeUnknownTopicOrPartition}
		if v >= 13 {
			want["unknown1"] = protocol.CodeUnknownTopicID
		}
		if !maps.Equal(got, want) {
			t.Errorf("v%d: codes %v, want %v", v, got, want)
		}
	}
	if end := c.listOffset(7, name, 0, -1, 0).Offset; end != next {
		t.Errorf("the log ends at %d, want %d", end, next)
	}
}
