package controller

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// large returns a cluster of three brokers with topics × partitions.
func large(t testing.TB, topics, partitions int32) *world {
	w := newWorld(t, 5)
	w.join(1, 2, 3)
	for i := range topics {
		w.do(createRequest(fmt.Sprintf("t%05d", i), partitions, 3))
	}
	return w
}

// TestLargeFence: a broker of 10,000 partitions is fenced by whole entries within
// the bounds, and a heartbeat costs the same however many partitions there are.
func TestLargeFence(t *testing.T) {
	beats := map[int32]float64{}
	for _, topics := range []int32{1, 10} {
		w := large(t, topics, 1000)
		req := w.heartbeatRequest(1)
		beats[topics] = testing.AllocsPerRun(50, func() { w.c.Handle(w.now, w.c.Image(), Command{Request: req}) })
		led := w.c.Image().Leads(1)
		r := w.c.Handle(w.now, w.c.Image(), Command{Hints: []FenceHint{{Broker: 1, Since: w.now.Mono}}})
		for _, e := range Pack(r.Units) {
			if n := unitSize(e); len(e) > RecordsMax || n > EntryBytesMax {
				t.Fatalf("an entry of %d records, %d bytes", len(e), n)
			}
		}
		w.commit(r)
		if m := w.c.Image(); m.Leads(1) != 0 || m.InSync(1) != 0 || m.Leads(2)+m.Leads(3) != int(topics)*1000 || led == 0 {
			t.Fatalf("%d topics: broker 1 led %d, leads %d, is in %d ISRs", topics, led, m.Leads(1), m.InSync(1))
		}
	}
	if beats[1] != beats[10] {
		t.Errorf("allocations of a heartbeat: %v", beats)
	}
}

// TestLargeAlterPartition: one request over thousands of partitions is one group
// of entries, and each is answered.
func TestLargeAlterPartition(t *testing.T) {
	w := large(t, 3, 1000)
	w.hint(3)
	w.beat(3)
	for _, leader := range []model.BrokerID{1, 2} {
		req := kmsg.NewPtrAlterPartitionRequest()
		req.Version, req.BrokerID, req.BrokerEpoch = 3, int32(leader), w.heartbeatRequest(leader).BrokerEpoch
		for topic := range w.c.Image().Topics() {
			rt := kmsg.AlterPartitionRequestTopic{TopicID: topic.ID}
			for n, p := range topic.Partitions {
				if p.Leader != leader {
					continue
				}
				rp := kmsg.NewAlterPartitionRequestTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = int32(n), int32(p.LeaderEpoch), int32(p.PartitionEpoch)
				for _, b := range p.Replicas {
					rp.NewEpochISR = append(rp.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: int32(b), BrokerEpoch: -1})
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		w.answeredAsIs(w.do(req).(*kmsg.AlterPartitionResponse))
	}
	if n := w.c.Image().InSync(3); n != 3000 {
		t.Errorf("broker 3 is in %d ISRs", n)
	}
}

func BenchmarkFence(b *testing.B) {
	for _, shape := range [][2]int32{{10, 1000}, {5000, 2}} {
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) {
			w := large(b, shape[0], shape[1])
			for b.Loop() {
				r := w.c.Handle(w.now, w.c.Image(), Command{Hints: []FenceHint{{Broker: 1, Since: w.now.Mono}}})
				e := metadata.NewEdit(w.c.Image())
				for _, u := range r.Units {
					if err := e.Apply(w.at, u); err != nil {
						b.Fatal(err)
					}
				}
				e.Done()
			}
		})
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	w := large(b, 10, 1000)
	for b.Loop() {
		w.c.NextDeadline()
		w.c.Handle(w.now, w.c.Image(), Command{Request: w.heartbeatRequest(2)})
	}
}

func BenchmarkTopicSettings(b *testing.B) {
	w := newWorld(b, 1)
	w.join(1)
	w.topic(1, 2)
	for b.Loop() {
		w.c.config.Rules.Topic(w.c.Image(), "t")
	}
}

// TestLargeShutdown: a broker of thousands of partitions leaves in one command of
// bounded entries, each of which leaves a valid image, and then may go.
func TestLargeShutdown(t *testing.T) {
	w := large(t, 12, 1000)
	req := w.heartbeatRequest(1)
	req.WantShutdown = true
	r := w.c.Handle(w.now, w.c.Image(), Command{Request: req})
	entries := Pack(r.Units)
	if len(r.Records()) != 12_001 || len(entries) < 2 {
		t.Fatalf("%d records in %d entries", len(r.Records()), len(entries))
	}
	for _, e := range entries {
		if n := unitSize(e); len(e) > RecordsMax || n > EntryBytesMax {
			t.Fatalf("an entry of %d records, %d bytes", len(e), n)
		}
		w.replay(e)
		w.invariants()
	}
	if m := w.c.Image(); m.Leads(1)+m.InSync(1) != 0 || !m.Broker(1).InShutdown || m.Offline() != 0 {
		t.Fatalf("leads %d, in %d ISRs, %d offline", m.Leads(1), m.InSync(1), m.Offline())
	}
	for _, b := range []model.BrokerID{2, 3} { // have not seen it yet
		req := w.heartbeatRequest(b)
		req.CurrentMetadataOffset--
		w.do(req)
	}
	again := w.heartbeatRequest(1)
	again.WantShutdown = true
	if resp := w.do(again).(*kmsg.BrokerHeartbeatResponse); resp.ShouldShutdown {
		t.Fatal("it may go before the others know")
	}
	w.beat(2)
	w.beat(3)
	if resp := w.do(again).(*kmsg.BrokerHeartbeatResponse); !resp.ShouldShutdown {
		t.Fatalf("%+v", resp)
	}
}
