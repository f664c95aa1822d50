//go:build compat

package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/proc"
)

// apps are the jars with Kafka Streams and Connect.
func apps(t *testing.T) kafka.Jars {
	t.Helper()
	jars, err := kafka.ResolveApps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return jars
}

// javaProcess is a program that goes on until it is stopped.
func javaProcess(t *testing.T, what string, start func() (*proc.Process, error)) *proc.Process {
	t.Helper()
	p, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", what, proc.Tail(p.Stdout.String()+p.Stderr.String(), 40))
		}
	})
	return p
}

// end is SIGTERM, which a Java program answers with exit code 143.
func end(t *testing.T, p *proc.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(40 * time.Second); err != nil || code != 143 {
		t.Fatalf("exit %d, %v\n%s", code, err, proc.Tail(p.Stdout.String()+p.Stderr.String(), 40))
	}
}

// wordCount starts the streams application of WordCount.java.
func wordCount(t *testing.T, jars kafka.Jars, addr, state string) *proc.Process {
	t.Helper()
	argv := append(jars.Source(filepath.Join("kafka", "apps", "WordCount.java")), addr, "words", state)
	p := javaProcess(t, "the streams application", func() (*proc.Process, error) { return proc.Start("", nil, argv...) })
	if err := p.Until(90*time.Second, func() bool { return strings.Contains(p.Stdout.String(), "state RUNNING") }); err != nil {
		t.Fatal(err)
	}
	return p
}

// counted reads the topic of counts until the newest are those.
func counted(t *testing.T, cl *kgo.Client, newest map[string]string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		got, _ := json.Marshal(newest)
		if string(got) == want {
			return
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the counts are %s, want %s", got, want)
		}
		fetches.EachRecord(func(r *kgo.Record) { newest[string(r.Key)] = string(r.Value) })
	}
}

// Kafka Streams counts words on three brokers, goes on where it stopped with its
// state restored from the changelog, and begins anew when it was reset.
func TestStreamsWordCount(t *testing.T) {
	t.Parallel()
	jars := apps(t)
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	prod := clusterClient(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(prod)
	if _, err := adm.CreateTopics(t.Context(), 2, 3, nil, "lines", "counts"); err != nil {
		t.Fatal(err)
	}
	say := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			if err := prod.ProduceSync(t.Context(), &kgo.Record{Topic: "lines", Value: []byte(line)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts := clusterClient(t, c, kgo.ConsumeTopics("counts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	newest := map[string]string{}

	say("all streams lead to the sea", "the sea is not full")
	app := wordCount(t, jars, c.Addrs(), t.TempDir())
	counted(t, counts, newest, `{"all":"1","full":"1","is":"1","lead":"1","not":"1","sea":"2","streams":"1","the":"2","to":"1"}`)
	end(t, app)

	say("the tide")
	app = wordCount(t, jars, c.Addrs(), t.TempDir()) // nothing on this disk
	counted(t, counts, newest, `{"all":"1","full":"1","is":"1","lead":"1","not":"1","sea":"2","streams":"1","the":"3","tide":"1","to":"1"}`)
	end(t, app)

	eventuallyWithin(t, 30*time.Second, "the application's group is empty", func() bool {
		groups, err := adm.DescribeGroups(t.Context(), "words")
		return err == nil && groups["words"].State == "Empty"
	})
	r := toolResult(t, c.Nodes[1], nil, kafka.StreamsReset, "--application-id", "words", "--input-topics", "lines", "--force")
	if r.Exit != 0 {
		t.Fatalf("reset: exit %d\n%s", r.Exit, r.All())
	}
	wants(t, "reset", r.Stdout, "words-by-word-repartition", "words-counts-store-changelog")
	eventually(t, "the internal topics are gone", func() bool {
		topics, err := adm.ListTopics(t.Context())
		return err == nil && !topics.Has("words-by-word-repartition") && !topics.Has("words-counts-store-changelog")
	})
	app = wordCount(t, jars, c.Addrs(), t.TempDir())
	say("done")
	clear(newest)
	counted(t, counts, newest, `{"all":"1","done":"1","full":"1","is":"1","lead":"1","not":"1","sea":"2","streams":"1","the":"3","tide":"1","to":"1"}`)
	end(t, app)
}

// properties writes a Java properties file.
func properties(t *testing.T, pairs ...string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.properties")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(f, "%s=%s\n", pairs[i], pairs[i+1])
	}
	return f.Name()
}

// worker are the settings of a Connect worker.
func worker(addr string, port int, more ...string) []string {
	const converter = "org.apache.kafka.connect.storage.StringConverter"
	return append([]string{
		"bootstrap.servers", addr, "key.converter", converter, "value.converter", converter,
		"listeners", fmt.Sprintf("http://127.0.0.1:%d", port), "offset.flush.interval.ms", "500",
		"consumer.auto.offset.reset", "earliest", "consumer.metadata.max.age.ms", "2000",
	}, more...)
}

// sameFile waits until a file has a text.
func sameFile(t *testing.T, name, want string) {
	t.Helper()
	eventuallyWithin(t, 90*time.Second, name+" is as it should be", func() bool {
		got, err := os.ReadFile(name)
		return err == nil && string(got) == want
	})
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Kafka Connect, standalone: a file goes through a topic into another file, over a
// restart of the worker and of the broker.
func TestConnectStandalone(t *testing.T) {
	t.Parallel()
	jars := apps(t)
	n := startNode(t, "group.initial.rebalance.delay.ms=0")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	port, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{
		properties(t, worker(n.Addr, port, "offset.storage.file.filename", filepath.Join(dir, "offsets"))...),
		properties(t, "name", "source", "connector.class", "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max", "1", "file", in, "topic", "connected"),
		properties(t, "name", "sink", "connector.class", "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max", "1", "file", out, "topics", "connected"),
	}
	start := func() *proc.Process {
		return javaProcess(t, "the worker", func() (*proc.Process, error) { return jars.StartTool(kafka.ConnectStandalone, files...) })
	}
	appendTo(t, in, "one\ntwo\n")
	p := start()
	sameFile(t, out, "one\ntwo\n")
	end(t, p)
	restart(t, n, true)
	appendTo(t, in, "three\n")
	p = start()
	sameFile(t, out, "one\ntwo\nthree\n")
	end(t, p)
}

// Kafka Connect, distributed: two workers on three brokers, that keep everything in
// topics and share the tasks; one of them dies.
func TestConnectDistributed(t *testing.T) {
	t.Parallel()
	jars := apps(t)
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	port, err := proc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	var workers []*proc.Process
	var urls []string
	for i := range 2 {
		file := properties(t, worker(c.Addrs(), port+i, "group.id", "connect", "config.storage.topic", "connect-configs", "offset.storage.topic", "connect-offsets",
			"status.storage.topic", "connect-status", "offset.storage.partitions", "3", "session.timeout.ms", "6000", "heartbeat.interval.ms", "1000",
			"scheduled.rebalance.max.delay.ms", "1000")...)
		workers = append(workers, javaProcess(t, fmt.Sprint("worker ", i), func() (*proc.Process, error) { return jars.StartTool(kafka.ConnectDistributed, file) }))
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", port+i))
	}
	for _, url := range urls {
		eventuallyWithin(t, 120*time.Second, "a worker serves", func() bool { return rest(t, http.MethodGet, url+"/connectors", "", nil) == nil })
	}
	appendTo(t, in, "one\ntwo\n")
	for _, config := range []string{
		fmt.Sprintf(`{"name":"source","config":{"connector.class":"org.apache.kafka.connect.file.FileStreamSourceConnector","tasks.max":"1","file":%q,"topic":"connected"}}`, in),
		fmt.Sprintf(`{"name":"sink","config":{"connector.class":"org.apache.kafka.connect.file.FileStreamSinkConnector","tasks.max":"1","file":%q,"topics":"connected"}}`, out),
	} {
		var last error
		eventuallyWithin(t, 60*time.Second, "a connector is taken", func() bool {
			last = rest(t, http.MethodPost, urls[0]+"/connectors", config, nil)
			return last == nil
		})
	}
	sameFile(t, out, "one\ntwo\n")
	running(t, urls[1], "source", "sink")
	workers[0].Kill()
	appendTo(t, in, "three\n")
	// What was written and not committed when the worker died comes again.
	eventuallyWithin(t, 90*time.Second, "the other worker goes on", func() bool {
		got, err := os.ReadFile(out)
		return err == nil && strings.HasSuffix(string(got), "three\n")
	})
	running(t, urls[1], "source", "sink")
	end(t, workers[1])
}

// running waits until connectors and their tasks run.
func running(t *testing.T, url string, connectors ...string) {
	t.Helper()
	for _, name := range connectors {
		var s struct {
			Connector struct{ State string }
			Tasks     []struct{ State string }
		}
		eventuallyWithin(t, 60*time.Second, name+" runs", func() bool {
			return rest(t, http.MethodGet, url+"/connectors/"+name+"/status", "", &s) == nil &&
				s.Connector.State == "RUNNING" && len(s.Tasks) == 1 && s.Tasks[0].State == "RUNNING"
		})
	}
}

// rest asks a worker; into may be nil.
func rest(t *testing.T, method, url, body string, into any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s\n%s", method, url, resp.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
