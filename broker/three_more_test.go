package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// reassign moves partition 0 of a topic.
func (c *three) reassign(at int, topic string, replicas ...int32) {
	c.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Replicas = replicas
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := rawDial(c.t, c.nodes[at]).call(req, 0).(*kmsg.AlterPartitionAssignmentsResponse)
	if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Fatalf("reassign %s: %+v", topic, resp)
	}
}

func TestPartitionMoves(t *testing.T) {
	c := newThree(t, "min.insync.replicas=1")
	c.createAt(1, "orders", 1)
	cl := c.client()
	c.produce(cl, "orders", 0, 500)
	c.reassign(2, "orders", 3, 2)
	eventually(t, "the partition has moved", func() bool {
		resp := rawDial(t, c.nodes[3]).call(kmsg.NewPtrListPartitionReassignmentsRequest(), 0).(*kmsg.ListPartitionReassignmentsResponse)
		p := c.partition(3, "orders")
		return len(resp.Topics) == 0 && fmt.Sprint(p.Replicas) == "[3 2]" && len(p.ISR) == 2 && p.Leader == 3
	})
	eventually(t, "the old replica is gone", func() bool { return c.nodes[1].Replicas().Get("orders", 0) == nil })
	c.produce(cl, "orders", 500, 10)
	c.consume("orders", 510)
}

func TestPreferredLeaderComesBack(t *testing.T) {
	c := newThree(t)
	c.createAt(1, "orders", 2, 1, 3)
	c.stop(2)
	if leader := c.partition(1, "orders").Leader; leader != 1 {
		t.Fatalf("leader %d", leader)
	}
	c.start(2)
	c.awaitISR(1, "orders", 3)
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 10_000
	resp := rawDial(t, c.nodes[3]).call(req, 1).(*kmsg.ElectLeadersResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	// The asked broker has it in force already.
	if leader := c.partition(3, "orders").Leader; leader != 2 {
		t.Errorf("leader %d, want the preferred one", leader)
	}
	c.produce(c.client(), "orders", 0, 10)
}

func TestUnregisteredBrokerRegistersAgain(t *testing.T) {
	c := newThree(t)
	c.createAt(1, "orders", 1, 2, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	before := c.nodes[2].epoch()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 2
	if resp := rawDial(t, c.nodes[3]).call(req, 0).(*kmsg.UnregisterBrokerResponse); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	eventually(t, "it is registered under another epoch", func() bool { return c.nodes[2].epoch() > before })
	c.produce(cl, "orders", 10, 10)
	c.awaitISR(1, "orders", 3)
	c.consume("orders", 20)
	// It can lead: what changed between its two registrations has reached it.
	c.createAt(2, "later", 2, 3, 1)
	c.produce(cl, "later", 0, 1)
}

// TestLaterProcessWins: a second process under one broker id takes over, the
// first one ends and says why.
func TestLaterProcessWins(t *testing.T) {
	c := newThree(t)
	first := c.nodes[2]
	settings := c.settings(2)
	settings.Roles.Controller = false
	settings.Listeners = settings.Listeners[:1]
	settings.Listeners[0].Port, settings.Advertised[0].Port = 0, 0
	settings.LogDirs = []string{c.dir + "/other"}
	settings.MetadataDir = c.dir + "/other"
	settings.Quorum.Voters = nil
	settings.Quorum.BootstrapServers = []string{fmt.Sprintf("127.0.0.1:%d", c.ports[1]), fmt.Sprintf("127.0.0.1:%d", c.ports[5])}
	second, err := New(Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := second.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer stopBroker(t, second)
	select {
	case <-first.Failed():
		if !strings.Contains(first.Failure().Error(), "another process registered as broker 2") {
			t.Error(first.Failure())
		}
	case <-ctx.Done():
		t.Fatal("the first process goes on")
	}
}

func TestConsumersReadFromTheirRack(t *testing.T) {
	c := newThree(t, "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
	for id := 1; id <= 3; id++ { // a rack each, from the next start on
		c.nodes[id].config.Rack = fmt.Sprint("rack-", id)
	}
	for id := 1; id <= 3; id++ {
		settings := c.nodes[id].config
		c.stop(id)
		b, err := New(Config{Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := b.Start(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		c.nodes[id] = b
	}
	c.createAt(1, "orders", 1, 2, 3)
	c.produce(c.client(), "orders", 0, 100)
	c.awaitISR(2, "orders", 3)
	fetch := func(at int, rack string) kmsg.FetchResponseTopicPartition {
		req := fetchOf("orders", 0, 0, 1<<20)
		req.Rack = rack
		return rawDial(t, c.nodes[at]).call(req, 11).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	for _, tt := range []struct {
		rack string
		want int32
	}{{"rack-3", 3}, {"rack-2", 2}, {"rack-1", -1}, {"rack-9", -1}, {"", -1}} {
		p := fetch(1, tt.rack)
		if p.ErrorCode != 0 || p.PreferredReadReplica != tt.want || (len(p.RecordBatches) == 0) != (tt.want >= 0) {
			t.Errorf("rack %q: code %d, sent to %d with %d bytes, want %d", tt.rack, p.ErrorCode, p.PreferredReadReplica, len(p.RecordBatches), tt.want)
		}
	}
	eventually(t, "the follower serves all that is committed", func() bool {
		p := fetch(3, "rack-3")
		return p.ErrorCode == 0 && p.PreferredReadReplica == -1 && p.HighWatermark == 100 && len(p.RecordBatches) > 0
	})
	old := rawDial(t, c.nodes[3]).call(fetchOf("orders", 0, 0, 1<<20), 10).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if old.ErrorCode != protocol.CodeNotLeaderOrFollower {
		t.Errorf("version 10 at a follower: code %d", old.ErrorCode)
	}
	c.consume("orders", 100, kgo.Rack("rack-3"))
}

// TestFollowerFetch: what a leader answers to replicas, by the bytes.
func TestFollowerFetch(t *testing.T) {
	c := newThree(t, "min.insync.replicas=1", "replica.lag.time.max.ms=60000", "replica.fetch.wait.max.ms=500")
	c.createAt(1, "orders", 2, 1)
	c.produce(c.client(), "orders", 0, 10)
	c.kill(2) // the test speaks for it
	c.awaitISR(1, "orders", 1)
	epoch := c.partition(1, "orders").LeaderEpoch
	var brokerEpoch int64
	for _, reg := range c.nodes[1].Image().Brokers() {
		if reg.ID == 2 {
			brokerEpoch = int64(reg.Epoch)
		}
	}
	id := c.nodes[1].Image().Topic("orders").ID
	ask := func(replica int32, broker, offset, high int64, current int32, wait int32) (kmsg.FetchResponseTopicPartition, time.Duration) {
		req := fetchOf("orders", 0, offset, 1<<20)
		req.MaxWaitMillis, req.MinBytes = wait, 1
		req.ReplicaState.ID, req.ReplicaState.Epoch = replica, broker
		req.Topics[0].TopicID = id
		p := &req.Topics[0].Partitions[0]
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.HighWatermark, p.LogStartOffset = current, -1, high, 0
		began := time.Now()
		resp := rawDial(t, c.nodes[1]).call(req, 18).(*kmsg.FetchResponse)
		return resp.Topics[0].Partitions[0], time.Since(began)
	}
	const unknown = 1<<63 - 1
	if p, _ := ask(2, brokerEpoch, 0, unknown, epoch, 0); p.ErrorCode != 0 || len(p.RecordBatches) == 0 || p.HighWatermark != 10 {
		t.Errorf("from the start: code %d, %d bytes, high watermark %d", p.ErrorCode, len(p.RecordBatches), p.HighWatermark)
	}
	if p, _ := ask(2, brokerEpoch-1, 0, unknown, epoch, 0); p.ErrorCode != protocol.CodeNotLeaderOrFollower {
		t.Errorf("an older incarnation: code %d", p.ErrorCode)
	}
	if p, _ := ask(3, -1, 0, unknown, epoch, 0); p.ErrorCode != protocol.CodeUnknownLeaderEpoch {
		t.Errorf("a stranger with an epoch: code %d", p.ErrorCode)
	}
	if p, _ := ask(3, -1, 0, unknown, -1, 0); p.ErrorCode != protocol.CodeNotLeaderOrFollower {
		t.Errorf("a stranger without: code %d", p.ErrorCode)
	}
	if p, _ := ask(2, brokerEpoch, 0, unknown, epoch+1, 0); p.ErrorCode != protocol.CodeUnknownLeaderEpoch {
		t.Errorf("a leader epoch to come: code %d", p.ErrorCode)
	}
	if p, _ := ask(2, brokerEpoch, 0, unknown, epoch-1, 0); p.ErrorCode != protocol.CodeFencedLeaderEpoch || p.CurrentLeader.LeaderID != 1 {
		t.Errorf("an old leader epoch: code %d, leader %d", p.ErrorCode, p.CurrentLeader.LeaderID)
	}
	if p, took := ask(2, brokerEpoch, 10, 10, epoch, 300); p.ErrorCode != 0 || took < 250*time.Millisecond {
		t.Errorf("at the end: code %d after %v, want to wait", p.ErrorCode, took)
	}
	if p, took := ask(2, brokerEpoch, 10, 7, epoch, 5000); p.ErrorCode != 0 || p.HighWatermark != 10 || took > 2*time.Second {
		t.Errorf("behind in the high watermark: code %d, %d, after %v, want at once", p.ErrorCode, p.HighWatermark, took)
	}

	// Within a session. What it is told beside where to cut its log counts for
	// nothing: it uses the end of its log only.
	if r := rawDial(t, c.nodes[1]).call(deleteRecords("orders", map[int32]int64{0: 3}), 2).(*kmsg.DeleteRecordsResponse); r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("records can't be deleted: %+v", r)
	}
	s := &session{c: rawDial(t, c.nodes[1]), v: 18}
	follow := func(offset, high, start int64) *kmsg.FetchResponse {
		rt := fetchTopic("orders", fetchPart(0, offset, 1<<20))
		rt.TopicID = id
		p := &rt.Partitions[0]
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.HighWatermark, p.LogStartOffset = epoch, 0, high, start
		req := fetchAll(rt)
		req.ReplicaState.ID, req.ReplicaState.Epoch, req.MinBytes = 2, brokerEpoch, 1
		req.SessionID, req.SessionEpoch = s.id, s.epoch
		s.epoch++
		return s.c.fetched(req, s.v)
	}
	r := follow(50, 5, 0)
	if s.id = r.SessionID; s.id == 0 || r.Topics[0].Partitions[0].DivergingEpoch.EndOffset != 10 {
		t.Fatalf("behind the leader's end: %+v", r)
	}
	for _, tc := range []struct{ high, start int64 }{{5, 3}, {5, 3}, {10, 0}, {10, 0}} {
		r := follow(10, tc.high, tc.start)
		if !slices.Equal(answered(r), []int32{0}) || r.Topics[0].Partitions[0].HighWatermark != 10 || r.Topics[0].Partitions[0].LogStartOffset != 3 {
			t.Errorf("it knows the high watermark %d and the log start %d: %+v", tc.high, tc.start, r)
		}
	}
	if r := follow(10, 10, 3); len(answered(r)) > 0 {
		t.Errorf("it knows all: %+v", r)
	}

	// It ends where the log starts by now, in an epoch of which nothing is left. What
	// it has there may be what was written here later, or not: it begins anew.
	c.produce(c.client(), "orders", 10, 2)
	if r := rawDial(t, c.nodes[1]).call(deleteRecords("orders", map[int32]int64{0: 12}), 2).(*kmsg.DeleteRecordsResponse); r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("records can't be deleted: %+v", r)
	}
	for _, start := range []int64{3, 0} {
		r := follow(12, 12, start)
		if !slices.Equal(answered(r), []int32{0}) || r.Topics[0].Partitions[0].DivergingEpoch.EndOffset != 12 || r.Topics[0].Partitions[0].LogStartOffset != 12 {
			t.Errorf("it ends at the log start, and begins at %d: %+v", start, r)
		}
	}
	if r := follow(12, 12, 12); len(answered(r)) > 0 && r.Topics[0].Partitions[0].DivergingEpoch.EndOffset >= 0 {
		t.Errorf("it begins at the log start: %+v", r)
	}
}
