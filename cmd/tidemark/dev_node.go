package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// devNode is one process of the cluster and, between two lives, its place.
type devNode struct {
	id   int
	args []string

	cmd      *exec.Cmd // nil while it doesn't run
	ready    *devReady // nil until it serves
	stopping bool      // it was told to end
}

// devReady is what a node's ready line says.
type devReady struct {
	node              *devNode
	listener, cluster string
}

// devEnded tells of the end of a process.
type devEnded struct {
	node *devNode
	how  string
	ok   bool // it stopped in order
}

func (n *devNode) status() string {
	switch {
	case n.cmd == nil:
		return fmt.Sprintf("node %d: ended", n.id)
	case n.ready == nil:
		return fmt.Sprintf("node %d: starting, pid %d", n.id, n.cmd.Process.Pid)
	}
	return fmt.Sprintf("node %d: serves on %s, pid %d", n.id, n.ready.listener, n.cmd.Process.Pid)
}

// start begins a life of a node. Its standard input is a pipe of ours: when this
// process ends, however it does, the pipe does too and the node stops in order.
func (d *devCluster) start(n *devNode, done chan struct{}) error {
	cmd := exec.Command(d.exe, append(n.args, "--"+whileStdinFlag)...)
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	n.cmd = cmd
	var readers lifecycle.Group
	prefix := fmt.Sprintf("[%d] ", n.id)
	readers.Go("node's events", func() { eachLine(stderr, func(l string) { d.out.line(prefix, l) }) })
	readers.Go("node's results", func() {
		eachLine(stdout, func(l string) {
			if m := readyLine.FindStringSubmatch(l); m != nil {
				d.send(devEvent{ready: &devReady{node: n, listener: m[1], cluster: m[2]}}, done)
				return
			}
			d.out.line(prefix, l)
		})
	})
	d.group.Go("node", func() {
		readers.Wait()
		err := cmd.Wait()
		_ = stdin.Close() // the reading end went with the process
		e := &devEnded{node: n, how: "stopped in order", ok: err == nil}
		if err != nil {
			e.how = err.Error()
		}
		d.send(devEvent{ended: e}, done)
	})
	return nil
}

var readyLine = regexp.MustCompile(`^tidemark ready listener=(\S+) node=\d+ cluster=(\S+) `)

// stopAll tells every node to stop and waits until all are gone. One that takes
// longer than a node may is killed.
func (d *devCluster) stopAll() error {
	running := 0
	for _, n := range d.nodes {
		if n.cmd != nil {
			running++
			n.stopping = true
			_ = n.cmd.Process.Signal(syscall.SIGTERM) // it is gone already
		}
	}
	patience := time.NewTimer(stopTimeout + 5*time.Second)
	defer patience.Stop()
	var errs []error
	for running > 0 {
		select {
		case e := <-d.events:
			if e.ended == nil {
				continue
			}
			running--
			e.ended.node.cmd = nil
			if !e.ended.ok {
				errs = append(errs, fmt.Errorf("node %d: %s", e.ended.node.id, e.ended.how))
			}
		case <-patience.C:
			for _, n := range d.nodes {
				if n.cmd != nil {
					errs = append(errs, fmt.Errorf("node %d didn't stop within %v and was killed", n.id, stopTimeout))
					_ = n.cmd.Process.Kill() // it is gone already
				}
			}
		}
	}
	return errors.Join(errs...)
}

// eachLine reads lines to the end. A line that is longer than the buffer comes in
// pieces.
func eachLine(r io.Reader, fn func(string)) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		l, _, err := lines.ReadLine()
		if err != nil {
			return
		}
		fn(string(l))
	}
}

// lineWriter keeps the lines of several writers whole.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) line(prefix, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.to, "%s%s\n", prefix, text)
}
