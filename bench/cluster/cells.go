package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/bench"
)

// figure is one measured number; smaller is better in all of them.
type figure struct {
	name   string
	unit   string
	atMost float64 // of Kafka's
	value  float64
}

// cell is one measurement on a cluster of its own.
type cell struct {
	name string
	run  func(ctx context.Context, c *cluster, scale float64) ([]figure, error)
}

func cells() []cell {
	return []cell{
		{"produce", produce},
		{"failover", failover(false)},
		{"failover-controller", failover(true)},
		{"shutdown", shutdown},
		{"partitions", partitions},
	}
}

// topic creates a topic with min.insync.replicas 2 whose partitions all have the
// same replicas, the first of which leads, and waits until all are in sync.
func (c *cluster) topic(ctx context.Context, name string, count int, replicas ...int32) error {
	if err := c.create(ctx, name, count, replicas...); err != nil {
		return err
	}
	return c.settled(ctx, count, len(replicas), name)
}

func (c *cluster) create(ctx context.Context, name string, count int, replicas ...int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 120_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = name
	if len(replicas) == 0 {
		t.NumPartitions, t.ReplicationFactor = int32(count), size
	} else {
		t.NumPartitions, t.ReplicationFactor = -1, -1
		for p := range count {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(p), replicas
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
	}
	cfg := kmsg.NewCreateTopicsRequestTopicConfig()
	two := "2"
	cfg.Name, cfg.Value = "min.insync.replicas", &two
	t.Configs = append(t.Configs, cfg)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// settled waits until every partition of the topics has a leader and all its
// replicas in sync.
func (c *cluster) settled(ctx context.Context, count, replicas int, names ...string) error {
	return until(ctx, 300*time.Second, func() error {
		m, err := c.admin.Metadata(ctx, names...)
		if err != nil {
			return err
		}
		for _, name := range names {
			t := m.Topics[name]
			if t.Err != nil {
				return t.Err
			}
			if len(t.Partitions) != count {
				return fmt.Errorf("%d partitions of %s", len(t.Partitions), name)
			}
			for _, p := range t.Partitions {
				if p.Err != nil || p.Leader < 0 || len(p.ISR) < replicas {
					return fmt.Errorf("%s-%d: leader %d, isr %v, %w", name, p.Partition, p.Leader, p.ISR, errors.Join(p.Err, errNotYet))
				}
			}
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

// produce measures acks=all: the CPU of all brokers as fast as one connection goes,
// and the latency at a load that all can carry.
func produce(ctx context.Context, c *cluster, scale float64) ([]figure, error) {
	if err := c.topic(ctx, "replicated", 1, 1, 2, 3); err != nil {
		return nil, err
	}
	load := bench.Replicated{Addr: c.addr(1), Topic: "replicated", Batch: 64 << 10, Depth: 4, Requests: max(100, int(6000*scale))}
	warm := load
	warm.Requests = max(50, load.Requests/4)
	if _, err := warm.Run(); err != nil {
		return nil, err
	}
	before, err := c.usage()
	if err != nil {
		return nil, err
	}
	full, err := load.Run()
	if err != nil {
		return nil, err
	}
	after, err := c.usage()
	if err != nil {
		return nil, err
	}
	paced := bench.Replicated{
		Addr: c.addr(1), Topic: "replicated", Batch: 16 << 10,
		Requests: max(200, int(3000*scale)), Every: 5 * time.Millisecond,
	}
	lat, err := paced.Run()
	if err != nil {
		return nil, err
	}
	return []figure{
		{"acks=all, 64 KiB batches, depth 4: CPU of the three brokers", "s/GB", 1. / 2, (after.CPU - before.CPU).Seconds() / (float64(full.Bytes) / 1e9)},
		{"the same: seconds a GB", "s/GB", 1, full.Elapsed.Seconds() / (float64(full.Bytes) / 1e9)},
		{"acks=all, 16 KiB every 5 ms: p50", "ms", 1, lat.P50.Seconds() * 1e3},
		{"acks=all, 16 KiB every 5 ms: p99", "ms", 1. / 3, lat.P99.Seconds() * 1e3},
	}, nil
}

// controller returns the node that is the active controller.
func (c *cluster) controller(ctx context.Context) (int, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	var leader int
	err := until(ctx, 30*time.Second, func() error {
		resp, err := req.RequestWith(ctx, c.client)
		if err != nil {
			return err
		}
		if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
			return errNotYet
		}
		if leader = int(resp.Topics[0].Partitions[0].LeaderID); leader < 1 {
			return errNotYet
		}
		return nil
	})
	return leader, err
}

// failover measures from the kill of a leader to the first record that its
// successor acknowledges with acks=all.
func failover(ofController bool) func(context.Context, *cluster, float64) ([]figure, error) {
	return func(ctx context.Context, c *cluster, _ float64) ([]figure, error) {
		active, err := c.controller(ctx)
		if err != nil {
			return nil, err
		}
		victim := active
		if !ofController {
			victim = active%size + 1
		}
		others := []int32{int32(victim)}
		var left []string
		for id := 1; id <= size; id++ {
			if id != victim {
				others = append(others, int32(id))
				left = append(left, c.addr(id))
			}
		}
		if err := c.topic(ctx, "failover", 1, others...); err != nil {
			return nil, err
		}
		if _, err := bench.FirstAcknowledged([]string{c.addr(victim)}, "failover", 10*time.Second); err != nil {
			return nil, err
		}
		began := time.Now()
		c.nodes[victim-1].Kill()
		at, err := bench.FirstAcknowledged(left, "failover", 90*time.Second)
		if err != nil {
			return nil, err
		}
		name := "failover after kill -9 of a leader"
		if ofController {
			name = "failover after kill -9 of a leader that is the active controller"
		}
		return []figure{{name, "ms", 1. / 10, at.Sub(began).Seconds() * 1e3}}, nil
	}
}

// shutdown measures the orderly stop of a broker that leads two thousand
// partitions.
func shutdown(ctx context.Context, c *cluster, scale float64) ([]figure, error) {
	count := max(10, int(2000*scale))
	active, err := c.controller(ctx)
	if err != nil {
		return nil, err
	}
	leaves := active%size + 1
	others := []int32{int32(leaves)}
	for id := 1; id <= size; id++ {
		if id != leaves {
			others = append(others, int32(id))
		}
	}
	if err := c.topic(ctx, "led", count, others...); err != nil {
		return nil, err
	}
	took, err := c.interrupt(leaves)
	return []figure{{fmt.Sprintf("controlled shutdown leading %d partitions", count), "ms", 1. / 5, took.Seconds() * 1e3}}, err
}

// interrupt asks a node to end, and measures how long it takes.
func (c *cluster) interrupt(id int) (time.Duration, error) {
	began := time.Now()
	if err := c.nodes[id-1].Signal(os.Interrupt); err != nil {
		return 0, err
	}
	_, err := c.nodes[id-1].Wait(240 * time.Second)
	return time.Since(began), err
}

// partitions measures ten topics of a thousand partitions: making them, resting
// with them, and the orderly stop and the start of one broker.
func partitions(ctx context.Context, c *cluster, scale float64) ([]figure, error) {
	each := max(10, int(1000*scale))
	var names []string
	began := time.Now()
	for i := range 10 {
		name := fmt.Sprintf("many-%d", i)
		if err := c.create(ctx, name, each); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if err := c.settled(ctx, each, size, names...); err != nil {
		return nil, err
	}
	created := time.Since(began)
	c.client.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.addrs()...))
	if err != nil {
		return nil, err
	}
	c.client = client
	rest := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	rest(10 * time.Second)
	before, err := c.usage()
	if err != nil {
		return nil, err
	}
	rest(20 * time.Second)
	after, err := c.usage()
	if err != nil {
		return nil, err
	}
	active, err := c.controller(ctx)
	if err != nil {
		return nil, err
	}
	leaves := active%size + 1
	stopped, err := c.interrupt(leaves)
	if err != nil {
		return nil, err
	}
	began = time.Now()
	if err := c.launch(ctx, leaves); err != nil {
		return nil, err
	}
	if err := c.answers(ctx, leaves); err != nil {
		return nil, err
	}
	started := time.Since(began)
	return []figure{
		{fmt.Sprintf("%d partitions × 3: created and in sync", 10*each), "s", 1. / 5, created.Seconds()},
		{"idle: CPU of the three brokers", "% of a core", 1. / 10, (after.CPU - before.CPU).Seconds() / 20 * 100},
		{"idle: resident size of the largest broker", "MiB", 1, float64(after.RSS) / (1 << 20)},
		{fmt.Sprintf("controlled shutdown of a broker of %d partitions", 10*each), "ms", 1. / 5, stopped.Seconds() * 1e3},
		{"its start, to the first ApiVersions answer", "ms", 1. / 30, started.Seconds() * 1e3},
	}, nil
}
