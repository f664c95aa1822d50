package inspect

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/tidemark/tidemark/internal/metrics"
)

//go:generate go test -run TestReferenceIsCurrent -update .

var update = flag.Bool("update", false, "write docs/METRICS.md instead of comparing with it")

const (
	referencePath = "../../docs/METRICS.md"

	referenceHead = `# Metrics

Generated from the table in package broker/inspect by ` + "`go generate ./broker/inspect`" + `.

With ` + "`tidemark.http.listen=HOST:PORT`" + ` a node serves ` + "`/metrics`" + ` in Prometheus's format, and beside it ` + "`/healthz`" + `
(200 while restarting the process is not called for) and ` + "`/readyz`" + ` (200 while clients can be served here), both with
their reasons as JSON. It is off by default and asks nobody for a password: listen on the loopback or on a network that
only operators reach.

What Kafka counts too has the name that Kafka's exporter for Prometheus gives it; all else begins with ` + "`tidemark_`" + `.
Metrics of the cluster (` + "`kafka_controller_*`" + `) are published by every node from the metadata that it knows; those of a
partition by each of its replicas, those marked "on the leader" by the leader alone.

`
)

func TestReferenceIsCurrent(t *testing.T) {
	r, err := metrics.New(Table(), func(*metrics.Sink) {})
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.NewBufferString(referenceHead)
	if err := r.WriteReference(got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(referencePath, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatal("docs/METRICS.md is stale: run go generate ./broker/inspect")
	}
}

func TestTableIsComplete(t *testing.T) {
	for i, m := range Table() {
		if m.Name == "" || m.Help == "" || m.Kind == 0 {
			t.Errorf("row %d: %+v", i, m)
		}
	}
	if len(Table()) != int(leadersLost)+1 {
		t.Errorf("%d rows, want one for each of %d ids", len(Table()), leadersLost+1)
	}
}
