package tidemarktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/internal/lifecycle"
)

// Options say what to run. The zero value is one node in memory.
type Options struct {
	// Nodes is how many form the cluster, each with a vote; 0 is one.
	Nodes int
	// Set are settings KEY=VALUE of every node, by the names of Kafka's
	// server.properties. They win over what this package sets: with three nodes
	// or more topics have three replicas, and acks=all waits for two.
	Set []string
	// Dir keeps the nodes' data, each in a directory of its own below it; empty
	// is in memory.
	Dir string
	// Logger gets the nodes' events; nil drops them.
	Logger *zap.Logger
}

// Cluster is some nodes. Its methods are for one goroutine.
type Cluster struct {
	nodes []*node
}

// node is one broker and controller, over all its lives.
type node struct {
	config broker.Config
	addr   string
	broker *broker.Broker // nil while it doesn't run
}

// patience bounds every step of a cluster that a test waits for.
const patience = 30 * time.Second

// New prepares a cluster and starts nothing.
func New(o Options) (*Cluster, error) {
	n := max(o.Nodes, 1)
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	replicas := min(n, 3)
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[n+i]))
	}
	c := &Cluster{}
	for i := range n {
		nd := &node{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i]))}
		set := []string{
			"node.id=" + strconv.Itoa(i+1), "listeners=PLAINTEXT://" + nd.addr,
			fmt.Sprintf("default.replication.factor=%d", replicas), fmt.Sprintf("min.insync.replicas=%d", max(1, replicas-1)),
		}
		if n > 1 {
			set[1] += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", ports[n+i])
			set = append(set, "controller.listener.names=CONTROLLER", "controller.quorum.voters="+strings.Join(voters, ","))
		}
		nd.config = broker.Config{Logger: o.Logger}
		if o.Dir == "" {
			nd.config.FS = broker.InMemory()
			set = append(set, "log.dirs=/log", "tidemark.kept.dir=/kept")
		} else {
			dir := filepath.Join(o.Dir, fmt.Sprintf("node-%d", i+1))
			set = append(set, "log.dirs="+filepath.Join(dir, "log"), "tidemark.kept.dir="+filepath.Join(dir, "kept"))
		}
		nd.config.Set = append(set, o.Set...)
		c.nodes = append(c.nodes, nd)
	}
	return c, nil
}

// Start runs a cluster until the test ends. What goes wrong fails the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatalf("tidemarktest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("tidemarktest: stop: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatalf("tidemarktest: start: %v", err)
	}
	return c
}

// Start starts every node that doesn't run, all at once, since a quorum needs
// more than one to come up. When it returns without an error, all serve clients.
func (c *Cluster) Start(ctx context.Context) error {
	var all []int
	for i, n := range c.nodes {
		if n.broker == nil {
			all = append(all, i)
		}
	}
	return c.each(all, func(n *node) error { return n.start(ctx) })
}

// Stop stops every node that runs, in order.
func (c *Cluster) Stop(ctx context.Context) error {
	var all []int
	for i, n := range c.nodes {
		if n.broker != nil {
			all = append(all, i)
		}
	}
	return c.each(all, func(n *node) error { return n.stop(ctx) })
}

// each does something to several nodes at the same time.
func (c *Cluster) each(which []int, do func(*node) error) error {
	var group lifecycle.Group
	errs := make([]error, len(which))
	for k, i := range which {
		group.Go("node", func() {
			if err := do(c.nodes[i]); err != nil {
				errs[k] = fmt.Errorf("node %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (n *node) start(ctx context.Context) error {
	b, err := broker.New(n.config)
	if err != nil {
		return err
	}
	if err := b.Start(ctx); err != nil {
		return err
	}
	n.broker = b
	return nil
}

func (n *node) stop(ctx context.Context) error {
	b := n.broker
	n.broker = nil
	return b.Stop(ctx)
}

// Addrs returns the addresses that clients connect to, those of nodes that don't
// run among them.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.addr)
	}
	return all
}

// StopNode stops a node in order. The first is node 1, as its node.id says.
func (c *Cluster) StopNode(ctx context.Context, id int) error {
	n := c.nodes[id-1]
	if n.broker == nil {
		return fmt.Errorf("node %d doesn't run", id)
	}
	return n.stop(ctx)
}

// KillNode ends a node as kill -9 does: connections break, nothing is flushed or
// handed over, and its disk is left as it is.
func (c *Cluster) KillNode(ctx context.Context, id int) error {
	n := c.nodes[id-1]
	if n.broker == nil {
		return fmt.Errorf("node %d doesn't run", id)
	}
	b := n.broker
	n.broker = nil
	return b.Kill(ctx)
}

// StartNode starts a node again, with its old disk and address.
func (c *Cluster) StartNode(ctx context.Context, id int) error {
	n := c.nodes[id-1]
	if n.broker != nil {
		return fmt.Errorf("node %d runs", id)
	}
	return n.start(ctx)
}

// Ports from which nodes get theirs: outside the range that kernels hand to
// outgoing connections, so that nobody takes one while its node is down.
const (
	portMin = 20000
	portMax = 32000
)

// freePorts returns n ports that nothing listens on now, on the IPv4 loopback.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		p := portMin + rand.IntN(portMax-portMin)
		if slices.Contains(ports, p) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		_ = l.Close()
		ports = append(ports, p)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports on the loopback")
}
