//go:build compat

package compat_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
)

// A group of two on three brokers while each of them is killed in turn: every
// record comes, in order and without a gap behind what is committed, and the
// offsets that were committed are never lost.
func TestKgoGroupOnACluster(t *testing.T) {
	c := startThree(t, "group.initial.rebalance.delay.ms=0")
	const partitions, each = 6, 400
	prod := clusterClient(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(prod)
	if _, err := adm.CreateTopic(t.Context(), partitions, 3, nil, "churn"); err != nil {
		t.Fatal(err)
	}
	seeds := kgo.SeedBrokers(strings.Split(c.Addrs(), ",")...)
	var members []*kgo.Client
	for range 2 {
		members = append(members, groupClient(t, c.Nodes[0], "cg", "churn", seeds, kgo.DisableAutoCommit(),
			kgo.SessionTimeout(6*time.Second), kgo.MetadataMinAge(20*time.Millisecond)))
	}
	next := make(map[int32]int64) // of each partition, as delivered
	seen := make(map[int32]map[int]bool)
	for p := range int32(partitions) {
		seen[p] = make(map[int]bool)
	}
	take := func(cl *kgo.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			n, _ := strconv.Atoi(strings.Split(string(r.Value), "/")[1])
			if r.Offset > next[r.Partition] {
				t.Errorf("partition %d: offset %d comes when %d is due", r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition] = max(next[r.Partition], r.Offset+1)
			seen[r.Partition][n] = true
		})
		commit, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := cl.CommitUncommittedOffsets(commit); err != nil {
			t.Logf("commit: %v", err)
		}
	}
	missing := func() (n int) {
		for p := range int32(partitions) {
			n += each - len(seen[p])
		}
		return n
	}
	for round := range 4 {
		more(t, prod, "churn", partitions, round*each/4, (round+1)*each/4)
		if round < 3 {
			c.Nodes[round].Kill()
		}
		for range 10 {
			take(members[0])
			take(members[1])
		}
		if round < 3 {
			if err := c.Nodes[round].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventuallyWithin(t, time.Minute, "everything comes", func() bool {
		take(members[0])
		take(members[1])
		return missing() == 0
	})
	eventuallyWithin(t, 30*time.Second, "everything is committed", func() bool {
		take(members[0])
		take(members[1])
		got, err := adm.FetchOffsets(t.Context(), "cg")
		if err != nil {
			return false
		}
		for p := range int32(partitions) {
			if o, _ := got.Lookup("churn", p); o.At != each {
				return false
			}
		}
		return true
	})
	out := tool(t, c.Nodes[1], kafka.ConsumerGroups, "--describe", "--group", "cg")
	if strings.Count(out, "churn") != partitions {
		t.Errorf("describe:\n%s", out)
	}
	adm.DeleteGroups(t.Context(), "cg")
}

// With fewer brokers than replicas asked for there are no groups, and no topic.
func TestTooFewBrokersForGroups(t *testing.T) {
	n := startNode(t, "offsets.topic.replication.factor=3")
	fill(t, n, "lonely", 1, 1)
	out := toolResult(t, n, nil, kafka.ConsoleConsumer, "--topic", "lonely", "--group", "g", "--from-beginning", "--timeout-ms", "3000", "--max-messages", "1").All()
	if !strings.Contains(out, "Processed a total of 0 messages") {
		t.Errorf("the console consumer printed\n%s", out)
	}
	topics, err := kadm.NewClient(client(t, n)).ListTopicsWithInternal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range topics {
		if strings.HasPrefix(name, "__") {
			t.Errorf("%s exists", name)
		}
	}
	if fmt.Sprint(topics["lonely"].Err) != "<nil>" {
		t.Error(topics["lonely"].Err)
	}
}
