package target

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// Environment variables that choose the target.
const (
	// EnvTarget is "kafka" or, the default, "tidemark".
	EnvTarget = "TIDEMARK_TEST_TARGET"
	// EnvBinary is the tidemark binary to test; empty has one built.
	EnvBinary = "TIDEMARK_TEST_BINARY"
)

// IsKafka reports whether the tests run against Apache Kafka.
func IsKafka() bool { return os.Getenv(EnvTarget) == "kafka" }

// Build builds the tidemark binary into dir from the module's source and returns
// its path, or returns the one that EnvBinary names.
func Build(ctx context.Context, dir string) (string, error) {
	if given := os.Getenv(EnvBinary); given != "" {
		return given, nil
	}
	binary := filepath.Join(dir, "tidemark")
	// Static, as the README has it built: a linker on the machine changes nothing.
	r, err := proc.Run(ctx, nil, "env", "CGO_ENABLED=0", "go", "build", "-o", binary, "github.com/tidemark/tidemark/cmd/tidemark")
	if err != nil {
		return "", err
	}
	if r.Exit != 0 {
		return "", fmt.Errorf("build tidemark: exit %d\n%s", r.Exit, r.All())
	}
	return binary, nil
}

// Node is one broker and its directory. Its methods are for one goroutine.
type Node struct {
	// Flags are given to the process besides the settings.
	Flags []string
	// Addr is host:port for clients; it stays the same over restarts.
	Addr string
	// LogDir is the directory of partition directories.
	LogDir string

	binary string // the tidemark binary; unused for Kafka
	dir    string
	port   int
	set    map[string]string
	proc   *proc.Process

	clustered bool // its listeners stand in set
}

// New prepares a node that keeps everything in dir and is set up by set, a map
// of server properties. It is not started yet.
func New(binary, dir string, set map[string]string) (*Node, error) {
	port, err := proc.FreePorts(2)
	if err != nil {
		return nil, err
	}
	return &Node{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), LogDir: filepath.Join(dir, "log"),
		binary: binary, dir: dir, port: port, set: set,
	}, nil
}

// Start starts the node and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if IsKafka() {
		return n.startKafka(ctx)
	}
	return n.start()
}

var readyLine = regexp.MustCompile(`^tidemark ready listener=(\S+) node=\d+ cluster=\S+ data=\S+ ms=\d+\n`)

// checkReady holds the ready line to its contract.
func (n *Node) checkReady(out string) error {
	m := readyLine.FindStringSubmatch(out)
	if m == nil || m[1] != n.Addr {
		n.Kill()
		return fmt.Errorf("the ready line is %q, want listener=%s", out, n.Addr)
	}
	return nil
}

func (n *Node) startKafka(ctx context.Context) error {
	jars, err := kafka.Resolve(ctx)
	if err != nil {
		return err
	}
	b, err := jars.Start(ctx, kafka.Options{Dir: n.dir, Port: n.port, Set: n.set})
	if err != nil {
		return err
	}
	n.proc, n.LogDir = b.Process, b.LogDir
	return nil
}

// Stop stops the node with SIGTERM.
func (n *Node) Stop() error {
	if n.proc == nil {
		return nil
	}
	p := n.proc
	n.proc = nil
	return p.Stop(60 * time.Second)
}

// Kill stops the node with SIGKILL.
func (n *Node) Kill() {
	if n.proc != nil {
		n.proc.Kill()
		n.proc = nil
	}
}

// Stderr returns what the running node logged.
func (n *Node) Stderr() string {
	if n.proc == nil {
		return ""
	}
	return n.proc.Stderr.String()
}

// PartitionDir returns the directory of one partition.
func (n *Node) PartitionDir(topic string, partition int) string {
	return filepath.Join(n.LogDir, fmt.Sprintf("%s-%d", topic, partition))
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
