package target

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
)

// Cluster is several nodes of Tidemark, each broker and controller, with ids
// from 1 on.
type Cluster struct {
	Nodes []*Node
}

// NewCluster prepares a cluster of n nodes that keep everything in dir. It is
// not started yet.
func NewCluster(binary, dir string, n int, set map[string]string) (*Cluster, error) {
	port, err := proc.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, port+2*i+1))
	}
	for i := range n {
		own := map[string]string{
			"process.roles":             "broker,controller",
			"node.id":                   fmt.Sprint(i + 1),
			"listeners":                 fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port+2*i, port+2*i+1),
			"controller.listener.names": "CONTROLLER",
			"controller.quorum.voters":  strings.Join(voters, ","),
		}
		for k, v := range set {
			own[k] = v
		}
		base := filepath.Join(dir, fmt.Sprintf("node%d", i+1))
		c.Nodes = append(c.Nodes, &Node{
			Addr: fmt.Sprintf("127.0.0.1:%d", port+2*i), LogDir: filepath.Join(base, "log"),
			binary: binary, dir: base, port: port + 2*i, set: own, clustered: true,
		})
	}
	return c, nil
}

// Start starts every node and waits until all are ready.
func (c *Cluster) Start() error {
	for _, n := range c.Nodes {
		if err := n.Launch(); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := n.AwaitReady(); err != nil {
			return err
		}
	}
	return nil
}

// Kill stops every node with SIGKILL.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Addrs are the addresses for clients, comma separated.
func (c *Cluster) Addrs() string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.Addr)
	}
	return strings.Join(all, ",")
}

// Launch starts the node's process and does not wait for it.
func (n *Node) Launch() error {
	argv := []string{n.binary, "serve", "--data-dir", n.dir}
	if !n.clustered {
		argv = append(argv, "--listen", n.Addr)
	}
	for _, k := range sortedKeys(n.set) {
		argv = append(argv, "--set", k+"="+n.set[k])
	}
	p, err := proc.Start(filepath.Dir(n.dir), nil, append(argv, n.Flags...)...)
	if err != nil {
		return err
	}
	n.proc = p
	return nil
}

// AwaitReady waits until the process that Launch started is ready.
func (n *Node) AwaitReady() error {
	p := n.proc
	if err := p.Until(30*time.Second, func() bool { return strings.Contains(p.Stdout.String(), "\n") }); err != nil {
		p.Kill()
		return err
	}
	return n.checkReady(p.Stdout.String())
}

// start is Launch and AwaitReady.
func (n *Node) start() error {
	if err := n.Launch(); err != nil {
		return err
	}
	return n.AwaitReady()
}

// Signal sends the node's process a signal.
func (n *Node) Signal(sig os.Signal) error { return n.proc.Signal(sig) }
