//go:build compat

package clients_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/compat/clients"
	"github.com/tidemark/tidemark/compat/proc"
	"github.com/tidemark/tidemark/compat/target"
)

// program is the tidemark binary under test.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidemark-clients")
	if err == nil && !target.IsKafka() {
		program, err = target.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
	// Rows wait for timers more than they work.
	if err := flag.Set("test.parallel", "5"); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
	}
	os.Exit(code)
}

// bench is what a row works with: a broker and a client.
type bench struct {
	*testing.T
	node   *target.Node
	client clients.Client
	*clients.Driver
	topic string // the row's own
}

// start starts another process of the client.
func (b *bench) start() *bench {
	b.Helper()
	d, err := b.client.Start(b.Context(), b.node.Addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		d.Kill()
		if b.Failed() {
			b.Logf("the client's last words:\n%s", proc.Tail(d.Stderr(), 25))
		}
	})
	other := *b
	other.Driver = d
	return &other
}

// try has the client do something that may be refused.
func (b *bench) try(r clients.Request) clients.Answer {
	b.Helper()
	a, err := b.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// do has the client do something that must not be refused.
func (b *bench) do(r clients.Request) clients.Answer {
	b.Helper()
	a := b.try(r)
	if a.Error != "" {
		b.Fatalf("%s: %s", r.Op, a.Error)
	}
	return a
}

// create makes the row's topic.
func (b *bench) create(partitions int, configs ...string) {
	b.Helper()
	m := map[string]string{}
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	b.do(clients.Request{Op: "create", Topic: b.topic, Partitions: partitions, Replication: 1, Configs: m})
}

// produce sends records and returns them as they must come back.
func (b *bench) produce(r clients.Request) []clients.Record {
	b.Helper()
	r.Op, r.Topic = "produce", b.topic
	if b.client.Plain {
		r.Records = slices.Clone(r.Records)
		for i := range r.Records {
			r.Records[i].Time, r.Records[i].Headers = 0, nil
		}
	}
	a := b.do(r)
	if len(a.Acks) != len(r.Records) {
		b.Fatalf("%d acknowledgements for %d records", len(a.Acks), len(r.Records))
	}
	out := append([]clients.Record(nil), r.Records...)
	for i, ack := range a.Acks {
		if ack.Error != "" {
			b.Fatalf("record %d: %s", i, ack.Error)
		}
		out[i].Partition, out[i].Offset = ack.Partition, ack.Offset
	}
	return out
}

// TestClients runs rows with every client: the core rows and a share of the
// others that changes from day to day, or all of them if TIDEMARK_CLIENT_ROWS is
// "all". TIDEMARK_CLIENTS and TIDEMARK_ROWS choose by name, separated by commas.
// TIDEMARK_COMPAT_TABLE names a file that gets the results as a table.
func TestClients(t *testing.T) {
	node := startNode(t)
	table := newTable()
	t.Cleanup(func() {
		if name := os.Getenv("TIDEMARK_COMPAT_TABLE"); name != "" {
			if err := os.WriteFile(name, []byte(table.String()), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	for _, c := range clients.List() {
		if !chosen("TIDEMARK_CLIENTS", c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			b := (&bench{T: t, node: node, client: c}).start()
			hello := b.do(clients.Request{Op: "hello"})
			t.Logf("%s %s", hello.Client, hello.Version)
			table.version(c, hello.Version)
			for _, r := range todaysRows(c) {
				if why, limit := c.Limits[r.name]; limit {
					table.limit(c, r, why)
					continue
				}
				passed := t.Run(r.name, func(t *testing.T) {
					row := *b
					row.T, row.topic = t, strings.NewReplacer(" ", "-", "@", "", "/", "-").Replace(c.Name+"-"+r.name)
					r.run(&row)
				})
				table.result(c, r, passed)
			}
		})
	}
}

// todaysRows are the rows to run with a client. Each of the rows that are not
// core comes up with some client on any day and with every client in a week.
func todaysRows(c clients.Client) []row {
	var out []row
	turn := int(time.Now().Unix()/86400) + len(c.Name)
	for i, r := range rows() {
		named := os.Getenv("TIDEMARK_ROWS") != "" && chosen("TIDEMARK_ROWS", r.name)
		due := os.Getenv("TIDEMARK_ROWS") == "" && (r.core || os.Getenv("TIDEMARK_CLIENT_ROWS") == "all" || (turn+i)%4 == 0)
		if named || due {
			out = append(out, r)
		}
	}
	return out
}

// TestInstall fetches every client, so that a network that fails is told apart
// from a client that does.
func TestInstall(t *testing.T) {
	for _, c := range clients.List() {
		if err := c.Install(t.Context()); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func chosen(env, name string) bool {
	names := os.Getenv(env)
	return names == "" || strings.Contains(","+names+",", ","+name+",")
}

// startNode starts a broker with an empty directory.
func startNode(t *testing.T) *target.Node {
	t.Helper()
	// Members of the consumer protocol have long sessions: one that is not heard of
	// in a group that becomes a classic one for it ends, with Apache Kafka too.
	n, err := target.New(program, filepath.Join(t.TempDir(), "data"), map[string]string{
		"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000", "group.consumer.min.session.timeout.ms": "2000",
		"group.consumer.session.timeout.ms": "30000", "group.consumer.min.heartbeat.interval.ms": "200", "group.consumer.heartbeat.interval.ms": "300",
		"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "5",
		"log.cleaner.backoff.ms": "300",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's last words:\n%s", proc.Tail(n.Stderr(), 40))
		}
		n.Kill()
	})
	return n
}
