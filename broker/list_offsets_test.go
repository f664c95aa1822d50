package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

const t0 = 1_700_000_000_000

// timed appends a batch whose records have these times after t0.
func (c *rawConn) timed(topic string, codec compress.Codec, after ...int64) {
	c.t.Helper()
	b := record.NewBuilder(record.Options{Codec: codec})
	for i, ts := range after {
		b.Append(model.Timestamp(t0+ts), nil, fmt.Appendf(nil, "record %d", i))
	}
	c.produce(topic, 0, b.Build())
}

// TestListOffsetsOfEveryTimestamp: the special timestamps since their versions,
// and times inside plain and compressed batches, out of order too.
func TestListOffsetsOfEveryTimestamp(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("times", 1, "message.timestamp.before.max.ms=9223372036854775807")
	c := a.dial()
	c.timed(name, compress.None, 100, 110, 120)   // 0-2
	c.timed(name, compress.Gzip, 200, 230, 220)   // 3-5
	c.timed(name, compress.LZ4, 150, 160, 170)    // 6-8: late
	c.timed(name, compress.Zstd, 300, 400, 400)   // 9-11
	c.timed(name, compress.Snappy, 390, 395, 350) // 12-14
	c.timed(name, compress.None, 10, 20)          // 15-16
	empty, _ := a.topic("empty", 1)
	unsupported := func(since int16) func(int16) protocol.Code {
		return func(v int16) protocol.Code {
			if v < since {
				return protocol.CodeUnsupportedVersion
			}
			return 0
		}
	}
	always := unsupported(0)
	tests := []struct {
		what   string
		topic  string
		ts     int64
		code   func(v int16) protocol.Code
		offset int64
		found  int64 // timestamp, -1 for none
	}{
		{"latest", name, -1, always, 17, -1},
		{"earliest", name, -2, always, 0, -1},
		{"greatest", name, -3, unsupported(7), 10, t0 + 400},
		{"earliest local", name, -4, unsupported(8), 0, -1},
		{"latest tiered", name, -5, unsupported(9), -1, -1},
		{"pending upload", name, -6, unsupported(11), -1, -1},
		{"-7", name, -7, unsupported(99), -1, -1},
		{"0", name, 0, always, 0, t0 + 100},
		{"before all", name, t0 + 50, always, 0, t0 + 100},
		{"first", name, t0 + 100, always, 0, t0 + 100},
		{"between", name, t0 + 101, always, 1, t0 + 110},
		{"last of a batch", name, t0 + 120, always, 2, t0 + 120},
		{"next batch", name, t0 + 121, always, 3, t0 + 200},
		{"inside gzip", name, t0 + 201, always, 4, t0 + 230},
		{"not the nearest, the first", name, t0 + 205, always, 4, t0 + 230},
		{"behind the late ones", name, t0 + 231, always, 9, t0 + 300},
		{"inside zstd", name, t0 + 301, always, 10, t0 + 400},
		{"greatest itself", name, t0 + 400, always, 10, t0 + 400},
		{"after all", name, t0 + 401, always, -1, -1},
		{"empty: latest", empty, -1, always, 0, -1},
		{"empty: earliest", empty, -2, always, 0, -1},
		{"empty: greatest", empty, -3, unsupported(7), -1, -1},
		{"empty: by time", empty, 0, always, -1, -1},
	}
	for _, v := range versions(t, protocol.KeyListOffsets) {
		for isolation := int8(0); isolation <= 1; isolation++ {
			for _, tt := range tests {
				p := c.listOffset(v, tt.topic, 0, tt.ts, isolation)
				code := tt.code(v)
				offset, found := tt.offset, tt.found
				if code != 0 {
					offset, found = -1, -1
				}
				if p.ErrorCode != code || p.Offset != offset || p.Timestamp != found {
					t.Errorf("v%d %s: code %d offset %d timestamp %d, want %d, %d, %d", v, tt.what, p.ErrorCode, p.Offset, p.Timestamp, code, offset, found)
				}
				if v >= 4 && (p.LeaderEpoch >= 0) != (offset >= 0) {
					t.Errorf("v%d %s: leader epoch %d", v, tt.what, p.LeaderEpoch)
				}
			}
		}
	}
}

func TestListOffsetsErrors(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("listed", 2)
	c := a.dial()
	c.produce(name, 0, plainBatch(4, 1))
	epoch := c.metadata(9, false, name).Topics[0].Partitions[0].LeaderEpoch
	for _, v := range versions(t, protocol.KeyListOffsets) {
		if p := c.listOffset(v, a.name("nowhere"), 0, -1, 0); p.ErrorCode != protocol.CodeUnknownTopicOrPartition || p.Offset != -1 {
			t.Errorf("v%d unknown topic: %+v", v, p)
		}
		if p := c.listOffset(v, name, 5, -1, 0); p.ErrorCode != protocol.CodeUnknownTopicOrPartition {
			t.Errorf("v%d unknown partition: %+v", v, p)
		}
		// A partition named twice is refused, its neighbour is not.
		req := listOffsets(name, 0, -1, 0)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = 1, -1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, one)
		for _, p := range c.call(req, v).(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			want := protocol.CodeInvalidRequest
			if p.Partition == 1 {
				want = 0
			}
			if p.ErrorCode != want {
				t.Errorf("v%d named twice: %+v", v, p)
			}
		}
		if v < 4 {
			continue
		}
		for current, want := range map[int32]protocol.Code{-1: 0, epoch: 0, epoch + 1: protocol.CodeUnknownLeaderEpoch} {
			req := listOffsets(name, 0, -1, 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = current
			if p := c.call(req, v).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != want || want == 0 && (p.Offset != 4 || p.LeaderEpoch != epoch) {
				t.Errorf("v%d current epoch %d: %+v, want %d", v, current, p, want)
			}
		}
	}
}

func deleteRecords(topic string, offsets map[int32]int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	for n, o := range offsets {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = n, o
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func TestDeleteRecords(t *testing.T) {
	a := newAPI(t)
	compacted, _ := a.topic("compacted", 1, "cleanup.policy=compact")
	for _, v := range versions(t, protocol.KeyDeleteRecords) {
		name, _ := a.topic("deleted"+string('a'+rune(v)), 1)
		c := a.dial()
		for range 3 {
			c.produce(name, 0, plainBatch(10, 10))
		}
		steps := []struct {
			topic string
			n     int32
			to    int64
			code  protocol.Code
			low   int64
		}{
			{a.name("nowhere"), 0, 1, protocol.CodeUnknownTopicOrPartition, -1},
			{name, 4, 1, protocol.CodeUnknownTopicOrPartition, -1},
			{compacted, 0, 0, protocol.CodePolicyViolation, -1},
			{name, 0, -2, protocol.CodeOffsetOutOfRange, -1},
			{name, 0, 31, protocol.CodeOffsetOutOfRange, -1},
			{name, 0, 0, 0, 0},
			{name, 0, 15, 0, 15}, // inside a batch
			{name, 0, 5, 0, 15},  // below the start: nothing to do
			{name, 0, -1, 0, 30},
			{name, 0, 30, 0, 30},
		}
		for i, s := range steps {
			p := c.call(deleteRecords(s.topic, map[int32]int64{s.n: s.to}), v).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
			if p.ErrorCode != s.code || p.LowWatermark != s.low {
				t.Fatalf("v%d step %d: %+v, want code %d low watermark %d", v, i, p, s.code, s.low)
			}
			if s.code != 0 || s.to != 15 {
				continue
			}
			if got := c.listOffset(7, name, 0, -2, 0).Offset; got != 15 {
				t.Errorf("v%d: starts at %d", v, got)
			}
			if f := c.fetch(11, name, 0, 14, 1<<20); f.ErrorCode != protocol.CodeOffsetOutOfRange {
				t.Errorf("v%d: fetch below the start: %d", v, f.ErrorCode)
			}
			f := c.fetch(11, name, 0, 15, 1<<20)
			if it := record.NewIter(f.RecordBatches); !it.Next() || it.Batch().BaseOffset() != 10 || f.LogStartOffset != 15 {
				t.Errorf("v%d: fetch from the start: log start %d", v, f.LogStartOffset)
			}
			if got := c.listOffset(7, name, 0, 0, 0).Offset; got < 10 || got > 15 {
				t.Errorf("v%d: by time %d", v, got)
			}
		}
		// The log goes on where it was.
		if at := c.produce(name, 0, plainBatch(1, 1)); at != 30 {
			t.Errorf("v%d: next offset %d, want 30", v, at)
		}
	}
}
