//go:build compat

package compat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/compat/target"
)

// fill makes a topic and produces values "partition/n" to each partition.
func fill(t *testing.T, n *target.Node, topic string, partitions int32, each int) {
	t.Helper()
	cl := client(t, n, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	more(t, cl, topic, partitions, 0, each)
}

func more(t *testing.T, cl *kgo.Client, topic string, partitions int32, from, to int) {
	t.Helper()
	var rs []*kgo.Record
	for p := range partitions {
		for i := from; i < to; i++ {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%d/%d", p, i)})
		}
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// poll collects want records, each once.
func poll(t *testing.T, want int, cls ...*kgo.Client) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	got := make(map[string]bool)
	for len(got) < want {
		for _, cl := range cls {
			short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			fetches := cl.PollFetches(short)
			stop()
			fetches.EachRecord(func(r *kgo.Record) { got[string(r.Value)] = true })
			if ctx.Err() != nil {
				t.Fatalf("%d of %d records came: %v", len(got), want, fetches.Err())
			}
		}
	}
	return got
}

func groupClient(t *testing.T, n *target.Node, group, topic string, opts ...kgo.Opt) *kgo.Client {
	return client(t, n, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond),
	}, opts...)...)
}

// A franz-go group reads everything, shares its partitions with a second member,
// and goes on from what it committed, across restarts of each kind.
func TestKgoGroup(t *testing.T) {
	for _, how := range []struct {
		name     string
		balancer kgo.GroupBalancer
	}{
		{"cooperative", kgo.CooperativeStickyBalancer()}, {"range", kgo.RangeBalancer()},
	} {
		t.Run(how.name, func(t *testing.T) {
			n := startNode(t, "group.initial.rebalance.delay.ms=0")
			fill(t, n, "shared", 4, 50)
			first := groupClient(t, n, "g", "shared", kgo.Balancers(how.balancer), kgo.DisableAutoCommit())
			poll(t, 200, first)
			if err := first.CommitUncommittedOffsets(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := groupClient(t, n, "g", "shared", kgo.Balancers(how.balancer), kgo.DisableAutoCommit())
			producer := client(t, n, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			adm := kadm.NewClient(producer)
			eventually(t, "two members share four partitions", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				first.PollFetches(ctx)
				second.PollFetches(ctx)
				g, err := adm.DescribeGroups(t.Context(), "g")
				if err != nil || g["g"].State != "Stable" || len(g["g"].Members) != 2 {
					return false
				}
				parts := 0
				for _, m := range g["g"].Members {
					c, _ := m.Assigned.AsConsumer()
					for _, topic := range c.Topics {
						parts += len(topic.Partitions)
					}
				}
				return parts == 4
			})
			more(t, producer, "shared", 4, 50, 60)
			poll(t, 40, first, second)
			for _, cl := range []*kgo.Client{first, second} {
				if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
					t.Fatal(err)
				}
				cl.Close()
			}
			for _, kill := range []bool{false, true} {
				restart(t, n, kill)
				eventually(t, fmt.Sprintf("after a restart (kill %v) every partition is at 60", kill), func() bool {
					got, err := adm.FetchOffsets(t.Context(), "g")
					at60 := 0
					for p := range int32(4) {
						if o, ok := got.Lookup("shared", p); ok && o.At == 60 {
							at60++
						}
					}
					return err == nil && at60 == 4
				})
			}
			more(t, producer, "shared", 4, 60, 61)
			third := groupClient(t, n, "g", "shared", kgo.Balancers(how.balancer), kgo.DisableAutoCommit())
			for v := range poll(t, 4, third) {
				if !strings.HasSuffix(v, "/60") {
					t.Errorf("record %s came again", v)
				}
			}
		})
	}
}

// A static member that restarts within its session disturbs nobody.
func TestKgoStaticMember(t *testing.T) {
	n := startNode(t, "group.initial.rebalance.delay.ms=0")
	fill(t, n, "static", 2, 10)
	adm := kadm.NewClient(client(t, n))
	member := func(id string) *kgo.Client {
		return groupClient(t, n, "s", "static", kgo.InstanceID(id), kgo.SessionTimeout(20*time.Second))
	}
	one, two := member("one"), member("two")
	poll(t, 20, one, two)
	generation := func() (g kadm.DescribedGroup) {
		eventually(t, "the group is stable", func() bool {
			got, err := adm.DescribeGroups(t.Context(), "s")
			g = got["s"]
			return err == nil && g.State == "Stable" && len(g.Members) == 2
		})
		return g
	}
	before := generation()
	two.Close()
	two = member("two")
	more(t, client(t, n, kgo.RecordPartitioner(kgo.ManualPartitioner())), "static", 2, 10, 20)
	poll(t, 20, one, two)
	after := generation()
	ids := func(g kadm.DescribedGroup) (out []string) {
		for _, m := range g.Members {
			out = append(out, *m.InstanceID)
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(ids(before), ids(after)) {
		t.Errorf("members %v, then %v", ids(before), ids(after))
	}
}

// kcat's balanced consumer reads everything and commits.
func TestKcatGroup(t *testing.T) {
	n := startNode(t, "group.initial.rebalance.delay.ms=0")
	fill(t, n, "cats", 3, 100)
	got := run(t, nil, "kcat", "-b", n.Addr, "-G", "cat", "-o", "beginning", "-e", "-q",
		"-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "cats").Stdout
	if lines := strings.Count(got, "\n"); lines != 300 {
		t.Errorf("%d lines came, want 300", lines)
	}
	offsets, err := kadm.NewClient(client(t, n)).FetchOffsets(t.Context(), "cat")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if o, _ := offsets.Lookup("cats", p); o.At != 100 {
			t.Errorf("partition %d committed at %d, want 100", p, o.At)
		}
	}
}

// Kafka's own consumer and its tool for groups.
func TestConsumerGroupsTool(t *testing.T) {
	n := startNode(t, "group.initial.rebalance.delay.ms=0")
	fill(t, n, "tooled", 2, 10)
	out := tool(t, n, kafka.ConsoleConsumer, "--topic", "tooled", "--group", "tg", "--from-beginning", "--max-messages", "20", "--timeout-ms", "30000")
	if lines := strings.Count(out, "\n"); lines != 20 {
		t.Errorf("the console consumer printed %d lines, want 20", lines)
	}
	has := func(what, text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, text)
			}
		}
	}
	has("list", tool(t, n, kafka.ConsumerGroups, "--list", "--state"), "tg", "Empty")
	has("describe", tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "tg"), "tooled", "10")
	member := groupClient(t, n, "tg", "tooled")
	eventually(t, "a member is there", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		member.PollFetches(ctx)
		got, err := kadm.NewClient(member).DescribeGroups(t.Context(), "tg")
		return err == nil && got["tg"].State == "Stable"
	})
	has("members", tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "tg", "--members", "--verbose"), "/127.0.0.1", "tooled:0,1")
	has("state", tool(t, n, kafka.ConsumerGroups, "--describe", "--group", "tg", "--state"), "Stable", "1")
	refused := toolResult(t, n, nil, kafka.ConsumerGroups, "--delete", "--group", "tg").All()
	has("delete of a group in use", refused, "The group is not empty")
	has("delete-offsets of a topic in use", toolResult(t, n, nil, kafka.ConsumerGroups, "--delete-offsets", "--group", "tg", "--topic", "tooled").All(), "subscribed")
	member.Close()
	reset := func(want int64, how ...string) {
		t.Helper()
		tool(t, n, kafka.ConsumerGroups, append([]string{"--reset-offsets", "--group", "tg", "--topic", "tooled:0", "--execute"}, how...)...)
		got, err := kadm.NewClient(client(t, n)).FetchOffsets(t.Context(), "tg")
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := got.Lookup("tooled", 0); o.At != want {
			t.Errorf("reset %v: at %d, want %d", how, o.At, want)
		}
	}
	reset(0, "--to-earliest")
	reset(10, "--to-latest")
	reset(4, "--to-offset", "4")
	reset(6, "--shift-by", "2")
	reset(6, "--to-current")
	reset(0, "--to-datetime", "2020-01-01T00:00:00.000")
	has("delete-offsets", tool(t, n, kafka.ConsumerGroups, "--delete-offsets", "--group", "tg", "--topic", "tooled:0"), "Successful")
	has("delete", tool(t, n, kafka.ConsumerGroups, "--delete", "--group", "tg"), "successful")
	if out := tool(t, n, kafka.ConsumerGroups, "--list"); strings.Contains(out, "tg") {
		t.Errorf("the group is still listed:\n%s", out)
	}
}
