package broker

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/protocol"
)

// three is a cluster of three nodes in this process, each with its own sockets.
type three struct {
	t     *testing.T
	dir   string
	ports []int // client and controller port of each node
	roles []string
	set   []string
	nodes [4]*Broker // by node id
}

// newThree starts nodes 1, 2 and 3, each broker and controller.
func newThree(t *testing.T, set ...string) *three {
	return newThreeAs(t, []string{"broker,controller", "broker,controller", "broker,controller"}, set...)
}

func newThreeAs(t *testing.T, roles []string, set ...string) *three {
	t.Helper()
	c := &three{t: t, dir: t.TempDir(), roles: roles, set: set}
	first, err := proc.FreePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		c.ports = append(c.ports, first+i)
	}
	t.Cleanup(func() {
		for id := 1; id <= 3; id++ {
			if c.nodes[id] != nil {
				c.kill(id)
			}
		}
	})
	c.start(1, 2, 3)
	return c
}

func (c *three) settings(id int) *config.Broker {
	c.t.Helper()
	voters := ""
	for i, r := range c.roles {
		if r != "broker" {
			voters += fmt.Sprintf(",%d@127.0.0.1:%d", i+1, c.ports[2*i+1])
		}
	}
	listeners, role := "", c.roles[id-1]
	if role != "controller" {
		listeners += fmt.Sprintf(",PLAINTEXT://127.0.0.1:%d", c.ports[2*id-2])
	}
	if role != "broker" {
		listeners += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", c.ports[2*id-1])
	}
	dir := filepath.Join(c.dir, fmt.Sprint(id))
	flags := append([]string{
		fmt.Sprintf("node.id=%d", id), "process.roles=" + role, "listeners=" + listeners[1:],
		"controller.listener.names=CONTROLLER", "controller.quorum.voters=" + voters[1:],
		"log.dirs=" + dir, "tidemark.kept.dir=" + dir + "/.kept",
		"default.replication.factor=3", "min.insync.replicas=2", "broker.heartbeat.interval.ms=500",
	}, c.set...)
	settings, _, _, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		c.t.Fatal(err)
	}
	return settings
}

// start starts nodes at once and waits until they serve.
func (c *three) start(ids ...int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		b, err := New(Config{Settings: c.settings(id), Logger: zaptest.NewLogger(c.t, zaptest.Level(zap.InfoLevel)).Named(fmt.Sprint("n", id))})
		if err != nil {
			c.t.Fatal(err)
		}
		c.nodes[id] = b
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = b.Start(ctx)
		}()
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			c.t.Fatalf("node %d: %v", ids[i], err)
		}
	}
}

// kill ends a node as the kernel ends a process: its sockets close, nothing is
// said and nothing is flushed.
func (c *three) kill(id int) {
	b := c.nodes[id]
	c.nodes[id] = nil
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.server.Shutdown(now)
	if b.hangUp != nil {
		b.hangUp()
	}
	_ = b.Halt(false)
	b.clock.Stop()
}

// stop stops a node in order.
func (c *three) stop(id int) {
	c.t.Helper()
	stopBroker(c.t, c.nodes[id])
	c.nodes[id] = nil
}

func (c *three) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for id := 1; id <= 3; id++ {
		if c.roles[id-1] != "controller" {
			seeds = append(seeds, fmt.Sprintf("127.0.0.1:%d", c.ports[2*id-2]))
		}
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DialTimeout(time.Second),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// createAt creates a topic of one partition through a broker.
func (c *three) createAt(id int, name string, replicas ...int32) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, -1, -1
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = replicas
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	req.Topics = append(req.Topics, rt)
	resp := rawDial(c.t, c.nodes[id]).call(req, 7).(*kmsg.CreateTopicsResponse)
	if code := resp.Topics[0].ErrorCode; code != protocol.CodeNone {
		c.t.Fatalf("create %s at %d: code %d %v", name, id, code, resp.Topics[0].ErrorMessage)
	}
}

// partition returns partition 0 as a broker describes it.
func (c *three) partition(at int, topic string) kmsg.MetadataResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp := rawDial(c.t, c.nodes[at]).call(req, 12).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kmsg.MetadataResponseTopicPartition{Leader: -1}
	}
	return resp.Topics[0].Partitions[0]
}

func (c *three) awaitISR(at int, topic string, n int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the in-sync set of %s has %d members at %d", topic, n, at), func() bool {
		return len(c.partition(at, topic).ISR) == n
	})
}

// active returns the node whose controller is active.
func (c *three) active() int {
	c.t.Helper()
	found := 0
	eventually(c.t, "there is an active controller", func() bool {
		for id := 1; id <= 3; id++ {
			if b := c.nodes[id]; b != nil && b.voter != nil && b.quorum.Describe().Active {
				found = id
			}
		}
		return found != 0
	})
	return found
}

func (c *three) produce(cl *kgo.Client, topic string, from, n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "v%d", from+i)})
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		c.t.Fatalf("produce to %s: %v", topic, err)
	}
}

// consume reads n records and checks that they are those that were produced.
func (c *three) consume(topic string, n int, opts ...kgo.Opt) {
	c.t.Helper()
	cl := c.client(append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for got := 0; got < n; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			c.t.Fatalf("fetch after %d of %d records: %v", got, n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprintf("v%d", got); string(r.Value) != want {
				c.t.Fatalf("record %d at offset %d is %s, want %s", got, r.Offset, r.Value, want)
			}
			got++
		})
	}
}

func TestThreeNodesAreOneCluster(t *testing.T) {
	c := newThree(t)
	cl := c.client()
	id := c.nodes[1].ClusterID()
	for n := 1; n <= 3; n++ {
		if got := c.nodes[n].ClusterID(); got != id || id == "" {
			t.Errorf("node %d is in cluster %q, node 1 in %q", n, got, id)
		}
	}
	// A topic can be written through the broker that was asked to create it, at
	// once, whichever node decides.
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("at-%d", n)
		c.createAt(n, name, int32(n), int32(n%3+1), int32((n+1)%3+1))
		resp := rawDial(t, c.nodes[n]).produceAll(name, plainBatch(3, 10))
		if resp.ErrorCode != protocol.CodeNone {
			t.Errorf("produce to %s at once: code %d", name, resp.ErrorCode)
		}
		if p := c.partition(n, name); p.Leader != int32(n) || len(p.ISR) != 3 {
			t.Errorf("%s: leader %d isr %v", name, p.Leader, p.ISR)
		}
	}
	c.createAt(1, "orders", 1, 2, 3)
	c.produce(cl, "orders", 0, 1000)
	c.consume("orders", 1000)
	for n := 1; n <= 3; n++ {
		h := c.nodes[n].Replicas().Get("orders", 0)
		eventually(t, fmt.Sprintf("node %d has all records", n), func() bool {
			s := h.State()
			return s.LogEnd == 1000 && s.HighWatermark == 1000
		})
	}
}

func TestLeaderIsKilled(t *testing.T) {
	for _, who := range []string{"a broker", "the active controller"} {
		t.Run(who, func(t *testing.T) {
			c := newThree(t)
			victim := c.active()
			if who == "a broker" {
				victim = victim%3 + 1
			}
			other := victim%3 + 1
			third := other%3 + 1
			c.createAt(other, "orders", int32(victim), int32(other), int32(third))
			cl := c.client()
			c.produce(cl, "orders", 0, 100)
			began := time.Now()
			c.kill(victim)
			eventually(t, "another leads", func() bool {
				leader := c.partition(other, "orders").Leader
				return leader >= 0 && leader != int32(victim)
			})
			led := time.Since(began)
			c.produce(cl, "orders", 100, 100)
			t.Logf("%s killed: led again after %v, written to after %v", who, led, time.Since(began))
			c.consume("orders", 200)
			c.awaitISR(other, "orders", 2)
			c.start(victim)
			c.awaitISR(other, "orders", 3)
			c.produce(cl, "orders", 200, 10)
			c.consume("orders", 210)
		})
	}
}

func TestOrderlyStopHandsOver(t *testing.T) {
	c := newThree(t)
	c.createAt(1, "orders", 2, 1, 3)
	cl := c.client()
	c.produce(cl, "orders", 0, 10)
	began := time.Now()
	c.stop(2)
	t.Logf("stopped in %v", time.Since(began))
	if p := c.partition(1, "orders"); p.Leader == 2 || p.Leader < 0 || len(p.ISR) != 2 {
		t.Errorf("after the stop: leader %d isr %v", p.Leader, p.ISR)
	}
	c.produce(cl, "orders", 10, 10)
	c.start(2)
	c.awaitISR(1, "orders", 3)
	c.consume("orders", 20)
}

func TestBrokersAndControllersApart(t *testing.T) {
	c := newThreeAs(t, []string{"controller", "broker", "broker"}, "default.replication.factor=2")
	cl := c.client(kgo.AllowAutoTopicCreation())
	c.produce(cl, "auto", 0, 100)
	c.consume("auto", 100)
	if p := c.partition(2, "auto"); len(p.Replicas) != 2 || len(p.ISR) != 2 {
		t.Errorf("replicas %v isr %v", p.Replicas, p.ISR)
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	rt := kmsg.NewDescribeQuorumRequestTopic()
	rt.Topic = "__cluster_metadata"
	rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	resp := rawDial(t, c.nodes[3]).call(req, 2).(*kmsg.DescribeQuorumResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].LeaderID != 1 {
		t.Errorf("the quorum as broker 3 tells it: %+v", resp)
	}
}

// produceAll sends one batch to partition 0 with acks=all and no retry.
func (c *rawConn) produceAll(topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return c.call(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}
