package kafka

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/tidemark/tidemark/compat/proc"
)

// Options are what a broker is started with.
type Options struct {
	// Dir holds everything that the broker writes. A directory that a broker ran
	// in before is started again as it is.
	Dir string
	// Port is the client port on the loopback; the controller takes the next one.
	Port int
	// Set are further server properties.
	Set map[string]string
	// Voters, if set, makes the node one of a static quorum
	// (controller.quorum.voters); node.id is set through Set.
	Voters string
	// ClusterID is 22 characters of URL-safe base64.
	ClusterID string
	// HeapMiB bounds the Java heap; 0 is 1024.
	HeapMiB int
	// Flags replace the flags of the Java machine, HeapMiB among them; nil is a
	// small and quick set for tests.
	Flags []string
}

// Broker is a running Apache Kafka: one node that is broker and controller.
type Broker struct {
	// Addr is host:port for clients.
	Addr string
	// LogDir is the directory of its partitions.
	LogDir string

	*proc.Process
}

// DefaultClusterID is used when Options names none.
const DefaultClusterID = "VGlkZW1hcmtDb21wYXRUZQ"

// Start formats the storage if that was not done yet, starts a broker and waits
// until it answers.
func (j Jars) Start(ctx context.Context, o Options) (*Broker, error) {
	if err := j.Format(ctx, o); err != nil {
		return nil, err
	}
	p, err := j.Launch(o)
	if err != nil {
		return nil, err
	}
	b := newBroker(o)
	b.Process = p
	if err := p.Until(60*time.Second, func() bool { return answers(b.Addr) }); err != nil {
		p.Kill()
		return nil, err
	}
	return b, nil
}

func newBroker(o Options) *Broker {
	return &Broker{Addr: fmt.Sprintf("127.0.0.1:%d", o.Port), LogDir: filepath.Join(o.Dir, "log")}
}

func propertiesFile(o Options) string { return filepath.Join(o.Dir, "server.properties") }

// Format writes the broker's properties and formats its storage, unless that
// was done before.
func (j Jars) Format(ctx context.Context, o Options) error {
	if o.ClusterID == "" {
		o.ClusterID = DefaultClusterID
	}
	b := newBroker(o)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(propertiesFile(o), []byte(b.properties(o)), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(b.LogDir, "meta.properties")); err == nil {
		return nil
	}
	args := []string{"format", "-t", o.ClusterID, "-c", propertiesFile(o)}
	if o.Voters == "" {
		args = append(args, "--standalone")
	}
	r, err := j.Run(ctx, nil, Storage, args...)
	if err != nil {
		return err
	}
	if r.Exit != 0 {
		return fmt.Errorf("format storage: exit %d\n%s", r.Exit, r.All())
	}
	return nil
}

// Launch starts a broker whose storage is formatted, and doesn't wait for it.
func (j Jars) Launch(o Options) (*proc.Process, error) {
	flags := o.Flags
	if flags == nil {
		heap := o.HeapMiB
		if heap == 0 {
			heap = 1024
		}
		flags = []string{fmt.Sprintf("-Xmx%dM", heap), "-XX:+UseSerialGC", "-Xshare:auto"}
	}
	return proc.Start(o.Dir, nil, j.java(flags, "kafka.Kafka", propertiesFile(o))...)
}

func (b *Broker) properties(o Options) string {
	controller := fmt.Sprintf("127.0.0.1:%d", o.Port+1)
	set := map[string]string{
		"process.roles":                            "broker,controller",
		"node.id":                                  "1",
		"controller.quorum.bootstrap.servers":      controller,
		"listeners":                                "PLAINTEXT://" + b.Addr + ",CONTROLLER://" + controller,
		"controller.listener.names":                "CONTROLLER",
		"log.dirs":                                 b.LogDir,
		"offsets.topic.replication.factor":         "1",
		"transaction.state.log.replication.factor": "1",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",
	}
	for k, v := range o.Set {
		set[k] = v
	}
	if o.Voters != "" {
		delete(set, "controller.quorum.bootstrap.servers")
		set["controller.quorum.voters"] = o.Voters
	}
	names := make([]string, 0, len(set))
	for k := range set {
		names = append(names, k)
	}
	sort.Strings(names)
	var s strings.Builder
	for _, k := range names {
		fmt.Fprintf(&s, "%s=%s\n", k, set[k])
	}
	return s.String()
}

// answers reports whether something listens at addr and answers a request: a
// Kafka broker opens its port before it serves, so a bare connect says little.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	// ApiVersions version 0, correlation id 1, no client id.
	request := []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return false
	}
	if _, err := c.Write(request); err != nil {
		return false
	}
	var answer [10]byte
	n, err := c.Read(answer[:])
	return err == nil && n > 0
}
