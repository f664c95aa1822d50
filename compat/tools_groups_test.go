//go:build compat

package compat_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// protocols are Kafka's two of groups, as its clients call them.
var protocols = []string{"classic", "consumer"}

// consoleConsume reads a topic by the console consumer in a group.
func consoleConsume(t *testing.T, n *target.Node, protocol, group, topic string, count int) string {
	t.Helper()
	return tool(t, n, kafka.ConsoleConsumer, "--topic", topic, "--group", group, "--command-property", "group.protocol="+protocol,
		"--command-property", "auto.offset.reset=earliest", "--max-messages", fmt.Sprint(count), "--timeout-ms", "40000")
}

// Kafka's tools of groups, with groups of both kinds.
func TestGroupTools(t *testing.T) {
	t.Parallel()
	n := startNode(t, "group.initial.rebalance.delay.ms=0")
	fill(t, n, "tooled", 2, 10)
	adm := kadm.NewClient(client(t, n))
	for _, p := range protocols {
		if out := consoleConsume(t, n, p, "g-"+p, "tooled", 20); strings.Count(out, "\n") != 20 {
			t.Errorf("the console consumer, %s, printed %d lines, want 20", p, strings.Count(out, "\n"))
		}
	}
	out := tool(t, n, kafka.Groups, "--list")
	for _, want := range []string{`(?m)^g-classic\s+Classic\s+consumer`, `(?m)^g-consumer\s+Consumer\s+consumer`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("groups: no %s in\n%s", want, out)
		}
	}
	if out := tool(t, n, kafka.Groups, "--list", "--group-type", "consumer"); strings.Contains(out, "g-classic") || !strings.Contains(out, "g-consumer") {
		t.Errorf("groups of type consumer:\n%s", out)
	}
	wants(t, "state", tool(t, n, kafka.ConsumerGroups, "--describe", "--all-groups", "--state", "--verbose"), "g-classic", "g-consumer", "Empty", "uniform")
	wants(t, "list of types", tool(t, n, kafka.ConsumerGroups, "--list", "--type"), "Classic", "Consumer")

	t.Run("members", func(t *testing.T) { groupToolMembers(t, n) })
	t.Run("reset", func(t *testing.T) { groupToolReset(t, n, adm) })
	t.Run("perf", func(t *testing.T) { consumerPerf(t, n) })
	t.Run("verifiable", func(t *testing.T) { verifiable(t, n) })

	out = tool(t, n, kafka.ConsumerGroups, "--delete-offsets", "--group", "g-consumer", "--topic", "tooled:1")
	wants(t, "delete-offsets", out, "Successful")
	out = tool(t, n, kafka.ConsumerGroups, "--delete", "--group", "g-consumer", "--group", "g-classic")
	wants(t, "delete", out, "successful")
	if out = tool(t, n, kafka.Groups, "--list"); strings.Contains(out, "g-c") {
		t.Errorf("the groups are still listed:\n%s", out)
	}
}

// groupToolMembers describes a group of the newer kind while it has a member.
func groupToolMembers(t *testing.T, n *target.Node) {
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := javaProcess(t, "the console consumer", func() (*proc.Process, error) {
		return jars.StartTool(kafka.ConsoleConsumer, "--bootstrap-server", n.Addr, "--topic", "tooled", "--group", "g-consumer",
			"--command-property", "group.protocol=consumer", "--command-property", "client.id=watched")
	})
	defer p.Kill()
	var out string
	eventuallyWithin(t, 60*time.Second, "the member is described", func() bool {
		out = tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "g-consumer", "--members", "--verbose")
		return strings.Contains(out, "watched")
	})
	wants(t, "members", out, "CURRENT-EPOCH", "tooled:0,1", "/127.0.0.1")
	wants(t, "state", tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "g-consumer", "--state"), "Stable", "uniform")
	wants(t, "offsets", tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "g-consumer"), "watched", "tooled")
	fails(t, n, "is not empty", kafka.ConsumerGroups, "--delete", "--group", "g-consumer")
	end(t, p)
}

// groupToolReset resets by the means that TestConsumerGroupsTool does not.
func groupToolReset(t *testing.T, n *target.Node, adm *kadm.Client) {
	at := func(group string, partition int32) int64 {
		t.Helper()
		got, err := adm.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := got.Lookup("tooled", partition)
		return o.At
	}
	reset := func(group string, how ...string) string {
		t.Helper()
		return tool(t, n, kafka.ConsumerGroups, append([]string{"--reset-offsets", "--group", group}, how...)...)
	}
	reset("g-consumer", "--topic", "tooled", "--to-earliest", "--dry-run")
	if got := at("g-consumer", 0); got != 10 {
		t.Errorf("a dry run reset to %d", got)
	}
	reset("g-consumer", "--all-topics", "--by-duration", "PT1H", "--execute")
	if a, b := at("g-consumer", 0), at("g-consumer", 1); a != 0 || b != 0 {
		t.Errorf("by duration: at %d and %d, want 0", a, b)
	}
	plan := filepath.Join(t.TempDir(), "plan.csv")
	if err := os.WriteFile(plan, []byte("tooled,0,3\ntooled,1,4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reset("g-consumer", "--from-file", plan, "--execute")
	if a, b := at("g-consumer", 0), at("g-consumer", 1); a != 3 || b != 4 {
		t.Errorf("from a file: at %d and %d, want 3 and 4", a, b)
	}
	out := reset("g-consumer", "--all-topics", "--to-current", "--export", "--dry-run")
	wants(t, "export", out, "tooled,0,3", "tooled,1,4")
}

// consumerPerf reads with the performance test of consumers.
func consumerPerf(t *testing.T, n *target.Node) {
	for _, p := range protocols {
		out := tool(t, n, kafka.ConsumerPerfTest, "--topic", "tooled", "--num-records", "20", "--group", "perf-"+p,
			"--command-property", "group.protocol="+p, "--timeout", "30000")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		fields := strings.Split(lines[len(lines)-1], ", ")
		if len(fields) < 5 || fields[4] != "20" {
			t.Errorf("perf test of consumers, %s:\n%s", p, out)
		}
	}
}

// verifiable runs Kafka's verifiable producer and consumers: each record that was
// acknowledged is consumed and committed.
func verifiable(t *testing.T, n *target.Node) {
	const count = 500
	out := tool(t, n, kafka.VerifiableProducer, "--topic", "verified", "--max-messages", fmt.Sprint(count), "--acks", "-1")
	if got := events(t, out)["producer_send_success"]; len(got) != count {
		t.Fatalf("%d records were acknowledged, want %d", len(got), count)
	}
	for _, p := range protocols {
		out := tool(t, n, kafka.VerifiableConsumer, "--topic", "verified", "--group-id", "v-"+p, "--group-protocol", p, "--max-messages", fmt.Sprint(count))
		e := events(t, out)
		consumed, committed := 0.0, false
		for _, x := range e["records_consumed"] {
			consumed += x["count"].(float64)
		}
		for _, x := range e["offsets_committed"] {
			committed = committed || x["success"] == true
		}
		if consumed != count || !committed || len(e["partitions_assigned"]) == 0 {
			t.Errorf("verifiable consumer, %s: %v consumed, committed %v:\n%s", p, consumed, committed, proc.Tail(out, 20))
		}
	}
}

// events sorts the JSON lines of a verifiable client by their names.
func events(t *testing.T, out string) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for line := range strings.Lines(out) {
		var x map[string]any
		if json.Unmarshal([]byte(line), &x) != nil {
			continue // a word to the reader
		}
		if name, ok := x["name"].(string); ok {
			all[name] = append(all[name], x)
		}
	}
	return all
}

// The console consumer, with groups of both kinds, on three brokers of which one
// dies.
func TestConsoleConsumersOnACluster(t *testing.T) {
	t.Parallel()
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	cl := clusterClient(t, c)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 6, 3, nil, "console"); err != nil {
		t.Fatal(err)
	}
	say := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "console", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(0, 300)
	for _, p := range protocols {
		got := consoleConsume(t, c.Nodes[0], p, "c-"+p, "console", 300)
		if lines := strings.Count(got, "\n"); lines != 300 {
			t.Errorf("%s: %d lines, want 300", p, lines)
		}
	}
	c.Nodes[2].Kill()
	say(300, 400)
	for _, p := range protocols {
		got := strings.Fields(consoleConsume(t, c.Nodes[1], p, "c-"+p, "console", 100))
		seen := map[string]bool{}
		for _, v := range got {
			seen[v] = true
		}
		for i := 300; i < 400; i++ {
			if !seen[fmt.Sprint(i)] {
				t.Fatalf("%s: %d did not come after a broker died, of %d", p, i, len(got))
			}
		}
	}
}
