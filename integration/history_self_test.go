package integration

import (
	"slices"
	"testing"
	"time"
)

// A story for the checker: each step notes something.
type tale struct {
	h     *history
	clock time.Duration
	p     tp
}

// put is a record of a producer that was told something; each takes a
// millisecond, one after another.
func (s *tale) put(producer int32, seq int64, what outcome, offset int64) *tale {
	x := &send{p: s.p, s: stamp{producer, seq}, began: s.clock, ended: s.clock + time.Millisecond, what: what, offset: offset, idempotent: producer < 10}
	s.clock += 2 * time.Millisecond
	s.h.sends = append(s.h.sends, x)
	return s
}

// holds is the last read: records from offset 0 on.
func (s *tale) holds(stamps ...stamp) *tale {
	s.h.finals[s.p] = []poll{}
	for i, x := range stamps {
		s.h.finals[s.p] = append(s.h.finals[s.p], poll{p: s.p, offset: int64(i), s: x})
	}
	return s
}

// read is a record in a consumer's hand.
func (s *tale) read(offset int64, x stamp) *tale {
	s.h.polled("c", poll{p: s.p, offset: offset, s: x})
	return s
}

// TestCheckerFindsAnomalies: one history for each, and one without.
func TestCheckerFindsAnomalies(t *testing.T) {
	a, b, c := stamp{1, 0}, stamp{1, 1}, stamp{1, 2}
	for _, tc := range []struct {
		name string
		tell func(s *tale)
		want []string
	}{
		{"nothing wrong", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, unknown, -1).put(1, 2, acked, 2).put(2, 0, unknown, -1).put(3, 0, rejected, -1)
			s.holds(a, b, c).read(0, a).read(1, b).read(2, c)
		}, nil},
		{"lost at the end", func(s *tale) { s.put(1, 0, acked, 0).put(1, 1, acked, 1).holds(a) }, []string{lost}},
		{"all lost", func(s *tale) { s.put(1, 0, acked, 0).holds() }, []string{lost}},
		{"lost in the middle", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, acked, 1).put(1, 2, acked, 2).holds(a, c)
		}, []string{inconsistent, inconsistent, lost}},
		{"two at one offset", func(s *tale) { s.put(1, 0, acked, 0).put(1, 1, acked, 0).holds(a, b) }, []string{inconsistent, inconsistent, reordered, realTime}},
		{"changed after it was read", func(s *tale) {
			s.put(1, 0, unknown, -1).put(2, 0, acked, 0).holds(stamp{2, 0}).read(0, a)
		}, []string{inconsistent}},
		{"read, then gone", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, unknown, -1).holds(a).read(0, a).read(1, b)
		}, []string{vanished}},
		{"twice", func(s *tale) { s.put(1, 0, acked, 0).put(1, 1, acked, 1).holds(a, b, b) }, []string{duplicate}},
		{"twice, not idempotent", func(s *tale) { s.put(10, 0, acked, 0).holds(stamp{10, 0}, stamp{10, 0}) }, nil},
		{"out of order in the log", func(s *tale) {
			s.put(1, 0, unknown, -1).put(1, 1, unknown, -1).holds(b, a)
		}, []string{reordered}},
		{"acknowledged out of order", func(s *tale) { s.put(1, 0, acked, 1).put(1, 1, acked, 0).holds(b, a) }, []string{reordered, reordered, realTime}},
		{"below what was acknowledged before", func(s *tale) {
			s.put(1, 0, acked, 1).put(2, 0, acked, 0).holds(stamp{2, 0}, a)
		}, []string{realTime}},
		{"sent by nobody", func(s *tale) { s.put(1, 0, acked, 0).holds(a, stamp{7, 7}) }, []string{phantom}},
		{"broken value", func(s *tale) {
			s.put(1, 0, acked, 0).holds(a)
			s.h.finals[s.p] = append(s.h.finals[s.p], poll{p: s.p, offset: 1, broken: "garbage"})
		}, []string{phantom}},
		{"refused and stored", func(s *tale) { s.put(1, 0, rejected, -1).holds(a) }, []string{rejectedRead}},
		{"refused and read", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, rejected, -1).holds(a).read(1, b)
		}, []string{rejectedRead, vanished}},
		{"a consumer goes back", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, acked, 1).holds(a, b).read(0, a).read(1, b).read(0, a)
		}, []string{backwards}},
		{"a consumer leaves out", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, acked, 1).put(1, 2, acked, 2).holds(a, b, c).read(0, a).read(2, c)
		}, []string{skipped}},
		{"a hole in the log", func(s *tale) {
			s.put(1, 0, acked, 0).put(1, 1, acked, 2)
			s.holds(a)
			s.h.finals[s.p] = append(s.h.finals[s.p], poll{p: s.p, offset: 2, s: b})
		}, []string{gap}},
		{"acknowledged nowhere", func(s *tale) { s.put(1, 0, acked, -1).holds(a) }, []string{noOffset}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &tale{h: newHistory(), p: tp{"t", 0}}
			tc.tell(s)
			bad, _ := s.h.check()
			var kinds []string
			for _, x := range bad {
				kinds = append(kinds, x.kind)
			}
			slices.Sort(kinds)
			want := slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(kinds, want) {
				t.Errorf("found %v, want %v\n%s", kinds, want, counted(bad))
			}
		})
	}
}

func TestCheckerCountsDuplicates(t *testing.T) {
	s := &tale{h: newHistory(), p: tp{"t", 0}}
	s.put(10, 0, acked, 0).holds(stamp{10, 0}, stamp{10, 0}, stamp{10, 0})
	if bad, n := s.h.check(); n != 2 || len(bad) > 0 {
		t.Errorf("%d duplicates, %v", n, bad)
	}
}

// TestCheckerSeesTwoRecordsAtOneOffset: an acknowledgement and a consumer that
// disagree are found although the last read is right.
func TestCheckerSeesTwoRecordsAtOneOffset(t *testing.T) {
	h := newHistory()
	p := tp{"t", 3}
	x := h.begin(p, stamp{1, 0}, true)
	h.end(x, acked, 0)
	y := h.begin(p, stamp{2, 0}, true)
	h.end(y, unknown, -1)
	h.polled("c", poll{p: p, offset: 0, s: stamp{2, 0}})
	h.finals[p] = []poll{{p: p, offset: 0, s: stamp{1, 0}}}
	bad, _ := h.check()
	if len(bad) != 1 || bad[0].kind != inconsistent {
		t.Errorf("found %s", counted(bad))
	}
}
