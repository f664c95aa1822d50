package broker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/broker/admin"
	"github.com/tidemark/tidemark/broker/inspect"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
)

// page gets one of the broker's pages for operators.
func (b *Broker) page(t *testing.T, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + b.PagesAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func wantReport(t *testing.T, b *Broker, path string, status int, checks ...string) {
	t.Helper()
	got, body := b.page(t, path)
	var r admin.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, body)
	}
	var said []string
	for _, c := range r.Checks {
		mark := "-"
		if c.OK {
			mark = "+"
		}
		said = append(said, mark+c.Name+": "+c.Detail)
	}
	if got != status || len(said) != len(checks) {
		t.Fatalf("%s: %d %q, want %d %q", path, got, said, status, checks)
	}
	for i := range checks {
		if !strings.HasPrefix(said[i], checks[i]) {
			t.Errorf("%s: %q, want %q", path, said[i], checks[i])
		}
	}
}

func TestPagesOfARunningBroker(t *testing.T) {
	b := startBroker(t, t.TempDir(), "tidemark.http.listen=127.0.0.1:0")
	defer stopBroker(t, b)
	cl := client(t, b)
	createTopic(t, cl, "seen", 2, nil)
	c := rawDial(t, b)
	batch := plainBatch(3, 100)
	c.produce("seen", 1, batch)
	c.fetched(fetchOf("seen", 1, 0, 1<<20), 12)
	c.call(fetchOf("unseen", 0, 0, 1<<20), 12)

	wantReport(t, b, "/healthz", 200, "+process: running ", "+directories: 1 of 1 in use", "+loops: ", "+controller: the quorum's loop answers", "+disks: ")
	wantReport(t, b, "/readyz", 200, "+quorum: controller 1, epoch ", "+partitions: 2 of 2 loaded", "+registration: broker epoch ", "+listeners: ")
	b.pages.node.Stopping()
	wantReport(t, b, "/readyz", 503, "+quorum: ", "+partitions: ", "+registration: ", "-listeners: stopping")

	status, text := b.page(t, "/metrics")
	if status != 200 {
		t.Fatalf("/metrics: %d\n%s", status, text)
	}
	for _, want := range []string{
		`kafka_server_replicamanager_leadercount 2`, `kafka_server_replicamanager_underreplicatedpartitions 0`,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="seen"} 3`, `kafka_server_kafkaserver_brokerstate 3`,
		`kafka_log_log_logendoffset{partition="1",topic="seen"} 3`, `tidemark_log_high_watermark{partition="1",topic="seen"} 3`,
		`kafka_network_requestmetrics_requests_total{request="Produce"} 1`, `tidemark_request_duration_seconds_count{request="Produce"} 1`,
		`kafka_network_requestmetrics_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="Fetch"} 1`,
		`kafka_controller_kafkacontroller_activecontrollercount 1`, `kafka_server_raft_metrics_current_leader 1`,
		`kafka_controller_kafkacontroller_offlinepartitionscount 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// A broker that is also the controller and leads has a value for everything else.
	for _, m := range inspect.Table() {
		name := m.Name
		if m.Kind == metrics.Durations {
			name += "_count"
		}
		if strings.HasPrefix(m.Help, "On a follower") || strings.HasPrefix(m.Name, "tidemark_peer_") {
			continue // there is no other node
		}
		if m.Name == "tidemark_partition_readable_below" {
			continue // nothing is damaged
		}
		if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("%s is not published", m.Name)
		}
	}
}

// TestPeersAreCounted: a node of several tells what it exchanged with the others.
func TestPeersAreCounted(t *testing.T) {
	c := newThree(t, "tidemark.http.listen=127.0.0.1:0")
	c.createAt(1, "orders", 2, 1, 3)
	c.produce(c.client(), "orders", 0, 10)
	// Node 1 fetches from the leader; Raft's messages go to or from whoever leads
	// the quorum, which may be any of the others.
	for class, nodes := range map[string][]int{"fetch": {2}, "raft": {2, 3}} {
		for _, name := range []string{"connects", "requests", "answers", "sent_bytes", "received_bytes"} {
			eventually(t, fmt.Sprintf("%s of class %s", name, class), func() bool {
				_, text := c.nodes[1].page(t, "/metrics")
				for _, node := range nodes {
					series := fmt.Sprintf("\ntidemark_peer_%s_total{class=%q,node=\"%d\"} ", name, class, node)
					if i := strings.Index(text, series); i >= 0 && text[i+len(series)] != '0' {
						return true
					}
				}
				return false
			})
		}
	}
}

// Before the parts exist the pages say so instead of nothing.
func TestPagesOfABrokerThatStarts(t *testing.T) {
	b := newBroker(t, t.TempDir(), "tidemark.http.listen=127.0.0.1:0")
	defer stopBroker(t, b)
	if err := b.openPages(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantReport(t, b, "/healthz", 200, "+process: running ", "+directories: not opened yet")
	wantReport(t, b, "/readyz", 503, "-directories: not opened yet")
	if status, text := b.page(t, "/metrics"); status != 200 || !strings.Contains(text, "\nkafka_server_kafkaserver_brokerstate 1\n") {
		t.Errorf("/metrics: %d\n%s", status, text)
	}
}

// A broker without an epoch of its own, fenced, or that gave up, is not ready,
// however many requests it could answer.
func TestPagesOfABrokerInTrouble(t *testing.T) {
	b := startBroker(t, t.TempDir(), "tidemark.http.listen=127.0.0.1:0")
	defer func() {
		if err := b.Stop(t.Context()); err == nil {
			t.Error("a stop after a failure doesn't tell it")
		}
	}()
	epoch := b.brokerEpoch.Load()
	b.brokerEpoch.Store(int64(model.NoBrokerEpoch))
	wantReport(t, b, "/readyz", 503, "+quorum: ", "+partitions: 0 of 0", "-registration: not registered yet", "+listeners: ")
	b.brokerEpoch.Store(epoch - 1)
	wantReport(t, b, "/readyz", 503, "+quorum: ", "+partitions: ", "-registration: another process", "+listeners: ")
	b.brokerEpoch.Store(epoch)
	b.fail(io.ErrUnexpectedEOF)
	wantReport(t, b, "/healthz", 503, "-process: unexpected EOF", "+directories: ", "+loops: ", "+controller: ", "+disks: ")
}
