package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// fetchCase is one answer, told to the encoder and to kmsg.
type fetchCase struct {
	head      FetchHead
	topics    []fetchCaseTopic
	endpoints []NodeEndpoint
}

type fetchCaseTopic struct {
	name       string
	id         model.TopicID
	partitions []FetchPartition
	records    [][]byte
}

// viaEncoder returns the body with the records put at the cuts.
func (c *fetchCase) viaEncoder(t *testing.T, e *FetchEncoder, version int16, prefix int) []byte {
	t.Helper()
	c.head.Topics = len(c.topics)
	e.Begin(version, prefix, c.head)
	var records [][]byte
	for i := range c.topics {
		topic := &c.topics[i]
		e.Topic(topic.name, topic.id, len(topic.partitions))
		for j := range topic.partitions {
			e.Partition(&topic.partitions[j], len(topic.records[j]))
			if len(topic.records[j]) > 0 {
				records = append(records, topic.records[j])
			}
		}
	}
	e.End(c.endpoints)
	var out []byte
	at := 0
	if len(e.Cuts()) != len(records) {
		t.Fatalf("%d cuts for %d record sets", len(e.Cuts()), len(records))
	}
	for i, cut := range e.Cuts() {
		if cut.Len != len(records[i]) {
			t.Fatalf("cut %d of %d bytes, records of %d", i, cut.Len, len(records[i]))
		}
		out = append(out, e.Bytes()[at:cut.At]...)
		out = append(out, records[i]...)
		at = cut.At
	}
	out = append(out, e.Bytes()[at:]...)
	if len(out) != e.Size() {
		t.Fatalf("Size() = %d, the answer has %d bytes", e.Size(), len(out))
	}
	return out[prefix:]
}

func (c *fetchCase) viaKmsg(version int16) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = version
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = c.head.ThrottleMillis, c.head.Code, c.head.SessionID
	for _, topic := range c.topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		for j, p := range topic.partitions {
			rt.Partitions = append(rt.Partitions, kmsgPartition(&p, topic.records[j]))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if version >= 16 {
		for _, n := range c.endpoints {
			rb := kmsg.NewFetchResponseBroker()
			rb.NodeID, rb.Host, rb.Port = int32(n.ID), n.Host, n.Port
			if n.Rack != "" {
				rb.Rack = &n.Rack
			}
			resp.Brokers = append(resp.Brokers, rb)
		}
	}
	return resp.AppendTo(nil)
}

func kmsgPartition(p *FetchPartition, records []byte) kmsg.FetchResponseTopicPartition {
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.ErrorCode = p.Partition, p.Code
	rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = int64(p.HighWatermark), int64(p.LastStableOffset), int64(p.LogStartOffset)
	if p.ReadCommitted {
		rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for _, a := range p.Aborted {
			ra := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			ra.ProducerID, ra.FirstOffset = int64(a.ProducerID), int64(a.FirstOffset)
			rp.AbortedTransactions = append(rp.AbortedTransactions, ra)
		}
	}
	rp.PreferredReadReplica = int32(p.PreferredReadReplica)
	rp.RecordBatches = append([]byte{}, records...)
	rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = int32(p.Diverging.Epoch), int64(p.Diverging.Offset)
	rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = int32(p.CurrentLeader.ID), int32(p.CurrentLeader.Epoch)
	rp.SnapshotID.EndOffset, rp.SnapshotID.Epoch = int64(p.Snapshot.Offset), int32(p.Snapshot.Epoch)
	return rp
}

func randomFetchCase(rng *rand.Rand) fetchCase {
	c := fetchCase{head: FetchHead{ThrottleMillis: rng.Int32N(9), Code: int16(rng.IntN(80)), SessionID: rng.Int32()}}
	for range rng.IntN(4) {
		topic := fetchCaseTopic{name: strings.Repeat("t", 1+rng.IntN(200)), id: model.TopicID{byte(rng.IntN(256)), 1}}
		for range rng.IntN(5) {
			p := NewFetchPartition(rng.Int32N(1000))
			p.Code = int16(rng.IntN(3))
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = model.Offset(rng.Int64()), model.Offset(rng.Int64N(99)), model.Offset(rng.IntN(9))
			p.ReadCommitted = rng.IntN(2) == 0
			for range rng.IntN(3) * rng.IntN(60) {
				p.Aborted = append(p.Aborted, AbortedTxn{ProducerID: model.ProducerID(rng.Int64()), FirstOffset: model.Offset(rng.IntN(1 << 30))})
			}
			if rng.IntN(3) == 0 {
				p.PreferredReadReplica = 3
			}
			if rng.IntN(3) == 0 {
				p.Diverging = model.OffsetAndEpoch{Offset: 12, Epoch: 3}
			}
			if rng.IntN(3) == 0 {
				p.CurrentLeader = LeaderHint{ID: 2, Epoch: 9}
			}
			if rng.IntN(3) == 0 {
				p.Snapshot = model.OffsetAndEpoch{Offset: 1 << 40, Epoch: 8}
			}
			topic.partitions = append(topic.partitions, p)
			records := make([]byte, rng.IntN(2)*rng.IntN(40_000))
			for i := range records {
				records[i] = byte(i)
			}
			topic.records = append(topic.records, records)
		}
		c.topics = append(c.topics, topic)
	}
	for i := range rng.IntN(3) * rng.IntN(70) {
		n := NodeEndpoint{ID: model.BrokerID(i), Host: strings.Repeat("h", rng.IntN(300)), Port: 9092}
		if rng.IntN(2) == 0 {
			n.Rack = strings.Repeat("r", 1+rng.IntN(200))
		}
		c.endpoints = append(c.endpoints, n)
	}
	return c
}

func TestFetchEncoderAgreesWithKmsg(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var e FetchEncoder // reused, so that an answer can't leak into the next
	for range 300 {
		c := randomFetchCase(rng)
		for version := table[KeyFetch].Min; version <= table[KeyFetch].Max; version++ {
			got, want := c.viaEncoder(t, &e, version, int(version)), c.viaKmsg(version)
			if !bytes.Equal(got, want) {
				t.Fatalf("version %d:\n got %x\nwant %x", version, got, want)
			}
			back := kmsg.NewPtrFetchResponse()
			back.Version = version
			if err := back.ReadFrom(got); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
		}
	}
}

func TestFetchEncoderAllocatesNothing(t *testing.T) {
	var e FetchEncoder
	p := NewFetchPartition(1)
	encode := func() {
		e.Begin(12, 9, FetchHead{Topics: 10})
		for range 10 {
			e.Topic("topic", model.TopicID{}, 10)
			for range 10 {
				e.Partition(&p, 1000)
			}
		}
		e.End(nil)
	}
	encode()
	if n := testing.AllocsPerRun(100, encode); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFetchEncoder(b *testing.B) {
	for _, partitions := range []int{1, 1000} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			var e FetchEncoder
			p := NewFetchPartition(1)
			b.ReportAllocs()
			for b.Loop() {
				e.Begin(13, 9, FetchHead{Topics: 1})
				e.Topic("", model.TopicID{1}, partitions)
				for i := range partitions {
					p.Partition = int32(i)
					e.Partition(&p, 1000)
				}
				e.End(nil)
			}
		})
	}
}
