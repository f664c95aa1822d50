package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
)

// fetchOf asks for one partition, without a session.
func fetchOf(topic string, partition int32, offset int64, max int32) *kmsg.FetchRequest {
	return fetchAll(fetchTopic(topic, fetchPart(partition, offset, max)))
}

func fetchAll(topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 50<<20, -1
	req.ReplicaState.ID, req.ReplicaState.Epoch = -1, -1
	req.Topics = topics
	return req
}

func fetchTopic(topic string, parts ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, parts
	return rt
}

func fetchPart(partition int32, offset int64, max int32) kmsg.FetchRequestTopicPartition {
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, max
	return rp
}

func (c *rawConn) fetch(v int16, topic string, partition int32, offset int64, max int32) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.fetched(fetchOf(topic, partition, offset, max), v).Topics[0].Partitions[0]
}

func (c *rawConn) fetched(req *kmsg.FetchRequest, v int16) *kmsg.FetchResponse {
	c.t.Helper()
	return c.call(req, v).(*kmsg.FetchResponse)
}

// batches returns the base offsets of the whole batches in records, and how many
// bytes of a cut one follow.
func batches(t *testing.T, records []byte) (bases []int64, rest int) {
	t.Helper()
	it := record.NewIter(records)
	n := 0
	for it.Next() {
		bases = append(bases, int64(it.Batch().BaseOffset()))
		n += it.Batch().Size()
		if err := it.Batch().CheckCRC(); err != nil {
			t.Error(err)
		}
	}
	return bases, len(records) - n
}

// TestFetchOfEveryVersion: topics by name up to version 12, by id from 13.
func TestFetchOfEveryVersion(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("fetched", 2)
	c := a.dial()
	for range 3 {
		c.produce(name, 0, plainBatch(10, 10))
	}
	epoch := c.metadata(9, false, name).Topics[0].Partitions[0].LeaderEpoch
	for _, v := range versions(t, protocol.KeyFetch) {
		named := func(partition int32, offset int64) kmsg.FetchResponseTopicPartition {
			t.Helper()
			req := fetchOf(name, partition, offset, 1<<20)
			req.Topics[0].TopicID = id
			resp := c.fetched(req, v)
			if resp.ErrorCode != 0 || len(resp.Topics) != 1 || v < 13 && resp.Topics[0].Topic != name || v >= 13 && resp.Topics[0].TopicID != id {
				t.Fatalf("v%d: %+v", v, resp)
			}
			return resp.Topics[0].Partitions[0]
		}
		p := named(0, 15) // inside the second batch
		if bases, rest := batches(t, p.RecordBatches); p.ErrorCode != 0 || !slices.Equal(bases, []int64{10, 20}) || rest != 0 {
			t.Errorf("v%d from 15: code %d batches %v and %d bytes", v, p.ErrorCode, bases, rest)
		}
		if p.HighWatermark != 30 || p.LastStableOffset != 30 || v >= 5 && p.LogStartOffset != 0 || p.AbortedTransactions != nil || v >= 11 && p.PreferredReadReplica != -1 {
			t.Errorf("v%d: %+v", v, p)
		}
		if p := named(0, 30); p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 30 {
			t.Errorf("v%d at the end: %+v", v, p)
		}
		for _, offset := range []int64{31, -1, 1 << 40} {
			p := named(0, offset)
			if p.ErrorCode != protocol.CodeOffsetOutOfRange || p.HighWatermark != -1 || p.LastStableOffset != -1 || v >= 5 && p.LogStartOffset != -1 || len(p.RecordBatches) != 0 {
				t.Errorf("v%d from %d: %+v", v, offset, p)
			}
		}
		if p := named(7, 0); p.ErrorCode != protocol.CodeUnknownTopicOrPartition {
			t.Errorf("v%d unknown partition: %d", v, p.ErrorCode)
		}
		unknown := fetchOf(a.name("nowhere"), 0, 0, 1<<20)
		unknown.Topics[0].TopicID = model.TopicID{4, 5}
		want := protocol.CodeUnknownTopicOrPartition
		if v >= 13 {
			want = protocol.CodeUnknownTopicID
		}
		if p := c.fetched(unknown, v).Topics[0].Partitions[0]; p.ErrorCode != want {
			t.Errorf("v%d unknown topic: %d, want %d", v, p.ErrorCode, want)
		}
		if v >= 9 {
			req := fetchOf(name, 0, 0, 1<<20)
			req.Topics[0].TopicID, req.Topics[0].Partitions[0].CurrentLeaderEpoch = id, epoch+3
			if p := c.fetched(req, v).Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeUnknownLeaderEpoch {
				t.Errorf("v%d leader epoch too new: %d", v, p.ErrorCode)
			}
		}
		committed := fetchOf(name, 0, 0, 1<<20)
		committed.Topics[0].TopicID, committed.IsolationLevel = id, 1
		if p := c.fetched(committed, v).Topics[0].Partitions[0]; p.AbortedTransactions == nil || len(p.AbortedTransactions) != 0 || p.LastStableOffset != 30 {
			t.Errorf("v%d read_committed: %+v", v, p)
		}
	}
}

// TestFetchLimits: KIP-74. The first batch of the answer comes whole, whatever
// the limits; behind it partitions are cut at their limit and the answer at its
// own.
func TestFetchLimits(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("limits", 4)
	c := a.dial()
	batch := plainBatch(1, 1000)
	size := int32(len(batch))
	for p := range int32(3) { // the fourth stays empty
		for range 5 {
			c.produce(name, p, plainBatch(1, 1000))
		}
	}
	get := func(maxBytes int32, parts ...kmsg.FetchRequestTopicPartition) map[int32]int32 {
		t.Helper()
		req := fetchAll(fetchTopic(name, parts...))
		req.MaxBytes = maxBytes
		out := map[int32]int32{}
		for _, rt := range c.fetched(req, 11).Topics {
			for _, p := range rt.Partitions {
				if p.ErrorCode != 0 {
					t.Errorf("partition %d: code %d", p.Partition, p.ErrorCode)
				}
				out[p.Partition] = int32(len(p.RecordBatches))
			}
		}
		return out
	}
	all := 5 * size
	tests := []struct {
		what  string
		max   int32
		parts []kmsg.FetchRequestTopicPartition
		want  map[int32]int32
	}{
		{"no limit bites", 1 << 20, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 1<<20), fetchPart(1, 0, 1<<20)}, map[int32]int32{0: all, 1: all}},
		{"one byte each", 1 << 20, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 1), fetchPart(1, 0, 1), fetchPart(2, 0, 1)}, map[int32]int32{0: size, 1: 0, 2: 0}},
		{"one byte in all", 1, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 1<<20), fetchPart(1, 0, 1<<20)}, map[int32]int32{0: size, 1: 0}},
		{"the empty one gives its turn away", 1, []kmsg.FetchRequestTopicPartition{fetchPart(3, 0, 1<<20), fetchPart(1, 0, 1<<20), fetchPart(0, 0, 1<<20)}, map[int32]int32{3: 0, 1: size, 0: 0}},
		{"cut inside a batch", 1 << 20, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 2*size+100), fetchPart(1, 0, size+1)}, map[int32]int32{0: 2*size + 100, 1: size + 1}},
		{"the answer's limit", 7*size + 10, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 1<<20), fetchPart(1, 0, 1<<20), fetchPart(2, 0, 1<<20)}, map[int32]int32{0: all, 1: 2*size + 10, 2: 0}},
		{"less than a batch is left", 5*size + 10, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 1<<20), fetchPart(1, 0, 1<<20)}, map[int32]int32{0: all, 1: 0}},
		{"zero", 0, []kmsg.FetchRequestTopicPartition{fetchPart(0, 0, 0)}, map[int32]int32{0: size}},
		{"from the middle", 1 << 20, []kmsg.FetchRequestTopicPartition{fetchPart(0, 3, 1)}, map[int32]int32{0: size}},
	}
	for _, tt := range tests {
		got := get(tt.max, tt.parts...)
		for p, want := range tt.want {
			if got[p] != want {
				t.Errorf("%s: partition %d gives %d bytes, want %d (a batch is %d)", tt.what, p, got[p], want, size)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d partitions", tt.what, len(got))
		}
	}
}

// TestFetchWaits: a fetch with too little to give waits for its time or for
// min.bytes, and an error ends the wait before it begins.
func TestFetchWaits(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("waits", 2)
	c, producer := a.dial(), a.dial()
	wait := func(millis, minBytes int32, offset int64) *kmsg.FetchRequest {
		req := fetchOf(name, 0, offset, 1<<20)
		req.MaxWaitMillis, req.MinBytes = millis, minBytes
		return req
	}
	start := time.Now()
	if p := c.fetched(wait(300, 1, 0), 11).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
		t.Errorf("nothing came: %+v", p)
	}
	if took := time.Since(start); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("waited %s, want 300ms", took)
	}
	// Answered by the append.
	c.send(wait(20_000, 1, 0), 11)
	producer.produce(name, 0, plainBatch(1, 1000))
	if p := c.fetchAnswer(11).Topics[0].Partitions[0]; len(p.RecordBatches) == 0 || p.HighWatermark != 1 {
		t.Errorf("one batch came: %+v", p)
	}
	// Only the third append reaches min.bytes, and one elsewhere does not count.
	c.send(wait(20_000, 2500, 1), 11)
	producer.produce(name, 0, plainBatch(1, 1000))
	producer.produce(name, 1, plainBatch(1, 5000))
	producer.produce(name, 0, plainBatch(1, 1000))
	producer.produce(name, 0, plainBatch(1, 1000))
	p := c.fetchAnswer(11).Topics[0].Partitions[0]
	if bases, _ := batches(t, p.RecordBatches); !slices.Equal(bases, []int64{1, 2, 3}) {
		t.Errorf("min.bytes=2500: batches %v", bases)
	}
	// Answered at once: min.bytes 0, a wait of 0, an error, an out-of-range offset.
	start = time.Now()
	c.fetched(wait(20_000, 0, 4), 11)
	c.fetched(wait(0, 1, 4), 11)
	c.fetched(wait(20_000, 1, 99), 11)
	bad := wait(20_000, 1, 4)
	bad.Topics = append(bad.Topics, fetchTopic(name, fetchPart(1, 77, 1000)))
	c.fetched(bad, 11)
	none := fetchAll()
	none.MaxWaitMillis, none.MinBytes = 20_000, 1
	c.fetched(none, 11)
	unknown := fetchTopic(a.name("nowhere"), fetchPart(0, 0, 1000))
	none.Topics = append(none.Topics, unknown)
	c.fetched(none, 11)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("six fetches that can't wait took %s", took)
	}
	// What does not exist does not end the wait of the others.
	start = time.Now()
	beside := wait(300, 1, 4)
	beside.Topics = append(beside.Topics, unknown)
	for _, rt := range c.fetched(beside, 11).Topics {
		if code := rt.Partitions[0].ErrorCode; (code == protocol.CodeUnknownTopicOrPartition) != (rt.Topic != name) {
			t.Errorf("beside an unknown topic: %s has code %d", rt.Topic, code)
		}
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("beside an unknown topic: waited %s, want 300ms", took)
	}
	// min.bytes above max.bytes is max.bytes.
	capped := wait(20_000, 1<<30, 0)
	capped.MaxBytes = 2000
	if p := c.fetched(capped, 11).Topics[0].Partitions[0]; len(p.RecordBatches) != 2000 {
		t.Errorf("min.bytes above max.bytes: %d bytes", len(p.RecordBatches))
	}
	// A topic that is deleted under a waiting fetch ends the wait.
	c.send(wait(20_000, 1, 4), 11)
	producer.call(deleteTopic(6, name, model.NoTopicID), 6)
	if p := c.fetchAnswer(11).Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeUnknownTopicOrPartition && p.ErrorCode != protocol.CodeNotLeaderOrFollower {
		t.Errorf("deleted meanwhile: %+v", p)
	}
}

// fetchAnswer reads the answer to a Fetch that was sent.
func (c *rawConn) fetchAnswer(v int16) *kmsg.FetchResponse {
	c.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(v)
	b := c.answer()[4:]
	if resp.IsFlexible() {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatal(err)
	}
	return resp
}
