package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

func topic(n int, partitions int32) Topic {
	return Topic{ID: model.TopicID{byte(n)}, Partitions: partitions}
}

// told writes a target as "1:0,1 2:3".
func told(s Set) string {
	out := ""
	for i, p := range s {
		switch {
		case i > 0 && s[i-1].Topic == p.Topic:
			out += fmt.Sprintf(",%d", p.Number)
		case i > 0:
			out += fmt.Sprintf(" %d:%d", p.Topic[0], p.Number)
		default:
			out = fmt.Sprintf("%d:%d", p.Topic[0], p.Number)
		}
	}
	return out
}

func TestRange(t *testing.T) {
	a, b := topic(1, 5), topic(2, 4)
	for _, tt := range []struct {
		name    string
		members []Member
		want    []string
	}{
		{"nobody", nil, nil},
		{"one", []Member{{ID: "m", Topics: []Topic{a, b}}}, []string{"1:0,1,2,3,4 2:0,1,2,3"}},
		{"two", []Member{{ID: "n", Topics: []Topic{a, b}}, {ID: "m", Topics: []Topic{b, a}}}, []string{"1:3,4 2:2,3", "1:0,1,2 2:0,1"}},
		{"more members than partitions", []Member{{ID: "1", Topics: []Topic{topic(1, 1)}}, {ID: "2", Topics: []Topic{topic(1, 1)}}}, []string{"1:0", ""}},
		{"static members first, by instance", []Member{{ID: "a", Topics: []Topic{b}}, {ID: "z", Instance: "i", Topics: []Topic{b}}}, []string{"2:2,3", "2:0,1"}},
		{"different subscriptions", []Member{{ID: "1", Topics: []Topic{a}}, {ID: "2", Topics: []Topic{a, b}}}, []string{"1:0,1,2", "1:3,4 2:0,1,2,3"}},
		{"no subscription", []Member{{ID: "1"}, {ID: "2", Topics: []Topic{b}}}, []string{"", "2:0,1,2,3"}},
	} {
		t.Run(tt.name, func(t *testing.T) { check(t, Range(tt.members), tt.want) })
	}
}

func check(t *testing.T, got []Set, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d targets, want %d", len(got), len(want))
	}
	for i := range want {
		if told(got[i]) != want[i] {
			t.Errorf("member %d gets %q, want %q", i, told(got[i]), want[i])
		}
	}
}

func TestUniform(t *testing.T) {
	a, b, c := topic(1, 3), topic(2, 3), topic(3, 6)
	both := []Topic{a, b}
	all := SetOf([]Partition{{a.ID, 0}, {a.ID, 1}, {a.ID, 2}, {b.ID, 0}, {b.ID, 1}, {b.ID, 2}})
	for _, tt := range []struct {
		name    string
		members []Member
		want    []string
	}{
		{"nobody", nil, nil},
		{"one", []Member{{ID: "m", Topics: both}}, []string{"1:0,1,2 2:0,1,2"}},
		{"a second one takes half, the first keeps the other half", []Member{{ID: "m", Topics: both, Has: all}, {ID: "n", Topics: both}}, []string{"1:0,1,2", "2:0,1,2"}},
		{"the odd one stays where it is", []Member{{ID: "m", Topics: []Topic{a}}, {ID: "n", Topics: []Topic{a}, Has: all[1:3]}}, []string{"1:0", "1:1,2"}},
		{"what nobody subscribes to any more goes", []Member{{ID: "m", Topics: []Topic{b}, Has: all}}, []string{"2:0,1,2"}},
		{"partitions that the topic no longer has go", []Member{{ID: "m", Topics: []Topic{topic(1, 1)}, Has: all}}, []string{"1:0"}},
		{"two that claim the same: the first has it", []Member{{ID: "m", Topics: []Topic{a}, Has: all[:1]}, {ID: "n", Topics: []Topic{a}, Has: all[:3]}}, []string{"1:0", "1:1,2"}},
		{"who reads one topic only gets all it can", []Member{{ID: "m", Topics: []Topic{a}}, {ID: "n", Topics: []Topic{a, c}}}, []string{"1:0,1,2", "3:0,1,2,3,4,5"}},
		{"uneven subscriptions are evened out", []Member{{ID: "m", Topics: []Topic{a, b}, Has: all}, {ID: "n", Topics: []Topic{b}}}, []string{"1:0,1,2", "2:0,1,2"}},
	} {
		t.Run(tt.name, func(t *testing.T) { check(t, Uniform(tt.members), tt.want) })
	}
}

// TestAssignorsByChance: whatever the members, each partition has one owner that
// subscribes to it; uniform is as even as it can be and leaves alone what is.
func TestAssignorsByChance(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var topics []Topic
		for n := range 1 + r.IntN(6) {
			topics = append(topics, topic(n+1, int32(1+r.IntN(9))))
		}
		members := make([]Member, 1+r.IntN(7))
		even := r.IntN(2) == 0
		for i := range members {
			members[i].ID = fmt.Sprint(r.IntN(1000), i)
			if r.IntN(4) == 0 {
				members[i].Instance = fmt.Sprint("i", i)
			}
			for _, tp := range topics {
				if even || r.IntN(2) == 0 {
					members[i].Topics = append(members[i].Topics, tp)
				}
			}
			for range r.IntN(10) {
				tp := topics[r.IntN(len(topics))]
				members[i].Has = append(members[i].Has, Partition{tp.ID, r.Int32N(12)})
			}
			members[i].Has = SetOf(members[i].Has)
		}
		for _, name := range Names() {
			got := ByName(name)(members)
			valid(t, seed, name, members, got)
			if name != "uniform" {
				continue
			}
			fair(t, seed, members, got, even)
			for i := range members {
				members[i].Has = got[i]
			}
			again := Uniform(members)
			for i := range again {
				if !again[i].Equal(got[i]) {
					t.Fatalf("seed %d: member %d had %q and gets %q though nothing has changed", seed, i, told(got[i]), told(again[i]))
				}
			}
		}
	}
}

func valid(t *testing.T, seed uint64, name string, members []Member, got []Set) {
	t.Helper()
	owner := map[Partition]int{}
	for i, s := range got {
		if !slices.IsSortedFunc(s, Compare) {
			t.Fatalf("seed %d, %s: not sorted", seed, name)
		}
		for _, p := range s {
			if _, taken := owner[p]; taken {
				t.Fatalf("seed %d, %s: %v has two owners", seed, name, p)
			}
			owner[p] = i
			if !slices.ContainsFunc(members[i].Topics, func(tp Topic) bool { return tp.ID == p.Topic && p.Number < tp.Partitions }) {
				t.Fatalf("seed %d, %s: member %d gets %v, which it does not read", seed, name, i, p)
			}
		}
	}
	for i := range members {
		for _, tp := range members[i].Topics {
			for n := range tp.Partitions {
				if _, ok := owner[Partition{tp.ID, n}]; !ok {
					t.Fatalf("seed %d, %s: %d:%d has no owner", seed, name, tp.ID[0], n)
				}
			}
		}
	}
}

// fair: nobody could give a partition to somebody with two less; where all read
// the same, shares differ by one at most.
func fair(t *testing.T, seed uint64, members []Member, got []Set, even bool) {
	t.Helper()
	for i := range members {
		for k := range members {
			if len(got[i]) < len(got[k])+2 {
				continue
			}
			if even {
				t.Fatalf("seed %d: %d and %d partitions", seed, len(got[i]), len(got[k]))
			}
			for _, p := range got[i] {
				if slices.ContainsFunc(members[k].Topics, func(tp Topic) bool { return tp.ID == p.Topic }) {
					t.Fatalf("seed %d: member %d has %d and could give %v to %d, which has %d", seed, i, len(got[i]), p, k, len(got[k]))
				}
			}
		}
	}
}

// FuzzSets checks the set operations against maps.
func FuzzSets(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{2, 3, 4})
	f.Fuzz(func(t *testing.T, x, y []byte) {
		set := func(b []byte) (Set, map[Partition]bool) {
			var ps []Partition
			m := map[Partition]bool{}
			for _, c := range b {
				p := Partition{Topic: model.TopicID{c & 3}, Number: int32(c >> 2)}
				ps, m[p] = append(ps, p), true
			}
			return SetOf(ps), m
		}
		a, ma := set(x)
		b, mb := set(y)
		in, out := a.Split(b)
		if len(in)+len(out) != len(ma) {
			t.Fatal("split loses some")
		}
		for _, p := range in {
			if !mb[p] || !a.Has(p) {
				t.Fatal("in")
			}
		}
		for _, p := range out {
			if mb[p] || !ma[p] {
				t.Fatal("out")
			}
		}
		if u := a.Union(b); !a.Within(u) || !b.Within(u) || len(u) != len(mb)+len(out) || a.Touches(b) != (len(in) > 0) {
			t.Fatal("union")
		}
	})
}

func BenchmarkUniform(b *testing.B) {
	members := make([]Member, 100)
	topics := []Topic{topic(1, 1000)}
	for i := range members {
		members[i] = Member{ID: fmt.Sprint("member-", i), Topics: topics}
	}
	for b.Loop() {
		Uniform(members)
	}
}
