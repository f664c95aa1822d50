//go:build compat

package clients_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/compat/clients"
)

func groupRows() []row {
	return []row{
		{"group-resume", "committed offsets: a later member goes on where the earlier stopped", groupResume("classic"), true},
		{"group-members", "a second member takes a share of the partitions and gives it back", groupMembers("classic", ""), true},
		{"group-cooperative", "the same with incremental cooperative rebalancing", groupMembers("classic", "cooperative-sticky"), false},
		{"group-static", "a static member that restarts gets its partitions back without a rebalance", groupStatic, false},
		{"group-pattern", "a subscription by pattern finds a topic that is made later", groupPattern, false},
		{"group-recreated", "a topic is deleted and made again under a running consumer, which reads the new one from its start", groupRecreated, false},
		{"group-crash", "a member that dies is dropped and its partitions go to the others", groupCrash, false},
		{"consumer-resume", "KIP-848: committed offsets", groupResume("consumer"), true},
		{"group-migration", "members change from the classic to the consumer protocol and back, one by one, under load", groupMigration(""), false},
		{"group-migration-cooperative", "the same, the classic ones with incremental cooperative rebalancing", groupMigration("cooperative-sticky"), false},
		{"consumer-members", "KIP-848: a second member takes a share and gives it back", groupMembers("consumer", ""), false},
	}
}

// member is one consumer of the row's group, in a process of its own.
type member struct {
	*bench
	name  string
	owns  []clients.Assigned
	total []clients.Record
	// changing: its group changes its protocol, and the client passes on what it
	// was told then.
	changing bool
}

func (b *bench) join(name string, r clients.Request) *member {
	b.Helper()
	m := &member{bench: b.start(), name: name}
	r.Op, r.Member, r.Group = "join", name, b.topic
	if r.Pattern == "" {
		r.Topic = b.topic
	}
	m.do(r)
	return m
}

// poll gives the member time to take part in the group, and collects what it
// gets.
func (m *member) poll(count int, d time.Duration) {
	m.Helper()
	a := m.try(clients.Request{Op: "poll", Member: m.name, Count: count, Timeout: int(d.Milliseconds())})
	m.total = append(m.total, a.Records...)
	switch {
	case a.Error == "":
		m.owns = a.Assignment
	case !m.changing || !rebalancing(a.Error):
		m.Fatalf("poll of %s: %s", m.name, a.Error)
	}
}

// rebalancing reports whether a client refuses something because its group
// rebalances, or because it was not heard of in time and has to join again. Apache
// Kafka answers so the joins and syncs that wait when a group becomes one of the
// other protocol, and librdkafka tells its user that a join failed.
func rebalancing(refusal string) bool {
	words := strings.ReplaceAll(strings.ToLower(refusal), "_", "")
	return strings.Contains(words, "rebalanceinprogress") || strings.Contains(words, "assignmentlost")
}

func (m *member) commit() {
	m.Helper()
	m.do(clients.Request{Op: "commit", Member: m.name})
}

func (m *member) leave() {
	m.Helper()
	m.do(clients.Request{Op: "leave", Member: m.name})
}

// collect polls until the member has n records in all.
func (m *member) collect(n int) {
	m.Helper()
	m.eventually(fmt.Sprintf("%d records", n), func() bool {
		m.poll(n-len(m.total), 500*time.Millisecond)
		return len(m.total) >= n
	})
}

// settle polls all members until they own so many partitions each, no partition
// twice.
func settle(b *bench, what string, ms []*member, shares ...int) {
	b.Helper()
	b.eventually(what, func() bool {
		var all []string
		fits := true
		for i, m := range ms {
			m.poll(1000, 200*time.Millisecond)
			fits = fits && len(m.owns) == shares[i]
			for _, a := range m.owns {
				all = append(all, fmt.Sprint(a))
			}
		}
		slices.Sort(all)
		return fits && len(slices.Compact(all)) == len(all)
	}, func() string { return standing(b, ms) })
}

func groupResume(protocol string) func(b *bench) {
	return func(b *bench) {
		b.create(1)
		want := b.produce(clients.Request{Records: some(100)})
		first := b.join("first", clients.Request{Protocol: protocol})
		first.collect(40)
		same(b, first.total, want[:len(first.total)])
		first.commit()
		first.leave()
		n := len(first.total)
		b.eventually("the committed offset", func() bool {
			return b.do(clients.Request{Op: "committed", Group: b.topic, Topic: b.topic}).Offset == int64(n)
		})
		if n == len(want) {
			want = append(want, b.produce(clients.Request{Records: some(20)})...)
		}
		second := b.join("second", clients.Request{Protocol: protocol})
		second.collect(len(want) - n)
		same(b, second.total, want[n:])
		second.leave()
	}
}

func groupMembers(protocol, strategy string) func(b *bench) {
	return func(b *bench) {
		b.create(4)
		join := clients.Request{Protocol: protocol, Strategy: strategy}
		one := b.join("one", join)
		settle(b, "one member has all", []*member{one}, 4)
		two := b.join("two", join)
		settle(b, "two members share", []*member{one, two}, 2, 2)
		var rs []clients.Record
		for i := range 40 {
			rs = append(rs, clients.Record{Partition: i % 4, Value: fmt.Append(nil, i)})
		}
		b.produce(clients.Request{Records: rs})
		b.eventually("both get theirs", func() bool {
			one.poll(40, 200*time.Millisecond)
			two.poll(40, 200*time.Millisecond)
			return len(one.total)+len(two.total) >= 40
		})
		if len(one.total) != 20 || len(two.total) != 20 {
			b.Fatalf("%d and %d records", len(one.total), len(two.total))
		}
		one.commit()
		two.commit()
		two.leave()
		settle(b, "the one that stays has all", []*member{one}, 4)
		if len(one.total) != 20 {
			b.Fatalf("the one that stays got %d records again", len(one.total)-20)
		}
		one.leave()
	}
}

// groupMigration rolls three members from one protocol to the other and back: no
// record is skipped, whoever was in the middle of what.
func groupMigration(strategy string) func(b *bench) {
	return func(b *bench) {
		b.create(4)
		seen, sent, names := map[string]bool{}, 0, 0
		join := func(protocol string) *member {
			names++
			m := b.join(fmt.Sprint("m", names), clients.Request{Protocol: protocol, Strategy: strategy})
			m.changing = true
			return m
		}
		ms := []*member{join("classic"), join("classic"), join("classic")}
		pump := func(d time.Duration) {
			for _, m := range ms {
				m.poll(1000, d)
				for _, r := range m.total {
					seen[string(r.Value)] = true
				}
				m.total = nil
			}
		}
		load := func(n int) {
			var rs []clients.Record
			for range n {
				rs = append(rs, clients.Record{Partition: sent % 4, Value: fmt.Append(nil, sent)})
				sent++
			}
			b.produce(clients.Request{Records: rs})
		}
		round := func(what string) {
			load(40)
			pump(100 * time.Millisecond)
			load(40)
			stands := func() string { return standing(b, ms) + missing(seen, sent) }
			b.eventually(what, func() bool {
				pump(100 * time.Millisecond)
				var all []string
				idle := false // a member that has nothing has more to come
				for _, m := range ms {
					idle = idle || len(m.owns) == 0
					for _, a := range m.owns {
						all = append(all, fmt.Sprint(a))
					}
				}
				slices.Sort(all)
				return !idle && len(all) == 4 && len(slices.Compact(all)) == 4 && len(seen) == sent
			}, stands)
			// All have what they are to have, and may be told so once more.
			for _, m := range ms {
				refusal := ""
				b.eventually(what+", "+m.name+" commits", func() bool {
					refusal = m.try(clients.Request{Op: "commit", Member: m.name}).Error
					if refusal != "" && !rebalancing(refusal) {
						b.Fatalf("%s: commit of %s: %s\n%s", what, m.name, refusal, stands())
					}
					if refusal != "" {
						pump(100 * time.Millisecond)
					}
					return refusal == ""
				}, func() string { return refusal }, stands)
			}
		}
		round("three classic members")
		for _, protocol := range []string{"consumer", "classic"} {
			for i := range ms {
				load(20) // what the one that goes has not read is for the others
				ms[i].leave()
				if i == 1 {
					ms = slices.Delete(ms, i, i+1)
					round("one is away")
					ms = slices.Insert(ms, i, join(protocol))
				} else {
					ms[i] = join(protocol)
				}
				round(fmt.Sprintf("%d members of the %s protocol", i+1, protocol))
			}
		}
		for _, m := range ms {
			m.leave()
		}
	}
}

func groupStatic(b *bench) {
	b.create(4)
	one := b.join("one", clients.Request{Instance: "instance-1"})
	two := b.join("two", clients.Request{Instance: "instance-2"})
	settle(b, "two members share", []*member{one, two}, 2, 2)
	before := slices.Clone(two.owns)
	kept := slices.Clone(one.owns)
	two.Kill()
	again := b.join("again", clients.Request{Instance: "instance-2"})
	settle(b, "it is back", []*member{one, again}, 2, 2)
	if !slices.Equal(again.owns, before) || !slices.Equal(one.owns, kept) {
		b.Fatalf("it had %v and has %v; the other had %v and has %v", before, again.owns, kept, one.owns)
	}
	one.leave()
	again.leave()
}

func groupPattern(b *bench) {
	b.create(1)
	m := b.join("one", clients.Request{Pattern: b.topic + ".*"})
	settle(b, "one topic", []*member{m}, 1)
	b.do(clients.Request{Op: "create", Topic: b.topic + "-later", Partitions: 2, Replication: 1})
	settle(b, "the topic that was made later", []*member{m}, 3)
	m.leave()
}

func groupRecreated(b *bench) {
	b.create(1)
	b.produce(clients.Request{Records: some(10)})
	m := b.join("one", clients.Request{})
	m.collect(10)
	b.do(clients.Request{Op: "delete", Topic: b.topic})
	// Some consumers make it again by themselves, with their next question.
	b.eventually("a new topic of the name", func() bool {
		m.try(clients.Request{Op: "poll", Member: m.name, Count: 1, Timeout: 100})
		b.try(clients.Request{Op: "create", Topic: b.topic, Partitions: 1, Replication: 1})
		a := b.try(clients.Request{Op: "offsets", Topic: b.topic})
		return a.Error == "" && a.End == 0
	})
	want := b.produce(clients.Request{Records: []clients.Record{{Value: []byte("new 0")}, {Value: []byte("new 1")}, {Value: []byte("new 2")}}})
	m.total = nil
	b.eventually("the records of the new topic", func() bool {
		a := m.try(clients.Request{Op: "poll", Member: m.name, Count: 100, Timeout: 500})
		m.total = append(m.total, a.Records...)
		return len(m.total) >= len(want)
	})
	same(b, m.total, want)
	m.leave()
}

func groupCrash(b *bench) {
	b.create(4)
	one := b.join("one", clients.Request{})
	two := b.join("two", clients.Request{})
	settle(b, "two members share", []*member{one, two}, 2, 2)
	two.Kill()
	settle(b, "the one that lives has all", []*member{one}, 4)
	one.leave()
}
