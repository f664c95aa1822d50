package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/bench"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// size of a cluster: every node is broker and controller.
const size = 3

// maker starts nodes of one kind of broker.
type maker struct {
	name string
	// launch starts node id, of a cluster whose ports begin at first, in dir.
	launch func(ctx context.Context, dir string, id, first int, voters string) (*proc.Process, error)
}

// cluster is three running nodes.
type cluster struct {
	maker  *maker
	dir    string
	first  int // port of node 1; each node has two
	voters string
	nodes  [size]*proc.Process
	client *kgo.Client
	admin  *kadm.Client
}

func (c *cluster) addr(id int) string { return fmt.Sprintf("127.0.0.1:%d", c.first+2*(id-1)) }

func (c *cluster) addrs() []string { return []string{c.addr(1), c.addr(2), c.addr(3)} }

// start starts a new cluster in an empty directory and waits until it has three
// brokers.
func (m *maker) start(ctx context.Context, dir string) (*cluster, error) {
	first, err := proc.FreePorts(2 * size)
	if err != nil {
		return nil, err
	}
	c := &cluster{maker: m, dir: dir, first: first}
	for id := 1; id <= size; id++ {
		if id > 1 {
			c.voters += ","
		}
		c.voters += fmt.Sprintf("%d@127.0.0.1:%d", id, first+2*(id-1)+1)
	}
	for id := 1; id <= size; id++ {
		if err := c.launch(ctx, id); err != nil {
			c.stop()
			return nil, err
		}
	}
	if c.client, err = kgo.NewClient(kgo.SeedBrokers(c.addrs()...), kgo.MetadataMinAge(50*time.Millisecond)); err != nil {
		c.stop()
		return nil, err
	}
	c.admin = kadm.NewClient(c.client)
	err = until(ctx, 120*time.Second, func() error {
		brokers, err := c.admin.ListBrokers(ctx)
		if err == nil && len(brokers) < size {
			err = fmt.Errorf("%d brokers", len(brokers))
		}
		return err
	})
	if err != nil {
		said := ""
		for _, n := range c.nodes {
			said += "\n" + proc.Tail(n.Stderr.String()+n.Stdout.String(), 10)
		}
		c.stop()
		return nil, fmt.Errorf("%s cluster: %w%s", m.name, err, said)
	}
	return c, nil
}

func (c *cluster) launch(ctx context.Context, id int) error {
	dir := filepath.Join(c.dir, fmt.Sprint(id))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	p, err := c.maker.launch(ctx, dir, id, c.first, c.voters)
	c.nodes[id-1] = p
	return err
}

// stop kills every node. What they wrote stays until the whole run is over: for six
// minutes after files were removed ext4 looks for other inodes than theirs, at a
// millisecond for each that is made.
func (c *cluster) stop() {
	if c.client != nil {
		c.client.Close()
	}
	for _, n := range c.nodes {
		if n != nil {
			n.Kill()
		}
	}
}

// answers waits until a node answers ApiVersions.
func (c *cluster) answers(ctx context.Context, id int) error {
	return until(ctx, 300*time.Second, func() error {
		if c.nodes[id-1].Ended() {
			return fmt.Errorf("node %d has ended", id)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(c.addr(id)))
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return client.Ping(ctx)
	})
}

// usage adds up what the nodes have used; the resident size is the largest of
// one node.
func (c *cluster) usage() (u bench.Usage, err error) {
	for _, n := range c.nodes {
		if n == nil || n.Ended() {
			continue
		}
		one, err := bench.ReadUsage(n.Pid())
		if err != nil {
			return u, err
		}
		u.CPU += one.CPU
		u.RSS = max(u.RSS, one.RSS)
	}
	return u, nil
}

// until polls a condition from outside, which is all one can do.
func until(ctx context.Context, patience time.Duration, done func() error) error {
	end := time.Now().Add(patience)
	for {
		err := done()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %w", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func tidemark(bin string) *maker {
	return &maker{name: "tidemark", launch: func(_ context.Context, dir string, id, first int, voters string) (*proc.Process, error) {
		port := first + 2*(id-1)
		return proc.Start(dir, nil, bin, "serve", "--data-dir", dir,
			"--set", "process.roles=broker,controller", "--set", fmt.Sprintf("node.id=%d", id),
			"--set", "controller.quorum.voters="+voters, "--set", "controller.listener.names=CONTROLLER",
			"--set", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, port+1))
	}}
}

// kafkaFlags are those of Kafka's own start script.
var kafkaFlags = []string{"-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"}

func apacheKafka(jars kafka.Jars) *maker {
	return &maker{name: "kafka", launch: func(ctx context.Context, dir string, id, first int, voters string) (*proc.Process, error) {
		o := kafka.Options{
			Dir: dir, Port: first + 2*(id-1), Flags: kafkaFlags, Voters: voters,
			Set: map[string]string{"node.id": fmt.Sprint(id)},
		}
		if err := jars.Format(ctx, o); err != nil {
			return nil, err
		}
		return jars.Launch(o)
	}}
}
