package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// The most nodes that tidemark dev runs, and how far the ports of their
// controllers and pages lie above those of clients.
const (
	devNodesMax    = 9
	devControllers = 100
	devPages       = 200
)

// devOptions say what cluster tidemark dev runs.
type devOptions struct {
	nodes    int
	portBase int
	dir      string
	set      []string
	restart  bool
}

func newDev(io streams) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster of several brokers on this machine",
		Long: "Runs brokers that form one cluster, each a process of its own with a directory of its\n" +
			"own, on the loopback, until SIGTERM or an interrupt stops them in order. With the\n" +
			"defaults node N serves clients on port 9091+N, its controller on 9191+N, and /metrics,\n" +
			"/healthz and /readyz on 9291+N. Topics have a replica on every node, at most three,\n" +
			"and with three acks=all waits for two. When all serve, one line on standard output says\n" +
			"so; what the nodes log goes to standard error, each line with the node's number.\n\n" +
			"A node may be killed, from another terminal or by a command on standard input, one a\n" +
			"line: kill N, stop N, start N, status.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{err}
			}
			d, err := newDevCluster(o, io)
			if err != nil {
				return err
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&o.nodes, "nodes", 3, "number of nodes, 1 to 9")
	cmd.Flags().IntVar(&o.portBase, "port-base", 9092, "port of the first node's clients; that of its controller is 100 higher, that of its pages 200")
	cmd.Flags().StringVar(&o.dir, "dir", "./tidemark-dev", "directory of all data; node N keeps its own in DIR/node-N")
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "one setting KEY=VALUE for every node (repeatable)")
	cmd.Flags().BoolVar(&o.restart, "restart", false, "start a node again that ended by itself or was killed")
	return cmd
}

func (o *devOptions) check() error {
	if o.nodes < 1 || o.nodes > devNodesMax {
		return fmt.Errorf("--nodes %d: want 1 to %d", o.nodes, devNodesMax)
	}
	if o.portBase < 1 || o.portBase+devPages+o.nodes > 1<<16-1 {
		return fmt.Errorf("--port-base %d: want 1 to %d", o.portBase, 1<<16-1-devPages-o.nodes)
	}
	if strings.Contains(o.dir, ",") || o.dir == "" {
		return fmt.Errorf("--dir %q: want a directory without a comma", o.dir)
	}
	return nil
}

// settings returns the command line of one node, beginning with the subcommand.
func (o *devOptions) settings(id int) []string {
	client := o.portBase + id - 1
	replicas := min(o.nodes, 3)
	args := []string{"serve", "--data-dir", filepath.Join(o.dir, fmt.Sprintf("node-%d", id))}
	set := []string{
		"node.id=" + strconv.Itoa(id),
		fmt.Sprintf("tidemark.http.listen=localhost:%d", client+devPages),
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", min(replicas, 2)),
		fmt.Sprintf("listeners=PLAINTEXT://localhost:%d", client),
	}
	if o.nodes > 1 {
		var voters []string
		for v := 1; v <= o.nodes; v++ {
			voters = append(voters, fmt.Sprintf("%d@localhost:%d", v, o.portBase+v-1+devControllers))
		}
		set[len(set)-1] += fmt.Sprintf(",CONTROLLER://localhost:%d", client+devControllers)
		set = append(set, "controller.listener.names=CONTROLLER", "controller.quorum.voters="+strings.Join(voters, ","))
	}
	if o.nodes == 2 {
		set[3] = "min.insync.replicas=1" // else neither could be missed
	}
	for _, kv := range append(set, o.set...) {
		args = append(args, "--set", kv)
	}
	return args
}

// devCluster is the nodes and who looks after them. What is in it belongs to the
// goroutine of run; others send it events.
type devCluster struct {
	o      devOptions
	io     streams
	exe    string
	nodes  []*devNode
	events chan devEvent
	group  lifecycle.Group
	out    *lineWriter // standard error, a line at a time
	told   bool        // the ready line is out
}

// devEvent is something that happened: exactly one field is set.
type devEvent struct {
	ready   *devReady
	ended   *devEnded
	restart *devNode
	command string
}

func newDevCluster(o devOptions, io streams) (*devCluster, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	d := &devCluster{o: o, io: io, exe: exe, events: make(chan devEvent), out: &lineWriter{to: io.err}}
	for id := 1; id <= o.nodes; id++ {
		d.nodes = append(d.nodes, &devNode{id: id, args: o.settings(id)})
	}
	return d, os.MkdirAll(o.dir, 0o755)
}

// run is the life of the cluster.
func (d *devCluster) run(ctx context.Context) error {
	done := make(chan struct{})
	defer close(done)
	for _, n := range d.nodes {
		if err := d.start(n, done); err != nil {
			return errors.Join(err, d.stopAll())
		}
	}
	if d.io.in != nil {
		// It ends with the process: a read from a terminal can't be taken back.
		d.group.Go("commands", func() { d.readCommands(done) })
	}
	for {
		select {
		case <-ctx.Done():
			d.say("stopping")
			return d.stopAll()
		case e := <-d.events:
			if err := d.handle(e, done); err != nil {
				return errors.Join(err, d.stopAll())
			}
		}
	}
}

func (d *devCluster) handle(e devEvent, done chan struct{}) error {
	switch {
	case e.ready != nil:
		e.ready.node.ready = e.ready
		d.tellReady(e.ready.node)
	case e.ended != nil:
		return d.ended(e.ended, done)
	case e.restart != nil:
		if e.restart.cmd == nil {
			return d.start(e.restart, done)
		}
	default:
		return d.command(e.command, done)
	}
	return nil
}

// tellReady prints the one line of the cluster when its last node serves, and
// later one for each node that came back.
func (d *devCluster) tellReady(n *devNode) {
	if d.told {
		d.say("node %d serves again on %s (pid %d)", n.id, n.ready.listener, n.cmd.Process.Pid)
		return
	}
	var listeners []string
	for _, n := range d.nodes {
		if n.ready == nil {
			return
		}
		listeners = append(listeners, n.ready.listener)
	}
	d.told = true
	fmt.Fprintf(d.io.out, "tidemark dev ready bootstrap=%s nodes=%d cluster=%s dir=%s ms=%d\n",
		strings.Join(listeners, ","), len(d.nodes), n.ready.cluster, d.o.dir, time.Since(d.io.start).Milliseconds())
	for _, n := range d.nodes {
		d.say("node %d: pid %d, http://localhost:%d/metrics; to kill it: kill -9 %d", n.id, n.cmd.Process.Pid, d.o.portBase+n.id-1+devPages, n.cmd.Process.Pid)
	}
	d.say("type kill N, stop N, start N or status here; an interrupt stops all")
}

func (d *devCluster) ended(e *devEnded, done chan struct{}) error {
	n := e.node
	wanted := n.stopping
	n.cmd, n.ready, n.stopping = nil, nil, false
	if !d.told {
		return fmt.Errorf("node %d ended before the cluster was ready: %s", n.id, e.how)
	}
	switch {
	case d.o.restart && !wanted:
		d.say("node %d ended: %s; it is started again", n.id, e.how)
		d.group.Go("restart", func() {
			t := time.NewTimer(time.Second)
			defer t.Stop()
			select {
			case <-t.C:
				d.send(devEvent{restart: n}, done)
			case <-done:
			}
		})
	default:
		d.say("node %d ended: %s; to bring it back type: start %d", n.id, e.how, n.id)
	}
	return nil
}

// readCommands hands on what is typed.
func (d *devCluster) readCommands(done chan struct{}) {
	lines := bufio.NewScanner(d.io.in)
	for lines.Scan() {
		if !d.send(devEvent{command: lines.Text()}, done) {
			return
		}
	}
}

func (d *devCluster) send(e devEvent, done chan struct{}) bool {
	select {
	case d.events <- e:
		return true
	case <-done:
		return false
	}
}

// command does what was typed. A mistake is told and costs nothing.
func (d *devCluster) command(line string, done chan struct{}) error {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case len(words) == 1 && words[0] == "status":
		for _, n := range d.nodes {
			d.say("%s", n.status())
		}
		return nil
	case len(words) != 2:
		d.say("%q: want kill N, stop N, start N or status", line)
		return nil
	}
	id, err := strconv.Atoi(words[1])
	if err != nil || id < 1 || id > len(d.nodes) {
		d.say("%q: want a node from 1 to %d", line, len(d.nodes))
		return nil
	}
	n := d.nodes[id-1]
	switch words[0] {
	case "start":
		if n.cmd != nil {
			d.say("node %d runs already", id)
			return nil
		}
		return d.start(n, done)
	case "kill":
		d.signal(n, syscall.SIGKILL)
	case "stop":
		d.signal(n, syscall.SIGTERM)
	default:
		d.say("%q: want kill N, stop N, start N or status", line)
	}
	return nil
}

func (d *devCluster) signal(n *devNode, sig syscall.Signal) {
	if n.cmd == nil {
		d.say("node %d doesn't run; to bring it back type: start %d", n.id, n.id)
		return
	}
	n.stopping = sig == syscall.SIGTERM
	if err := n.cmd.Process.Signal(sig); err != nil {
		d.say("node %d: %v", n.id, err)
	}
}

// say tells the person at the terminal.
func (d *devCluster) say(format string, args ...any) {
	d.out.line("[dev] ", fmt.Sprintf(format, args...))
}
