package epoch

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

func TestCompare(t *testing.T) {
	const cache = "0→0 2→4 5→8" // log start 0, log end 12
	for _, tc := range []struct {
		name     string
		cache    string
		at       model.Offset
		last     model.LeaderEpoch
		logStart model.Offset
		want     Agreement
		epoch    model.LeaderEpoch
		end      model.Offset
	}{
		{"no epoch", cache, 99, -1, 0, Agrees, -1, -1},
		{"latest epoch, at the end", cache, 12, 5, 0, Agrees, -1, -1},
		{"latest epoch, beyond our end", cache, 13, 5, 0, Diverged, 5, 12},
		{"older epoch, at its end", cache, 8, 2, 0, Agrees, -1, -1},
		{"older epoch, beyond its end", cache, 9, 2, 0, Diverged, 2, 8},
		{"epoch we skipped", cache, 6, 3, 0, Diverged, 2, 8},
		{"epoch newer than ours", cache, 6, 6, 0, OutOfRange, -1, -1},
		{"below the log start", cache, 3, 0, 4, OutOfRange, -1, -1},
		{"empty cache", "", 3, 0, 0, OutOfRange, -1, -1},
		{"older than all we know, in range", "2→4", 4, 1, 4, Agrees, -1, -1},
		{"older than all we know, beyond", "2→4", 5, 1, 4, Diverged, 1, 4},
	} {
		got, d := parse(t, tc.cache).Compare(tc.at, tc.last, tc.logStart, 12)
		if got != tc.want || d.Epoch != tc.epoch || d.Offset != tc.end {
			t.Errorf("%s: %v %v, want %v (%d,%d)", tc.name, got, d, tc.want, tc.epoch, tc.end)
		}
	}
}

func TestCutFor(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cache  string
		epoch  model.LeaderEpoch
		end    model.Offset
		fetch  model.Offset
		leo    model.Offset
		to     model.Offset
		final  bool
		latest model.LeaderEpoch
	}{
		{"leader knows nothing", "0→0", -1, -1, 3, 7, 3, true, 0},
		{"leader knows nothing, fetch above the end", "0→0", -1, -1, 9, 7, 7, true, 0},
		{"leader without epochs", "0→0", -1, 5, 7, 7, 5, true, 0},
		{"leader without epochs, longer", "0→0", -1, 50, 7, 7, 7, true, 0},
		{"we know no epoch", "", 2, 5, 7, 7, 5, true, -1},
		{"same epoch, leader shorter", "0→0", 0, 5, 7, 7, 5, true, 0},
		{"same epoch, leader longer", "0→0", 0, 9, 7, 7, 7, true, 0},
		{"our epoch is older", "0→0 1→5 3→7", 2, 8, 10, 10, 7, false, 1},
	} {
		c := parse(t, tc.cache)
		got := c.CutFor(model.OffsetAndEpoch{Offset: tc.end, Epoch: tc.epoch}, tc.fetch, tc.leo)
		if got.To != tc.to || got.Final != tc.final {
			t.Errorf("%s: %+v, want to %d final %v", tc.name, got, tc.to, tc.final)
		}
		c.TruncateFromEnd(got.To)
		if c.LatestEpoch() != tc.latest {
			t.Errorf("%s: latest epoch %d after the cut, want %d", tc.name, c.LatestEpoch(), tc.latest)
		}
	}
}

// rec is one record of a log in these tests: who wrote it and when.
type rec struct {
	epoch model.LeaderEpoch
	id    int
}

// replica is a log and the cache that a broker keeps beside it.
type replica struct {
	plog  []rec
	cache *Cache
}

func (r *replica) leo() model.Offset { return model.Offset(len(r.plog)) }

func (r *replica) write(e model.LeaderEpoch, ids ...int) {
	for _, id := range ids {
		r.cache.Assign(e, r.leo())
		r.plog = append(r.plog, rec{e, id})
	}
}

func (r *replica) lead(e model.LeaderEpoch) { r.cache.Assign(e, r.leo()) }

func (r *replica) cut(to model.Offset) {
	r.plog = r.plog[:to]
	r.cache.TruncateFromEnd(to)
}

func newReplica() *replica { return &replica{cache: &Cache{}} }

// follow runs the two halves against each other until the follower has all of
// the leader's log, and returns the answers that told of a divergence.
func follow(t *testing.T, leader, follower *replica) (diverged []string, rounds int) {
	t.Helper()
	for ; ; rounds++ {
		if rounds > 100 {
			t.Fatalf("no end: leader {%s} %v, follower {%s} %v",
				show(leader.cache), leader.plog, show(follower.cache), follower.plog)
		}
		at, last := follower.leo(), follower.cache.LatestEpoch()
		verdict, d := leader.cache.Compare(at, last, 0, leader.leo())
		switch verdict {
		case Diverged:
			diverged = append(diverged, fmt.Sprintf("Fetch(%d,%d) diverges (%d,%d)", at, last, d.Epoch, d.Offset))
			c := follower.cache.CutFor(d, at, at)
			before := follower.cache.Entries()
			follower.cut(c.To)
			diverged = append(diverged, fmt.Sprintf("cut to %d {%s}", c.To, show(follower.cache)))
			if c.To == at && slices.Equal(before, follower.cache.Entries()) {
				t.Fatalf("a round changed nothing: %v", diverged)
			}
		case OutOfRange:
			t.Fatalf("out of range: leader {%s} end %d, follower {%s} end %d",
				show(leader.cache), leader.leo(), show(follower.cache), at)
		case Agrees:
			if at > leader.leo() {
				t.Fatalf("follower ends at %d, leader at %d, and they agree", at, leader.leo())
			}
			for _, r := range leader.plog[at:] {
				follower.write(r.epoch, r.id)
			}
			return diverged, rounds
		}
	}
}

// seq appends n records with ids from first on.
func seq(first, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = first + i
	}
	return ids
}

func TestStories(t *testing.T) {
	for _, tc := range []struct {
		name  string
		build func() (leader, follower *replica)
		want  []string
	}{
		{"KIP-101 power loss", func() (*replica, *replica) {
			a, b := newReplica(), newReplica()
			a.write(0, 1, 2)
			b.write(0, 1)
			b.lead(1)
			b.write(1, 3)
			return b, a
		}, []string{"Fetch(2,0) diverges (0,1)", "cut to 1 {0→0}"}},
		{"KIP-101 no loss by a stale high watermark", func() (*replica, *replica) {
			a, b := newReplica(), newReplica()
			a.write(0, 1, 2)
			b.write(0, 1, 2)
			a.lead(1)
			return a, b
		}, nil},
		{"KIP-279 fast failover", func() (*replica, *replica) {
			a, b := newReplica(), newReplica()
			a.write(1, seq(0, 10)...)
			b.write(1, seq(0, 10)...)
			a.write(1, 100, 101)
			b.lead(2)
			b.write(2, 200, 201, 202, 203)
			a.lead(3)
			a.write(3, 300, 301, 302, 303)
			return a, b
		}, []string{"Fetch(14,2) diverges (1,12)", "cut to 10 {1→0}"}},
		{"two rounds", func() (*replica, *replica) {
			l, f := newReplica(), newReplica()
			l.write(0, seq(0, 4)...)
			l.write(2, seq(20, 4)...)
			l.write(5, seq(50, 4)...)
			f.write(0, seq(0, 4)...)
			f.write(0, 99)
			f.write(1, seq(10, 2)...)
			f.write(3, seq(30, 3)...)
			return l, f
		}, []string{"Fetch(10,3) diverges (2,8)", "cut to 7 {0→0 1→5}", "Fetch(7,1) diverges (0,4)", "cut to 4 {0→0}"}},
		{"empty epoch", func() (*replica, *replica) {
			a, b := newReplica(), newReplica()
			a.write(0, seq(0, 5)...)
			b.write(0, seq(0, 5)...)
			a.lead(1)
			b.lead(2)
			b.write(2, 20, 21)
			return b, a
		}, []string{"Fetch(5,1) diverges (0,5)", "cut to 5 {0→0}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leader, follower := tc.build()
			got, _ := follow(t, leader, follower)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if !slices.Equal(leader.plog, follower.plog) {
				t.Errorf("logs differ: %v and %v", leader.plog, follower.plog)
			}
			_, again := follow(t, leader, follower)
			if again != 0 {
				t.Errorf("still diverging after catching up, %d rounds", again)
			}
		})
	}
}

// TestRandomHistories lets three replicas take turns as leader, with partial
// replication, and checks that a follower always ends with the leader's log,
// never loses a record that both held at the same place with nothing different
// below, and needs no more rounds than it had epochs.
func TestRandomHistories(t *testing.T) {
	for seed := range int64(3000) {
		rng := rand.New(rand.NewSource(seed))
		rs := []*replica{newReplica(), newReplica(), newReplica()}
		id := 0
		for e := model.LeaderEpoch(0); e < 8; e++ {
			l := rs[rng.Intn(3)]
			l.lead(e)
			for range rng.Intn(5) {
				id++
				l.write(e, id)
			}
			for _, f := range rs {
				if f == l || rng.Intn(3) == 0 {
					continue
				}
				common := 0
				for common < min(len(f.plog), len(l.plog)) && f.plog[common] == l.plog[common] {
					common++
				}
				had, epochs := slices.Clone(f.plog[:common]), f.cache.Len()
				_, rounds := follow(t, l, f)
				if !slices.Equal(f.plog, l.plog) || !slices.Equal(f.plog[:common], had) {
					t.Fatalf("seed %d epoch %d: logs %v and %v", seed, e, l.plog, f.plog)
				}
				if rounds > epochs {
					t.Fatalf("seed %d epoch %d: %d rounds for %d epochs", seed, e, rounds, epochs)
				}
			}
			for i, r := range rs {
				checkBatches(t, fmt.Sprintf("seed %d epoch %d replica %d", seed, e, i), r)
			}
		}
	}
}

// checkBatches is invariant 2: the cache says of each record what the record
// says itself.
func checkBatches(t *testing.T, what string, r *replica) {
	t.Helper()
	checkRising(t, r.cache)
	for i, rec := range r.plog {
		if e, ok := r.cache.EpochFor(model.Offset(i)); !ok || e != rec.epoch {
			t.Fatalf("%s: cache {%s} gives %d at %d, the record says %d", what, show(r.cache), e, i, rec.epoch)
		}
	}
}
