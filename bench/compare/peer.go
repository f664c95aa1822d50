package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// peer is a broker that can be started any number of times.
type peer struct {
	name string
	root string
	echo bool // no broker: the floor of what a load can see on this machine
	// launch starts it in dir on port and returns without waiting for it.
	launch func(ctx context.Context, dir string, port int) (*proc.Process, error)
	// prepare readies a new dir, outside any measurement; may be nil.
	prepare func(ctx context.Context, dir string, port int) error
}

// instance is a running peer.
type instance struct {
	addr string
	pid  int
	proc *proc.Process
	took time.Duration // from exec to the first ApiVersions answer
}

func (in *instance) stop() { _ = in.proc.Stop(30 * time.Second) } // killed if it does not obey

func (p *peer) dir(name string) string { return filepath.Join(p.root, p.name, name) }

// start launches the peer and waits for its first ApiVersions answer.
func (p *peer) start(ctx context.Context, dir string) (*instance, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := proc.FreePorts(2)
	if err != nil {
		return nil, err
	}
	if p.prepare != nil {
		if err := p.prepare(ctx, dir, port); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	process, err := p.launch(ctx, dir, port)
	if err != nil {
		return nil, err
	}
	in := &instance{addr: fmt.Sprintf("127.0.0.1:%d", port), pid: process.Pid(), proc: process}
	for !answersAPIVersions(in.addr) {
		if process.Ended() || time.Since(began) > 10*time.Minute {
			return nil, fmt.Errorf("%s did not come up:\n%s", p.name, proc.Tail(process.Stderr.String()+process.Stdout.String(), 20))
		}
		time.Sleep(200 * time.Microsecond) // polling from outside is all one can do
	}
	in.took = time.Since(began)
	return in, nil
}

// answersAPIVersions makes one attempt.
func answersAPIVersions(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(5*time.Second)) != nil {
		return false
	}
	req := kmsg.NewPtrApiVersionsRequest()
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return false
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return false
	}
	_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
	return err == nil
}

func choosePeers(ctx context.Context, names, root string) ([]*peer, error) {
	var peers []*peer
	for _, name := range strings.Split(names, ",") {
		p := &peer{name: name, root: root}
		var err error
		switch name {
		case "echo":
			err = p.echoes(ctx)
		case "tidemark":
			err = p.tidemark(ctx)
		case "kfake":
			err = p.kfake(ctx)
		case "kafka":
			err = p.kafka(ctx)
		default:
			err = fmt.Errorf("no broker called %q", name)
		}
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func peerNames(peers []*peer) []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

func build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said.String())
	}
	return nil
}

// settings differ from the defaults, of both alike: the cells of groups and of
// compaction measure work and not how long it is put off.
var settings = map[string]string{"group.initial.rebalance.delay.ms": "0", "log.cleaner.backoff.ms": "1000"}

func (p *peer) tidemark(ctx context.Context) error {
	bin := filepath.Join(p.root, "tidemark-bin")
	p.launch = func(_ context.Context, dir string, port int) (*proc.Process, error) {
		argv := []string{bin, "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--data-dir", dir}
		for k, v := range settings { // order-free: settings of different names
			argv = append(argv, "--set", k+"="+v)
		}
		return proc.Start(dir, nil, argv...)
	}
	return build(ctx, bin, "github.com/tidemark/tidemark/cmd/tidemark")
}

func (p *peer) echoes(ctx context.Context) error {
	p.echo = true
	bin := filepath.Join(p.root, "echo-bin")
	p.launch = func(_ context.Context, dir string, port int) (*proc.Process, error) {
		return proc.Start(dir, nil, bin, fmt.Sprint(port))
	}
	return build(ctx, bin, "github.com/tidemark/tidemark/bench/echopeer")
}

func (p *peer) kfake(ctx context.Context) error {
	bin := filepath.Join(p.root, "kfake-bin")
	p.launch = func(_ context.Context, dir string, port int) (*proc.Process, error) {
		return proc.Start(dir, nil, bin, fmt.Sprint(port))
	}
	return build(ctx, bin, "github.com/tidemark/tidemark/bench/kfakepeer")
}

// kafkaFlags are those of Kafka's own start script.
var kafkaFlags = []string{"-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"}

func (p *peer) kafka(ctx context.Context) error {
	jars, err := kafka.Resolve(ctx)
	if err != nil {
		return err
	}
	options := func(dir string, port int) kafka.Options {
		return kafka.Options{Dir: dir, Port: port, Flags: kafkaFlags, Set: settings}
	}
	p.prepare = func(ctx context.Context, dir string, port int) error { return jars.Format(ctx, options(dir, port)) }
	p.launch = func(ctx context.Context, dir string, port int) (*proc.Process, error) {
		return jars.Launch(options(dir, port))
	}
	return nil
}
