package integration

import (
	"slices"
	"testing"
	"time"
)

// groupTale is a story of one group and one partition for the checker; every
// event takes a millisecond, one after another.
type groupTale struct {
	h     *groupHistory
	clock time.Duration
	final int64
}

func (g *groupTale) tick() time.Duration {
	g.clock += time.Millisecond
	return g.clock
}

// has is a member that is given the partition and delivered offsets.
func (g *groupTale) has(member string, found int64, offsets ...int64) *spell {
	s := &spell{group: "g", member: member, p: tp{"t", 0}, began: g.tick(), fetched: found}
	g.h.spells = append(g.h.spells, s)
	return g.more(s, offsets...)
}

func (g *groupTale) more(s *spell, offsets ...int64) *spell {
	for _, o := range offsets {
		s.got = append(s.got, poll{p: s.p, offset: o, s: stamp{1, o}})
	}
	return s
}

// commits is an acknowledged commit.
func (g *groupTale) commits(s *spell, offset int64) {
	g.h.promises = append(g.h.promises, &promise{of: s, offset: offset, began: g.tick(), ended: g.tick(), acked: true})
	g.final = offset
}

// tries is a commit of which nothing is known.
func (g *groupTale) tries(s *spell, offset int64) {
	g.h.promises = append(g.h.promises, &promise{of: s, offset: offset, began: g.tick(), ended: 1 << 62})
}

// TestGroupCheckerFindsAnomalies: one story for each, and some that are in order.
func TestGroupCheckerFindsAnomalies(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tell  func(g *groupTale)
		want  []string
		twice int
	}{
		{"nothing wrong", func(g *groupTale) {
			a := g.has("a", none, 0, 1)
			g.commits(a, 2)
			b := g.has("b", 2, 2, 3)
			g.commits(b, 4)
		}, nil, 0},
		{"a crash before the commit", func(g *groupTale) {
			a := g.has("a", none, 0, 1)
			g.commits(a, 2)
			g.more(a, 2, 3)
			b := g.has("b", 2, 2, 3)
			g.commits(b, 4)
		}, nil, 2},
		{"a commit of unknown end that holds", func(g *groupTale) {
			g.tries(g.has("a", none, 0, 1), 2)
			g.commits(g.has("b", 2, 2), 3)
		}, nil, 0},
		{"a commit of unknown end that does not", func(g *groupTale) {
			g.tries(g.has("a", none, 0, 1), 2)
			g.commits(g.has("b", none, 0, 1, 2), 3)
		}, nil, 2},
		{"a member that never got so far", func(g *groupTale) {
			g.has("a", unasked)
			g.commits(g.has("b", none, 0), 1)
		}, nil, 0},
		{"commit lost", func(g *groupTale) {
			g.commits(g.has("a", none, 0, 1), 2)
			g.commits(g.has("b", none, 0, 1, 2), 3)
		}, []string{commitLost}, 2},
		{"an older commit comes back", func(g *groupTale) {
			a := g.has("a", none, 0)
			g.commits(a, 1)
			g.commits(g.more(a, 1), 2)
			g.commits(g.has("b", 1, 1, 2), 3)
		}, []string{commitLost}, 1},
		{"invented", func(g *groupTale) {
			g.commits(g.has("a", none, 0, 1), 2)
			g.commits(g.has("b", 3, 3), 4)
		}, []string{commitInvented, undelivered}, 0},
		{"starts elsewhere", func(g *groupTale) {
			g.commits(g.has("a", none, 0, 1), 2)
			g.commits(g.has("b", 2, 1, 2), 3)
		}, []string{startedWrong}, 1},
		{"starts without an offset", func(g *groupTale) { g.commits(g.has("a", unasked, 0), 1) }, []string{startedWrong}, 0},
		{"left out", func(g *groupTale) { g.commits(g.has("a", none, 0, 2), 3) }, []string{groupSkipped, undelivered}, 0},
		{"again", func(g *groupTale) { g.commits(g.has("a", none, 0, 1, 1), 2) }, []string{groupReordered}, 1},
		{"regressed", func(g *groupTale) {
			a := g.has("a", none, 0, 1)
			g.commits(a, 2)
			g.commits(a, 1)
			g.final = 2
		}, []string{commitRegressed}, 0},
		{"two owners", func(g *groupTale) {
			a := g.has("a", none, 0)
			g.commits(a, 1)
			g.more(a, 1, 2)
			b := g.has("b", 1, 1)
			g.commits(b, 2)
			g.commits(a, 3)
		}, []string{twoOwners}, 1},
		{"lost at the end", func(g *groupTale) {
			g.commits(g.has("a", none, 0, 1), 2)
			g.final = none
		}, []string{wrongEnd}, 0},
		{"invented at the end", func(g *groupTale) {
			g.commits(g.has("a", none, 0, 1, 2), 2)
			g.final = 3
		}, []string{wrongEnd}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &groupTale{h: newGroupHistory()}
			tc.tell(g)
			bad, twice, _ := g.h.check(map[groupPartition]int64{{"g", tp{"t", 0}}: g.final})
			var kinds []string
			for _, x := range bad {
				kinds = append(kinds, x.kind)
			}
			slices.Sort(kinds)
			if want := slices.Sorted(slices.Values(tc.want)); !slices.Equal(kinds, want) || twice != tc.twice {
				t.Errorf("found %v and %d duplicates, want %v and %d\n%s", kinds, twice, want, tc.twice, counted(bad))
			}
		})
	}
}
