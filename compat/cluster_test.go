//go:build compat

package compat_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// startThree starts three brokers that form a cluster.
func startThree(t *testing.T, set ...string) *target.Cluster {
	t.Helper()
	return startBrokers(t, 3, set...)
}

// startBrokers starts a cluster of any size. Its topics have a replica on each broker
// by default.
func startBrokers(t *testing.T, brokers int, set ...string) *target.Cluster {
	t.Helper()
	if target.IsKafka() {
		t.Skip("a cluster of Apache Kafka is not set up here")
	}
	props := map[string]string{"default.replication.factor": fmt.Sprint(brokers), "min.insync.replicas": fmt.Sprint(brokers/2 + 1), "auto.leader.rebalance.enable": "false"}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		props[k] = v
	}
	c, err := target.NewCluster(binary, t.TempDir(), brokers, props)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i, n := range c.Nodes {
			if t.Failed() {
				t.Logf("node %d's last words:\n%s", i+1, proc.Tail(n.Stderr(), 30))
			}
			n.Kill()
		}
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func clusterClient(t *testing.T, c *target.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, c.Nodes[0], append([]kgo.Opt{kgo.SeedBrokers(strings.Split(c.Addrs(), ",")...), kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
}

// partitionOf asks for one partition's state.
func partitionOf(t *testing.T, adm *kadm.Client, topic string, n int32) (p kadm.PartitionDetail, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	topics, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return p, false
	}
	p, ok = topics[topic].Partitions[n]
	return p, ok && p.Err == nil
}

func awaitPartition(t *testing.T, adm *kadm.Client, topic string, n int32, what string, so func(p kadm.PartitionDetail) bool) kadm.PartitionDetail {
	t.Helper()
	var p kadm.PartitionDetail
	eventuallyWithin(t, time.Minute, what, func() bool {
		var ok bool
		p, ok = partitionOf(t, adm, topic, n)
		return ok && so(p)
	})
	return p
}

// eventuallyWithin is eventually with more patience, and ends the test.
func eventuallyWithin(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s", what, patience)
		case <-tick.C:
		}
	}
}

func inSync(n int) func(kadm.PartitionDetail) bool {
	return func(p kadm.PartitionDetail) bool { return len(p.ISR) == n && p.Leader > 0 }
}

// Kafka's own tools against three brokers, as an operator of a cluster uses them.
func TestKafkaToolsOnACluster(t *testing.T) {
	// A node that does not run keeps its registration for long.
	c := startThree(t, "broker.session.timeout.ms=120000", "broker.heartbeat.interval.ms=1000")
	n := c.Nodes[0]
	adm := kadm.NewClient(clusterClient(t, c))
	out := tool(t, n, kafka.Topics, "--create", "--topic", "moves", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
	wants(t, "create", out, "Created topic moves.")
	for i := range int32(3) {
		awaitPartition(t, adm, "moves", i, "all replicas in sync", inSync(3))
	}
	out = tool(t, c.Nodes[1], kafka.Topics, "--describe", "--topic", "moves")
	wants(t, "describe", out, "ReplicationFactor: 3", "Partition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: ", "Partition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: ")
	fails(t, n, "InvalidReplicationFactorException", kafka.Topics, "--create", "--topic", "too-wide", "--replication-factor", "4")
	t.Run("quorum", func(t *testing.T) { clusterQuorum(t, c) })
	t.Run("configs", func(t *testing.T) { clusterConfigs(t, c) })
	t.Run("reassign", func(t *testing.T) { clusterReassign(t, c, adm) })
	t.Run("leader election", func(t *testing.T) { clusterElection(t, c, adm) })
}

func clusterQuorum(t *testing.T, c *target.Cluster) {
	out := tool(t, c.Nodes[2], kafka.MetadataQuorum, "describe", "--status")
	wants(t, "quorum status", out, "ClusterId:", "LeaderId:", "LeaderEpoch:", "HighWatermark:", "MaxFollowerLag:", "CurrentVoters:")
	if !regexp.MustCompile(`LeaderId:\s+[123]\n`).MatchString(out) {
		t.Errorf("no leader:\n%s", out)
	}
	out = tool(t, c.Nodes[1], kafka.MetadataQuorum, "describe", "--replication")
	if len(regexp.MustCompile(`(?m)^[123]\s.*\sLeader\s*$`).FindAllString(out, -1)) != 1 || len(regexp.MustCompile(`(?m)^[123]\s.*\sFollower\s*$`).FindAllString(out, -1)) != 2 {
		t.Errorf("not one leader and two followers:\n%s", out)
	}
}

func clusterConfigs(t *testing.T, c *target.Cluster) {
	topic := []string{"--entity-type", "topics", "--entity-name", "moves"}
	tool(t, c.Nodes[1], kafka.Configs, append(topic, "--alter", "--add-config", "retention.ms=7200000")...)
	out := tool(t, c.Nodes[2], kafka.Configs, append(topic, "--describe")...)
	wants(t, "a topic's setting", out, "retention.ms=7200000")
	one := []string{"--entity-type", "brokers", "--entity-name", "3"}
	tool(t, c.Nodes[0], kafka.Configs, append(one, "--alter", "--add-config", "message.max.bytes=2000003")...)
	out = tool(t, c.Nodes[2], kafka.Configs, append(one, "--describe")...)
	wants(t, "a broker's setting", out, "message.max.bytes=2000003")
}

func jsonFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func clusterReassign(t *testing.T, c *target.Cluster, adm *kadm.Client) {
	n := c.Nodes[0]
	tool(t, n, kafka.Topics, "--create", "--topic", "small", "--replica-assignment", "1:2", "--config", "min.insync.replicas=1")
	cl := clusterClient(t, c, kgo.DefaultProduceTopic("small"))
	for i := range 1000 {
		cl.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i)), nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := tool(t, n, kafka.ReassignPartitions, "--generate", "--broker-list", "1,2,3", "--topics-to-move-json-file", jsonFile(t, `{"topics":[{"topic":"small"}],"version":1}`))
	wants(t, "generate", out, "Current partition replica assignment", `"replicas":[1,2]`, "Proposed partition reassignment configuration")

	plan := jsonFile(t, `{"version":1,"partitions":[{"topic":"small","partition":0,"replicas":[3,2],"log_dirs":["any","any"]}]}`)
	out = tool(t, n, kafka.ReassignPartitions, "--execute", "--reassignment-json-file", plan)
	wants(t, "execute", out, "Successfully started partition reassignment for small-0")
	awaitPartition(t, adm, "small", 0, "the replicas have moved", func(p kadm.PartitionDetail) bool {
		return slices.Equal(p.Replicas, []int32{3, 2}) && len(p.ISR) == 2 && (p.Leader == 3 || p.Leader == 2)
	})
	out = tool(t, n, kafka.ReassignPartitions, "--verify", "--reassignment-json-file", plan)
	wants(t, "verify", out, "Reassignment of partition small-0 is completed.")
	for i, r := range consumeFrom(t, c.Nodes[1], "small", kgo.NewOffset().AtStart(), 1000) {
		if string(r.Value) != fmt.Sprint(i) {
			t.Fatalf("offset %d holds %s after the move", i, r.Value)
		}
	}

	// Towards a broker that does not run nothing completes, so it can be taken back.
	if err := c.Nodes[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n = c.Nodes[1]
	back := jsonFile(t, `{"version":1,"partitions":[{"topic":"small","partition":0,"replicas":[2,3,1],"log_dirs":["any","any","any"]}]}`)
	out = tool(t, n, kafka.ReassignPartitions, "--execute", "--reassignment-json-file", back)
	wants(t, "execute", out, "Successfully started partition reassignment for small-0")
	out = tool(t, n, kafka.ReassignPartitions, "--verify", "--preserve-throttles", "--reassignment-json-file", back)
	wants(t, "verify", out, "Reassignment of partition small-0 is still in progress.")
	out = tool(t, n, kafka.ReassignPartitions, "--list")
	wants(t, "list", out, "small-0: replicas: ", "adding: 1")
	out = tool(t, n, kafka.ReassignPartitions, "--cancel", "--preserve-throttles", "--reassignment-json-file", back)
	wants(t, "cancel", out, "Successfully cancelled partition reassignment", "small-0")
	out = tool(t, n, kafka.ReassignPartitions, "--list")
	wants(t, "list", out, "No partition reassignments found.")
	awaitPartition(t, adm, "small", 0, "the old replicas are back", func(p kadm.PartitionDetail) bool {
		return slices.Equal(slices.Sorted(slices.Values(p.Replicas)), []int32{2, 3})
	})
	if err := c.Nodes[0].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// clusterElection moves node 1's leadership away and back.
func clusterElection(t *testing.T, c *target.Cluster, adm *kadm.Client) {
	c.Nodes[0].Kill()
	awaitPartition(t, adm, "moves", 0, "node 1 does not lead", func(p kadm.PartitionDetail) bool { return p.Leader > 1 })
	if err := c.Nodes[0].Launch(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[0].AwaitReady(); err != nil {
		t.Fatal(err)
	}
	awaitPartition(t, adm, "moves", 0, "all replicas in sync", inSync(3))
	out := tool(t, c.Nodes[1], kafka.LeaderElection, "--election-type", "preferred", "--topic", "moves", "--partition", "0")
	wants(t, "preferred election", out, "Successfully completed leader election (PREFERRED) for partitions moves-0")
	awaitPartition(t, adm, "moves", 0, "node 1 leads again", func(p kadm.PartitionDetail) bool { return p.Leader == 1 })
	out = tool(t, c.Nodes[1], kafka.LeaderElection, "--election-type", "preferred", "--topic", "moves", "--partition", "0")
	wants(t, "preferred election again", out, "Valid replica already elected for partitions moves-0")
}

// TestKgoAcrossFailovers: an idempotent producer of franz-go, with a replication
// factor of three, while the leader is killed twice and stopped once: each record
// once, in order. Then Kafka's dump tool reads the same from all three copies.
func TestKgoAcrossFailovers(t *testing.T) {
	c := startThree(t)
	cl := clusterClient(t, c, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(200), kgo.UnknownTopicRetries(-1))
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 3, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	awaitPartition(t, adm, "orders", 0, "all replicas in sync", inSync(3))
	var sent, acked atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			cl.Produce(context.Background(), kgo.StringRecord(fmt.Sprint(sent.Add(1)-1)), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				acked.Add(1)
			})
		}
	}()
	flows := func() {
		t.Helper()
		want := acked.Load() + 500
		eventuallyWithin(t, time.Minute, "records flow", func() bool { return acked.Load() >= want })
	}
	flows()
	for round := range 3 {
		p := awaitPartition(t, adm, "orders", 0, "all replicas in sync", inSync(3))
		n := c.Nodes[p.Leader-1]
		before := time.Now()
		if round == 2 {
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
		} else {
			n.Kill()
		}
		awaitPartition(t, adm, "orders", 0, "another leader", func(now kadm.PartitionDetail) bool { return now.Leader > 0 && now.Leader != p.Leader })
		t.Logf("round %d: another leader after %s", round, time.Since(before).Round(time.Millisecond))
		flows()
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
		if err := n.AwaitReady(); err != nil {
			t.Fatal(err)
		}
	}
	awaitPartition(t, adm, "orders", 0, "all replicas in sync", inSync(3))
	close(stop)
	<-done
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := int(sent.Load())
	for i, r := range consumeFrom(t, c.Nodes[0], "orders", kgo.NewOffset().AtStart(), int64(total)) {
		if string(r.Value) != fmt.Sprint(i) || r.Offset != int64(i) {
			t.Fatalf("offset %d holds record %s, want %d", r.Offset, r.Value, i)
		}
	}
	t.Logf("%d records", total)
	var dumps []string
	for _, n := range c.Nodes {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}
	for _, n := range c.Nodes {
		dumps = append(dumps, dumpedRecords(t, n.PartitionDir("orders", 0)))
	}
	for i, d := range dumps[1:] {
		if d != dumps[0] {
			t.Errorf("Kafka's dump tool reads other records on node %d than on node 1:\n%s", i+2, firstDifference(dumps[0], d))
		}
	}
	if lines := strings.Count(dumps[0], "\n"); lines < total {
		t.Errorf("the dump has %d lines for %d records", lines, total)
	}
}

var position = regexp.MustCompile(` position: \d+`)

// dumpedRecords is what Kafka's dump tool reads of a partition: batches and
// records, but for the place in the file.
func dumpedRecords(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	slices.Sort(files)
	r := toolResult(t, nil, nil, kafka.DumpLog, "--deep-iteration", "--print-data-log", "--files", strings.Join(files, ","))
	if r.Exit != 0 {
		t.Fatalf("dump: exit %d\n%s", r.Exit, r.Stderr)
	}
	var b strings.Builder
	for line := range strings.Lines(r.Stdout) {
		if strings.HasPrefix(line, "baseOffset: ") || strings.HasPrefix(line, "| offset: ") {
			if strings.Contains(line, "isvalid: false") {
				t.Errorf("%s: %s", dir, line)
			}
			b.WriteString(position.ReplaceAllString(line, ""))
		}
	}
	return b.String()
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(x), len(y))
}
