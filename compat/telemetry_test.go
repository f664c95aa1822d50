//go:build compat

package compat_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/clients"
	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// Subscriptions by both of Kafka's tools for them.
func TestClientMetricsTools(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	wants(t, "alter", tool(t, n, kafka.ClientMetrics, "--alter", "--name", "mine", "--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.",
		"--interval", "2000", "--match", "client_id=app-.*"), "Altered client metrics config for mine.")
	tool(t, n, kafka.Configs, "--alter", "--entity-type", "client-metrics", "--entity-name", "other", "--add-config", "interval.ms=30000")
	out := tool(t, n, kafka.ClientMetrics, "--list")
	wants(t, "list", out, "mine", "other")
	wants(t, "describe", tool(t, n, kafka.ClientMetrics, "--describe", "--name", "mine"), "interval.ms=2000", "match=client_id=app-.*", "metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.")
	wants(t, "describe all", tool(t, n, kafka.Configs, "--describe", "--entity-type", "client-metrics"), "mine", "other", "interval.ms=30000", "CLIENT_METRICS_CONFIG")
	fails(t, n, "interval.ms", kafka.ClientMetrics, "--alter", "--name", "mine", "--interval", "1")
	fails(t, n, "client_shoe_size=44", kafka.ClientMetrics, "--alter", "--name", "mine", "--match", "client_shoe_size=44")
	tool(t, n, kafka.ClientMetrics, "--delete", "--name", "mine")
	if out := tool(t, n, kafka.ClientMetrics, "--list"); strings.Contains(out, "mine") || !strings.Contains(out, "other") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

// Stock clients find out that their metrics are wanted, push them for as long as they
// are subscribed to, and librdkafka a last time when it ends. None does so where it is
// not advertised.
func TestClientsPushTelemetry(t *testing.T) {
	if target.IsKafka() {
		t.Skip("Apache Kafka advertises it only with a plugin")
	}
	t.Parallel()
	port, err := proc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(i int) string { return fmt.Sprintf("tidemark.http.listen=127.0.0.1:%d", port+i) }
	on := telemetryBroker{t, startNode(t, listen(0), "group.min.session.timeout.ms=1000", "tidemark.client.telemetry.enable=true"), port}
	off := telemetryBroker{t, startNode(t, listen(1), "group.min.session.timeout.ms=1000"), port + 1}
	for software, start := range map[string]func(b telemetryBroker) (stop func()){ // order-free: one after the other
		"apache-kafka-java": telemetryOfJava, "confluent-kafka-python": telemetryOfLibrdkafka,
	} {
		t.Run(software, func(t *testing.T) {
			on, off := on, off
			on.T, off.T = t, t
			for _, b := range []telemetryBroker{on, off} {
				tool(t, b.node, kafka.ClientMetrics, "--alter", "--name", "s", "--metrics", "*", "--interval", "200", "--match", "client_software_name="+software)
			}
			stopOff, stop := start(off), start(on)
			before := on.value("tidemark_client_telemetry_pushes_total")
			eventuallyWithin(t, 60*time.Second, "pushes", func() bool { return on.value("tidemark_client_telemetry_pushes_total") >= before+3 })
			if on.value("tidemark_client_telemetry_bytes_total") < 300 || on.value("kafka_server_client_metrics_instance_count") < 1 {
				t.Error("pushes are counted, bytes or clients are not")
			}
			last := on.value("tidemark_client_telemetry_last_pushes_total")
			stop()
			if software != "apache-kafka-java" { // its producer ends without one if nothing else is under way
				eventuallyWithin(t, 30*time.Second, "the last push", func() bool { return on.value("tidemark_client_telemetry_last_pushes_total") > last })
			}
			for _, refusal := range []string{"tidemark_client_telemetry_refused_total", "kafka_server_client_metrics_unknown_subscription_request_count"} {
				if v := on.value(refusal); v != 0 {
					t.Errorf("%s is %d", refusal, v)
				}
			}
			stopOff()
			if v := off.value("kafka_server_client_metrics_instance_count") + off.value("tidemark_client_telemetry_pushes_total"); v != 0 {
				t.Error("a client asked a broker that does not advertise it")
			}
		})
	}
}

// telemetryBroker is a node whose page of metrics is read.
type telemetryBroker struct {
	*testing.T
	node *target.Node
	page int // its port
}

// value reads a metric without labels.
func (b telemetryBroker) value(name string) int64 {
	b.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", b.page))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(page)
	if m == nil {
		b.Fatalf("no %s on the page", name)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return int64(v)
}

// telemetryOfJava runs Kafka's own producer.
func telemetryOfJava(b telemetryBroker) (stop func()) {
	jars, err := kafka.Resolve(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	p := javaProcess(b.T, "the producer", func() (*proc.Process, error) {
		return jars.StartTool(kafka.VerifiableProducer, "--bootstrap-server", b.node.Addr, "--topic", "pushed", "--throughput", "20")
	})
	eventuallyWithin(b.T, 60*time.Second, "records", func() bool { return strings.Count(p.Stdout.String(), "producer_send_success") > 40 })
	return func() { end(b.T, p) }
}

// telemetryOfLibrdkafka runs a member of a group by confluent-kafka.
func telemetryOfLibrdkafka(b telemetryBroker) (stop func()) {
	d, err := clients.List()[0].Start(b.Context(), b.node.Addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Kill)
	do := func(r clients.Request) {
		b.Helper()
		if a, err := d.Do(r); err != nil || a.Error != "" {
			b.Fatal(r.Op, err, a.Error)
		}
	}
	do(clients.Request{Op: "create", Topic: "read", Partitions: 1, Replication: 1})
	do(clients.Request{Op: "join", Member: "m", Group: "telemetry", Topic: "read"})
	do(clients.Request{Op: "poll", Member: "m", Count: 1, Timeout: 3000})
	return func() { do(clients.Request{Op: "leave", Member: "m"}) }
}
