//go:build compat

package compat_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/golden"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/target"
)

// wants checks that out holds every text.
func wants(t *testing.T, what, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s lacks %q:\n%s", what, text, out)
		}
	}
}

// fails checks that a tool refuses, with the text somewhere in what it prints.
func fails(t *testing.T, n *target.Node, text string, name kafka.Tool, args ...string) {
	t.Helper()
	r := toolResult(t, n, nil, name, args...)
	if !strings.Contains(r.All(), text) {
		t.Errorf("%s %s: want %q, got (exit %d)\n%s", name, strings.Join(args, " "), text, r.Exit, r.All())
	}
}

// Kafka's own command line tools against one broker. Each start of a Java
// virtual machine costs a second or two, so that each invocation here is one
// that checks something no other does.
func TestKafkaTools(t *testing.T) {
	n := startNode(t)
	t.Run("topics", func(t *testing.T) { testTopics(t, n) })
	t.Run("producers", func(t *testing.T) { testProducers(t, n) })
	t.Run("offsets", func(t *testing.T) { testOffsets(t, n) })
	t.Run("configs", func(t *testing.T) { testConfigs(t, n) })
	t.Run("delete records", func(t *testing.T) { testDeleteRecords(t, n) })
	t.Run("log dirs", func(t *testing.T) { testLogDirs(t, n) })
	t.Run("api versions", func(t *testing.T) { testAPIVersions(t, n) })
	t.Run("quorum", func(t *testing.T) { testQuorum(t, n) })
}

func testTopics(t *testing.T, n *target.Node) {
	out := tool(t, n, kafka.Topics, "--create", "--topic", "tools", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=3600000")
	wants(t, "create", out, "Created topic tools.")
	fails(t, n, "already exists", kafka.Topics, "--create", "--topic", "tools")
	tool(t, n, kafka.Topics, "--alter", "--topic", "tools", "--partitions", "3")
	out = tool(t, n, kafka.Topics, "--describe", "--topic", "tools")
	wants(t, "describe", out, "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=3600000", "Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1")
	out = tool(t, n, kafka.Topics, "--create", "--topic", "short-lived")
	wants(t, "create with defaults", out, "Created topic short-lived.")
	tool(t, n, kafka.Topics, "--delete", "--topic", "short-lived")
	if out = tool(t, n, kafka.Topics, "--list", "--exclude-internal"); strings.TrimSpace(out) != "tools" {
		t.Errorf("list: %q, want tools alone", out)
	}
	fails(t, n, "does not exist", kafka.Topics, "--describe", "--topic", "short-lived")
}

func testProducers(t *testing.T, n *target.Node) {
	// The console producer's defaults: idempotent, acks=all.
	r := toolResult(t, n, strings.NewReader("one\ntwo\nthree\n"), kafka.ConsoleProducer, "--topic", "console")
	if r.Exit != 0 || strings.Contains(r.All(), "ERROR") {
		t.Fatalf("console producer: exit %d\n%s", r.Exit, r.All())
	}
	var got []string
	for _, rec := range consumeFrom(t, n, "console", kgo.NewOffset().AtStart(), 3) {
		got = append(got, string(rec.Value))
		if rec.ProducerID < 0 {
			t.Error("the console producer was not idempotent")
		}
	}
	if strings.Join(got, " ") != "one two three" {
		t.Errorf("console producer: stored %q", got)
	}
	out := toolResult(t, nil, nil, kafka.ProducerPerfTest, "--topic", "perf", "--num-records", "50000", "--record-size", "100",
		"--throughput", "-1", "--producer-props", "bootstrap.servers="+n.Addr, "compression.type=lz4")
	if out.Exit != 0 {
		t.Fatalf("perf test: exit %d\n%s", out.Exit, out.All())
	}
	wants(t, "perf test", out.Stdout, "50000 records sent")
	if got := len(consumeFrom(t, n, "perf", kgo.NewOffset().AtStart(), 50_000)); got != 50_000 {
		t.Errorf("perf test: %d records stored", got)
	}
}

// kafka-get-offsets with every special time, and with a timestamp.
func testOffsets(t *testing.T, n *target.Node) {
	cl := client(t, n, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("offsets"))
	base := time.Now().Add(-time.Hour).UnixMilli()
	for i, at := range []int64{0, 5000, 9000, 2000, 3000} { // offset 2 is the newest
		r := &kgo.Record{Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(base + at)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ time, want string }{
		{"-1", "offsets:0:5"},
		{"latest", "offsets:0:5"},
		{"-2", "offsets:0:0"},
		{"-3", "offsets:0:2"}, // the greatest timestamp
		{"-4", "offsets:0:0"}, // earliest local: no tiers, so the log start
		{"-5", ""},            // latest tiered: none
		{"-6", ""},            // earliest to upload: none
		{fmt.Sprint(base + 1), "offsets:0:1"},
		{fmt.Sprint(base + 9001), ""},
	} {
		out := tool(t, n, kafka.GetOffsets, "--topic", "offsets", "--time", c.time)
		got := strings.TrimSpace(out)
		if c.want == "" {
			// The tool prints nothing, or no offset, for a partition without an answer.
			if got != "" && got != "offsets:0:" && got != "offsets:0:-1" {
				t.Errorf("time %s: got %q, want no offset", c.time, got)
			}
		} else if got != c.want {
			t.Errorf("time %s: got %q, want %q", c.time, got, c.want)
		}
	}
}

func testConfigs(t *testing.T, n *target.Node) {
	topic := []string{"--entity-type", "topics", "--entity-name", "tools"}
	with := func(base []string, more ...string) []string { return append(append([]string{}, base...), more...) }
	out := tool(t, n, kafka.Configs, with(topic, "--alter", "--add-config", "max.message.bytes=5000,cleanup.policy=[compact,delete]")...)
	wants(t, "alter", out, "Completed updating config for topic tools.")
	out = tool(t, n, kafka.Configs, with(topic, "--alter", "--delete-config", "retention.ms")...)
	wants(t, "alter", out, "Completed updating config for topic tools.")
	out = tool(t, n, kafka.Configs, with(topic, "--describe", "--all")...)
	wants(t, "describe topic", out,
		"max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000, DEFAULT_CONFIG:message.max.bytes=1048588}",
		"cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
		"retention.ms=604800000 sensitive=false synonyms={}")
	for _, g := range golden.TopicConfigs() {
		if g.Described {
			wants(t, "describe topic", out, "  "+g.Name+"=")
		}
	}
	fails(t, n, "no.such.key", kafka.Configs, with(topic, "--alter", "--add-config", "no.such.key=1")...)
	fails(t, n, "max.message.bytes", kafka.Configs, with(topic, "--alter", "--add-config", "max.message.bytes=-1")...)

	all := []string{"--entity-type", "brokers", "--entity-default"}
	one := []string{"--entity-type", "brokers", "--entity-name", "1"}
	tool(t, n, kafka.Configs, with(all, "--alter", "--add-config", "message.max.bytes=2000000")...)
	tool(t, n, kafka.Configs, with(one, "--alter", "--add-config", "message.max.bytes=3000000")...)
	out = tool(t, n, kafka.Configs, with(one, "--describe", "--all")...)
	wants(t, "describe broker", out,
		"message.max.bytes=3000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=3000000, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588}",
		"num.partitions=1 sensitive=false synonyms={DEFAULT_CONFIG:num.partitions=1}")
	for _, g := range golden.BrokerConfigs() {
		if g.Described {
			wants(t, "describe broker", out, "  "+g.Name+"=")
		}
	}
	tool(t, n, kafka.Configs, with(one, "--alter", "--delete-config", "message.max.bytes")...)
	out = tool(t, n, kafka.Configs, with(all, "--describe")...)
	wants(t, "describe cluster", out, "message.max.bytes=2000000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000}")
	fails(t, n, "num.partitions", kafka.Configs, with(one, "--alter", "--add-config", "num.partitions=7")...)

	group := []string{"--entity-type", "groups", "--entity-name", "tools-group"}
	tool(t, n, kafka.Configs, with(group, "--alter", "--add-config", "consumer.heartbeat.interval.ms=6000")...)
	out = tool(t, n, kafka.Configs, with(group, "--describe")...)
	wants(t, "describe group", out, "consumer.heartbeat.interval.ms=6000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.heartbeat.interval.ms=6000, DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000}")
	fails(t, n, "consumer.heartbeat.interval.ms", kafka.Configs, with(group, "--alter", "--add-config", "consumer.heartbeat.interval.ms=1")...)
	wants(t, "list groups", tool(t, n, kafka.Configs, "--entity-type", "groups", "--describe"), "tools-group")
	testQuotas(t, n)
}

// testQuotas sets and shows quotas of all kinds of clients.
func testQuotas(t *testing.T, n *target.Node) {
	for _, q := range []struct{ entity, config, shown string }{
		{"--entity-type users --entity-name ann", "producer_byte_rate=1000,request_percentage=12.5", "user-principal 'ann'"},
		{"--entity-type clients --entity-default", "consumer_byte_rate=2000", "the default client-id"},
		{"--entity-type users --entity-name ann --entity-type clients --entity-name app", "controller_mutation_rate=3", "client-id 'app'"},
		{"--entity-type ips --entity-name 10.0.0.1", "connection_creation_rate=4", "ip '10.0.0.1'"},
	} {
		entity := strings.Fields(q.entity)
		tool(t, n, kafka.Configs, append(append([]string{}, entity...), "--alter", "--add-config", q.config)...)
		out := tool(t, n, kafka.Configs, append(append([]string{}, entity...), "--describe")...)
		wants(t, "describe quotas", out, q.shown)
		for _, kv := range strings.Split(q.config, ",") {
			wants(t, "describe quotas", out, kv)
		}
	}
	fails(t, n, "nonsense", kafka.Configs, "--entity-type", "users", "--entity-name", "ann", "--alter", "--add-config", "nonsense=1")
}

func testDeleteRecords(t *testing.T, n *target.Node) {
	r := toolResult(t, n, strings.NewReader(""), kafka.DeleteRecords, "--offset-json-file", offsetsFile(t, "offsets", 3))
	if r.Exit != 0 {
		t.Fatalf("delete records: exit %d\n%s", r.Exit, r.All())
	}
	wants(t, "delete records", r.Stdout, "partition: offsets-0\tlow_watermark: 3")
	if got := consumeFrom(t, n, "offsets", kgo.NewOffset().AtStart(), 5); len(got) != 2 || got[0].Offset != 3 {
		t.Errorf("%d records from %d are left", len(got), got[0].Offset)
	}
	fails(t, n, "OffsetOutOfRange", kafka.DeleteRecords, "--offset-json-file", offsetsFile(t, "offsets", 99))
}

func testLogDirs(t *testing.T, n *target.Node) {
	out := tool(t, n, kafka.LogDirs, "--describe", "--topic-list", "perf,tools")
	var answer struct {
		Brokers []struct {
			Broker  int
			LogDirs []struct {
				LogDir     string
				Error      *string
				Partitions []struct {
					Partition       string
					Size, OffsetLag int64
					IsFuture        bool
				}
			}
		}
	}
	at := strings.Index(out, "{")
	if at < 0 || json.Unmarshal([]byte(out[at:]), &answer) != nil || len(answer.Brokers) != 1 || len(answer.Brokers[0].LogDirs) != 1 {
		t.Fatalf("log dirs: %s", out)
	}
	sizes := map[string]int64{}
	for _, p := range answer.Brokers[0].LogDirs[0].Partitions {
		sizes[p.Partition] = p.Size
		if p.OffsetLag != 0 || p.IsFuture {
			t.Errorf("%+v", p)
		}
	}
	if len(sizes) != 4 || sizes["perf-0"] < 10_000 || sizes["tools-2"] != 0 {
		t.Errorf("sizes %v in %s", sizes, answer.Brokers[0].LogDirs[0].LogDir)
	}
}

var versionLine = regexp.MustCompile(`^\s+(\w+)\((\d+)\): (?:(\d+) to )?(\d+) \[usable: (\d+)\]`)

// Every request that the broker advertises must be one of Kafka's, within
// Kafka's range, and usable by Kafka's newest client.
func testAPIVersions(t *testing.T, n *target.Node) {
	out := tool(t, n, kafka.BrokerAPIVersions)
	wants(t, "api versions", out, n.Addr+" (id: 1 rack: null isFenced: false) -> (")
	ranges := map[int16]golden.API{}
	for _, g := range golden.APIs() {
		ranges[g.Key] = g
	}
	usable := map[int16]bool{}
	for line := range strings.Lines(out) {
		m := versionLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[3] == "" {
			m[3] = m[4]
		}
		key, low, high := number(t, m[2]), number(t, m[3]), number(t, m[4])
		g, known := ranges[key]
		if !known || low < g.Min || high > g.Max {
			t.Errorf("%s: %d to %d, Kafka has %d to %d (known %v)", m[1], low, high, g.Min, g.Max, known)
		}
		usable[key] = true
	}
	for _, key := range []int16{0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 55, 60, 61, 75} {
		if !usable[key] {
			t.Errorf("%s (%d) is not usable", ranges[key].Name, key)
		}
	}
}

func number(t *testing.T, s string) int16 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return int16(n)
}

func testQuorum(t *testing.T, n *target.Node) {
	out := tool(t, n, kafka.MetadataQuorum, "describe", "--status")
	wants(t, "quorum status", out, "ClusterId:", "LeaderId:", "LeaderEpoch:", "HighWatermark:", "MaxFollowerLag:", "CurrentVoters:")
	if !regexp.MustCompile(`LeaderId:\s+1\n`).MatchString(out) {
		t.Errorf("quorum status: node 1 does not lead:\n%s", out)
	}
	out = tool(t, n, kafka.MetadataQuorum, "describe", "--replication")
	if !regexp.MustCompile(`(?m)^1\s+\S+\s+\d+\s+0\s+\S+\s+\S+\s+Leader`).MatchString(out) {
		t.Errorf("quorum replication: no line of the leader without lag:\n%s", out)
	}
}
