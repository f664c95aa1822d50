package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
)

// restartOn has a node come back on a disk with faults.
func (c *three) restartOn(id int, inj faultfs.Injector) *Broker {
	c.t.Helper()
	c.stop(id)
	group := new(lifecycle.Group)
	clock := realtime.New(group)
	b, err := New(Config{
		Settings: c.settings(id), Logger: zaptest.NewLogger(c.t, zaptest.Level(zap.InfoLevel)).Named(fmt.Sprint("n", id)),
		World: &World{
			RT: clock, FS: faultfs.Wrap(osfs.New(), inj), Group: group, Machine: host.ThisMachine(),
			Rand: rand.New(rand.NewPCG(1, 2)),
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	b.clock = clock
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.nodes[id] = b
	return b
}

// TestStalledLeaderIsReplaced: a leader whose disk does not answer hands over, and
// is in sync again as a follower once it does.
func TestStalledLeaderIsReplaced(t *testing.T) {
	c := newThree(t, "tidemark.io.stall.timeout.ms=1000")
	hang := make(chan struct{})
	fault := faultfs.NewToggle(faultfs.When(
		faultfs.And(faultfs.Under(filepath.Join(c.dir, "2", "orders-0")), faultfs.OpIn(faultfs.OpWrite)),
		faultfs.Stall(func(faultfs.Op) { <-hang })))
	c.restartOn(2, fault)
	c.createAt(1, "orders", 2, 1, 3)
	c.createAt(1, "other", 2, 1, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	fault.On()
	c.produce(cl, "orders", 10, 10) // as soon as another leads
	if p := c.partition(1, "orders"); p.Leader != 1 || slices.Contains(p.ISR, 2) {
		t.Errorf("leader %d, in sync %v", p.Leader, p.ISR)
	}
	if p := c.partition(1, "other"); p.Leader != 2 {
		t.Errorf("what is not stalled was given up too: leader %d", p.Leader)
	}
	fault.Off()
	close(hang)
	c.awaitISR(1, "orders", 3)
	c.produce(cl, "orders", 20, 10)
	c.consume("orders", 30)
}

// TestQuarantinedLeaderIsReplaced: a leader whose disk fails one partition tells
// the controller at once, and another replica leads.
func TestQuarantinedLeaderIsReplaced(t *testing.T) {
	c := newThree(t, "broker.heartbeat.interval.ms=20000", "broker.session.timeout.ms=60000")
	fault := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Under(filepath.Join(c.dir, "2", "orders-0")), faultfs.Mutations()), faultfs.EIO()))
	b := c.restartOn(2, fault)
	c.createAt(1, "orders", 2, 1, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	fault.On()
	resp := rawDial(t, b).produceAll("orders", plainBatch(1, 10))
	if resp.ErrorCode != protocol.CodeKafkaStorageError {
		t.Errorf("a write that fails: code %d", resp.ErrorCode)
	}
	eventually(t, "another leads", func() bool {
		p := c.partition(1, "orders")
		return p.Leader == 1 && len(p.ISR) == 2
	})
	c.produce(cl, "orders", 10, 10)
	c.consume("orders", 20)
	fault.Off()
	fault.Off()
}

// strikes fails so many writes of a partition's segment as there are left.
type strikes struct {
	dir  string
	left atomic.Int32
}

func (*strikes) String() string { return "(strikes)" }

func (s *strikes) Decide(op faultfs.Op) *faultfs.Fault {
	if op.Kind == faultfs.OpWrite && filepath.Dir(op.Path) == s.dir && filepath.Ext(op.Path) == ".log" && s.left.Load() > 0 {
		s.left.Add(-1)
		return faultfs.EIO()
	}
	return nil
}

// TestQuarantinedTwice: a replica that was filled anew, is in sync again, and fails
// again, is told of again: it does not stay a member until its leader finds that it is
// behind.
func TestQuarantinedTwice(t *testing.T) {
	c := newThree(t, "broker.heartbeat.interval.ms=500")
	fault := &strikes{dir: filepath.Join(c.dir, "2", "orders-0")}
	c.restartOn(2, fault)
	c.createAt(1, "orders", 1, 2, 3)
	cl := c.client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	members := func(n int) func() bool {
		return func() bool { return len(c.partition(1, "orders").ISR) == n }
	}
	for n := range 2 {
		eventually(t, "all are in sync", members(3))
		fault.left.Store(1)
		c.produce(cl, "orders", 10*n, 10)
		eventually(t, "the one that failed is out", members(2))
	}
	// It is to be filled anew in a minute. Nobody waits for it until the lag time is over.
	began := time.Now()
	c.produce(c.client(), "orders", 20, 10)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("what the members have was acknowledged after %v", took)
	}
}

// TestQuarantinedWhileFilledAnew: a replica that fails while it is filled anew, and is no
// member, is told of too: it is filled anew again only in a later leader epoch.
func TestQuarantinedWhileFilledAnew(t *testing.T) {
	c := newThree(t, "broker.heartbeat.interval.ms=500")
	fault := &strikes{dir: filepath.Join(c.dir, "2", "orders-0")}
	c.restartOn(2, fault)
	c.createAt(1, "orders", 1, 2, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	first := c.partition(1, "orders").LeaderEpoch
	fault.left.Store(2)
	c.produce(cl, "orders", 10, 10)
	eventually(t, "each failure costs a leader epoch", func() bool {
		p := c.partition(1, "orders")
		return p.Leader == 1 && p.LeaderEpoch >= first+2 && len(p.ISR) == 2 && fault.left.Load() == 0
	})
}

func TestRecordsAreDeletedEverywhere(t *testing.T) {
	c := newThree(t)
	c.createAt(1, "orders", 1, 2, 3)
	c.produce(c.client(), "orders", 0, 100)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = "orders"
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = 50
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if p := rawDial(t, c.nodes[1]).call(req, 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != 50 {
		t.Errorf("%+v", p)
	}
	for id := 1; id <= 3; id++ {
		if start := c.nodes[id].Replicas().Get("orders", 0).State().LogStart; start != 50 {
			t.Errorf("node %d keeps records from %d on", id, start)
		}
	}
	if p := rawDial(t, c.nodes[2]).call(req, 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeNotLeaderOrFollower {
		t.Errorf("asked of a follower: %+v", p)
	}
}

// TestLeadersAreNamed: a broker that has no replica of a partition says who leads
// it (KIP-951).
func TestLeadersAreNamed(t *testing.T) {
	c := newThree(t, "min.insync.replicas=1")
	c.createAt(1, "far", 2)
	eventually(t, "broker 3 knows of it", func() bool { return c.nodes[3].Image().Topic("far") != nil })
	id := c.nodes[3].Image().Topic("far").ID
	fetch := fetchOf("far", 0, 0, 1<<20)
	fetch.Topics[0].TopicID = id
	f := rawDial(t, c.nodes[3]).call(fetch, 16).(*kmsg.FetchResponse)
	if p := f.Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeNotLeaderOrFollower || p.CurrentLeader.LeaderID != 2 || len(f.Brokers) != 3 {
		t.Errorf("fetch: code %d, leader %d, %d brokers", p.ErrorCode, p.CurrentLeader.LeaderID, len(f.Brokers))
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "far"
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = plainBatch(1, 10)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	w := rawDial(t, c.nodes[3]).call(req, 10).(*kmsg.ProduceResponse)
	if p := w.Topics[0].Partitions[0]; p.ErrorCode != protocol.CodeNotLeaderOrFollower || p.CurrentLeader.LeaderID != 2 || len(w.Brokers) != 3 {
		t.Errorf("produce: code %d, leader %d, %d brokers", p.ErrorCode, p.CurrentLeader.LeaderID, len(w.Brokers))
	}
}

// TestDamagedLeaderIsReplaced: the disk of a leader gives other bytes than were
// written. A follower notices, the leader looks and gives up its seat, another
// leads, no consumer is shown the damage from then on, and the damaged replica is
// filled anew from the one that leads.
func TestDamagedLeaderIsReplaced(t *testing.T) {
	c := newThree(t, "replica.lag.time.max.ms=1000")
	c.createAt(1, "orders", 2, 1, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	c.stop(3)
	c.awaitISR(1, "orders", 2)
	c.produce(cl, "orders", 10, 10)
	path := filepath.Join(c.dir, "2", "orders-0", "00000000000000000000.log")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("rot"), info.Size()-8); err != nil {
		t.Fatal(err)
	}
	c.start(3)
	eventually(t, "another leads", func() bool {
		p := c.partition(1, "orders")
		return p.Leader == 1 && slices.Contains(p.ISR, 3) && len(p.ISR) == 2
	})
	c.produce(cl, "orders", 20, 10)
	c.consume("orders", 30)
	eventually(t, "the damaged replica is back", func() bool { return slices.Contains(c.partition(1, "orders").ISR, 2) })
	resp := rawDial(t, c.nodes[2]).call(fetchOf("orders", 0, 15, 1<<20), 12).(*kmsg.FetchResponse)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Fatalf("a consumer of the replica that is back is answered %d, with %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	for it := record.NewIter(p.RecordBatches); it.Next(); {
		if err := it.Batch().CheckCRC(); err != nil {
			t.Errorf("a consumer is shown %v", err)
		}
	}
	if old, err := filepath.Glob(filepath.Join(c.dir, "2", "orders-0.*-stray", "00000000000000000000.damaged")); err == nil && len(old) == 0 {
		kept, _, err := receipt.Read(osfs.New(), filepath.Join(c.dir, "2", ".kept"))
		if err != nil || !slices.ContainsFunc(kept, func(r receipt.Receipt) bool { return r.Cause == receipt.Refill }) {
			t.Errorf("the damaged files are neither aside nor in the kept bytes: %v, %v", kept, err)
		}
	}
}
