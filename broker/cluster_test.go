package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
)

func TestDescribeCluster(t *testing.T) {
	a := newAPI(t)
	const absent = -2147483648
	for _, v := range versions(t, protocol.KeyDescribeCluster) {
		c := a.dial()
		for _, asked := range []bool{false, true} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeClusterAuthorizedOperations, req.EndpointType = asked, 1
			resp := c.call(req, v).(*kmsg.DescribeClusterResponse)
			want := int32(absent)
			if asked {
				want = 8096
			}
			if resp.ErrorCode != 0 || resp.ClusterID == "" || resp.ControllerID != 1 || resp.ClusterAuthorizedOperations != want {
				t.Errorf("v%d: %+v", v, resp)
			}
			if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || resp.Brokers[0].Port == 0 || resp.Brokers[0].IsFenced {
				t.Errorf("v%d: brokers %+v", v, resp.Brokers)
			}
		}
		if v == 0 {
			continue
		}
		for endpoint, want := range map[int8]protocol.Code{2: protocol.CodeMismatchedEndpointType, 9: protocol.CodeUnsupportedEndpointType} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = endpoint
			if resp := c.call(req, v).(*kmsg.DescribeClusterResponse); resp.ErrorCode != want || resp.ErrorMessage == nil {
				t.Errorf("v%d endpoint type %d: %d, want %d", v, endpoint, resp.ErrorCode, want)
			}
		}
	}
}

func TestDescribeLogDirs(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("on-disk", 2)
	a.dial().produce(name, 1, plainBatch(10, 1000))
	for _, v := range versions(t, protocol.KeyDescribeLogDirs) {
		c := a.dial()
		req := kmsg.NewPtrDescribeLogDirsRequest()
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0, 1, 9}
		req.Topics = append(req.Topics, rt)
		resp := c.call(req, v).(*kmsg.DescribeLogDirsResponse)
		if v >= 3 && resp.ErrorCode != 0 || len(resp.Dirs) != 1 {
			t.Fatalf("v%d: %+v", v, resp)
		}
		d := resp.Dirs[0]
		if d.ErrorCode != 0 || d.Dir == "" || v >= 4 && (d.TotalBytes <= 0 || d.UsableBytes <= 0 || d.UsableBytes > d.TotalBytes) {
			t.Errorf("v%d: dir %s: code %d, %d of %d bytes", v, d.Dir, d.ErrorCode, d.UsableBytes, d.TotalBytes)
		}
		if len(d.Topics) != 1 || d.Topics[0].Topic != name || len(d.Topics[0].Partitions) != 2 {
			t.Fatalf("v%d: %+v", v, d.Topics)
		}
		for _, p := range d.Topics[0].Partitions {
			if p.OffsetLag != 0 || p.IsFuture || (p.Partition == 1) != (p.Size > 10_000) {
				t.Errorf("v%d: %+v", v, p)
			}
		}
		all := c.call(kmsg.NewPtrDescribeLogDirsRequest(), v).(*kmsg.DescribeLogDirsResponse)
		if len(all.Dirs) != 1 || len(all.Dirs[0].Topics) == 0 {
			t.Errorf("v%d: all: %+v", v, all)
		}
	}
}

func idempotentBatch(id int64, epoch int16, seq int32, n int) record.Batch {
	return batchOf(record.Options{
		Idempotent: true, ProducerID: model.ProducerID(id), ProducerEpoch: model.ProducerEpoch(epoch), BaseSequence: model.Sequence(seq),
	}, model.Timestamp(time.Now().UnixMilli()), make([][]byte, n)...)
}

func TestInitProducerID(t *testing.T) {
	a := newAPI(t)
	seen := map[int64]bool{}
	eventually(t, "the broker has producer ids", func() bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		return a.dial().call(req, 1).(*kmsg.InitProducerIDResponse).ErrorCode != protocol.CodeCoordinatorLoadInProgress
	})
	for _, v := range versions(t, protocol.KeyInitProducerID) {
		c := a.dial()
		for range 3 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = -1, -1
			resp := c.call(req, v).(*kmsg.InitProducerIDResponse)
			if resp.ErrorCode != 0 || resp.ProducerID < 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
				t.Errorf("v%d: %+v", v, resp)
			}
			seen[resp.ProducerID] = true
		}
		if v >= 3 { // an id that the client had before counts for nothing
			req := kmsg.NewPtrInitProducerIDRequest()
			req.ProducerID, req.ProducerEpoch = 7, 3
			if resp := c.call(req, v).(*kmsg.InitProducerIDResponse); resp.ErrorCode != 0 || resp.ProducerID == 7 || resp.ProducerEpoch != 0 {
				t.Errorf("v%d with an old id: %+v", v, resp)
			}
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		empty := ""
		req.TransactionalID, req.TransactionTimeoutMillis = &empty, 1000
		if resp := c.call(req, v).(*kmsg.InitProducerIDResponse); resp.ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("v%d with an empty transactional id: %+v", v, resp)
		}
		if a.kafka() {
			continue
		}
		id := "tx"
		req.TransactionalID = &id
		if resp := c.call(req, v).(*kmsg.InitProducerIDResponse); resp.ErrorCode != protocol.CodeCoordinatorNotAvailable || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Errorf("v%d with a transactional id: %+v", v, resp)
		}
	}
}

func TestDescribeProducers(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("produced", 2)
	c := a.dial()
	c.produce(name, 0, idempotentBatch(9001, 2, 0, 5))
	c.produce(name, 0, idempotentBatch(9001, 2, 5, 3))
	c.produce(name, 0, idempotentBatch(9002, 0, 0, 1))
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, n := range []string{name, a.name("nowhere"), "a b"} {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = n, []int32{0, 1, 7}
		req.Topics = append(req.Topics, rt)
	}
	resp := c.call(req, 0).(*kmsg.DescribeProducersResponse)
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			want := protocol.CodeUnknownTopicOrPartition
			switch {
			case rt.Topic == "a b":
				want = protocol.CodeInvalidTopicException
			case rt.Topic == name && p.Partition < 2:
				want = 0
			}
			if p.ErrorCode != want {
				t.Errorf("%s-%d: code %d, want %d", rt.Topic, p.Partition, p.ErrorCode, want)
			}
			if rt.Topic != name || p.Partition != 0 {
				continue
			}
			if len(p.ActiveProducers) != 2 {
				t.Fatalf("%d producers", len(p.ActiveProducers))
			}
			for _, ap := range p.ActiveProducers {
				wantEpoch, wantSeq := int32(2), int32(7)
				if ap.ProducerID == 9002 {
					wantEpoch, wantSeq = 0, 0
				}
				if ap.ProducerEpoch != wantEpoch || ap.LastSequence != wantSeq || ap.CoordinatorEpoch != -1 || ap.CurrentTxnStartOffset != -1 || ap.LastTimestamp <= 0 {
					t.Errorf("%+v", ap)
				}
			}
		}
	}
}

func TestDescribeQuorum(t *testing.T) {
	a := newAPI(t)
	for _, v := range versions(t, protocol.KeyDescribeQuorum) {
		c := a.dial()
		describe := func(topic string, partition int32) *kmsg.DescribeQuorumResponse {
			req := kmsg.NewPtrDescribeQuorumRequest()
			rt := kmsg.NewDescribeQuorumRequestTopic()
			rt.Topic = topic
			rp := kmsg.NewDescribeQuorumRequestTopicPartition()
			rp.Partition = partition
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			return c.call(req, v).(*kmsg.DescribeQuorumResponse)
		}
		resp := describe("__cluster_metadata", 0)
		if resp.ErrorCode != 0 {
			t.Fatalf("v%d: %+v", v, resp)
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || p.HighWatermark <= 0 {
			t.Errorf("v%d: %+v", v, p)
		}
		if len(p.CurrentVoters) != 1 || p.CurrentVoters[0].ReplicaID != 1 || p.CurrentVoters[0].LogEndOffset < p.HighWatermark || len(p.Observers) != 0 {
			t.Errorf("v%d: voters %+v observers %+v", v, p.CurrentVoters, p.Observers)
		}
		if v >= 2 && (p.CurrentVoters[0].ReplicaDirectoryID == model.NoTopicID || len(resp.Nodes) != 1 || resp.Nodes[0].NodeID != 1) {
			t.Errorf("v%d: directory %v nodes %+v", v, p.CurrentVoters[0].ReplicaDirectoryID, resp.Nodes)
		}
		for _, bad := range []struct {
			topic string
			n     int32
		}{{"__cluster_metadata", 1}, {"nowhere", 0}} {
			resp := describe(bad.topic, bad.n)
			if p := resp.Topics[0].Partitions[0]; resp.ErrorCode != 0 || p.Partition != bad.n || p.ErrorCode != protocol.CodeUnknownTopicOrPartition || len(p.CurrentVoters) != 0 {
				t.Errorf("v%d %s-%d: %+v", v, bad.topic, bad.n, resp)
			}
		}
	}
}

// Transactions and share groups have no coordinators.
func TestFindCoordinatorOfOthers(t *testing.T) {
	a := newAPI(t)
	if a.kafka() {
		t.Skip("Apache Kafka has them")
	}
	for _, v := range versions(t, protocol.KeyFindCoordinator)[1:] {
		c := a.dial()
		for kind := int8(1); kind <= 2; kind++ {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = "g", kind, []string{"g", "h"}
			resp := c.call(req, v).(*kmsg.FindCoordinatorResponse)
			if v < 4 {
				if resp.ErrorCode != protocol.CodeCoordinatorNotAvailable || resp.NodeID != -1 {
					t.Errorf("v%d: %+v", v, resp)
				}
				continue
			}
			if len(resp.Coordinators) != 2 {
				t.Fatalf("v%d: %+v", v, resp)
			}
			for i, want := range []string{"g", "h"} {
				if got := resp.Coordinators[i]; got.Key != want || got.ErrorCode != protocol.CodeCoordinatorNotAvailable || got.NodeID != -1 {
					t.Errorf("v%d: %+v", v, got)
				}
			}
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("epochs", 1)
	c := a.dial()
	c.produce(name, 0, plainBatch(7, 10))
	current := c.metadata(9, false, name).Topics[0].Partitions[0].LeaderEpoch
	tests := []struct {
		what           string
		topic          string
		partition      int32
		current, epoch int32
		code           protocol.Code
		wantEpoch      int32
		end            int64
	}{
		{"current", name, 0, -1, current, 0, current, 7},
		{"current, checked", name, 0, current, current, 0, current, 7},
		{"future", name, 0, -1, current + 5, 0, -1, -1},
		{"undefined", name, 0, -1, -1, 0, -1, -1},
		{"leader epoch too new", name, 0, current + 1, current, protocol.CodeUnknownLeaderEpoch, -1, -1},
		{"unknown partition", name, 3, -1, current, protocol.CodeUnknownTopicOrPartition, -1, -1},
		{"unknown topic", a.name("nowhere"), 0, -1, current, protocol.CodeUnknownTopicOrPartition, -1, -1},
	}
	for _, v := range versions(t, protocol.KeyOffsetForLeaderEpoch) {
		c := a.dial()
		for _, tt := range tests {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.ReplicaID = -1
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = tt.topic
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = tt.partition, tt.current, tt.epoch
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := c.call(req, v).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			if p.ErrorCode != tt.code || p.LeaderEpoch != tt.wantEpoch || p.EndOffset != tt.end {
				t.Errorf("v%d %s: code %d epoch %d end %d, want %d, %d, %d", v, tt.what, p.ErrorCode, p.LeaderEpoch, p.EndOffset, tt.code, tt.wantEpoch, tt.end)
			}
		}
	}
}

// TestOffsetForLeaderEpochAfterRestarts: each start is an epoch; older epochs end
// where the next began, and a fetch that names an old one is fenced.
func TestOffsetForLeaderEpochAfterRestarts(t *testing.T) {
	dir := t.TempDir()
	var epochs []int32
	for i := range 4 {
		b := startBroker(t, dir)
		a := &api{t: t, b: b, addr: b.Addr()}
		if i == 0 {
			a.topic("epochs", 1)
		}
		c := a.dial()
		epochs = append(epochs, c.metadata(9, false, "epochs").Topics[0].Partitions[0].LeaderEpoch)
		if i != 2 { // the third epoch stays empty
			c.produce("epochs", 0, plainBatch(10, 1))
		}
		ends := map[int][]int64{3: {10, 20, 20, 30}}[i]
		for j, end := range ends {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = "epochs"
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.LeaderEpoch, rp.CurrentLeaderEpoch = epochs[j], epochs[i]
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := c.call(req, 4).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			want := epochs[j]
			if j == 2 {
				want = epochs[1] // floor
			}
			if p.ErrorCode != 0 || p.EndOffset != end || p.LeaderEpoch != want {
				t.Errorf("epoch %d: %+v, want end %d epoch %d", epochs[j], p, end, want)
			}
		}
		if i == 3 {
			fenced := fetchOf("epochs", 0, 0, 1<<20)
			fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = epochs[0]
			if p := c.call(fenced, 12).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeFencedLeaderEpoch || p.CurrentLeader.LeaderEpoch != epochs[3] || p.CurrentLeader.LeaderID != 1 {
				t.Errorf("fenced fetch: %+v", p)
			}
			diverging := fetchOf("epochs", 0, 15, 1<<20)
			diverging.Topics[0].Partitions[0].LastFetchedEpoch = epochs[0]
			p := c.call(diverging, 12).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.DivergingEpoch.Epoch != epochs[0] || p.DivergingEpoch.EndOffset != 10 || len(p.RecordBatches) != 0 {
				t.Errorf("diverging fetch: %+v", p)
			}
		}
		stopBroker(t, b)
	}
}
