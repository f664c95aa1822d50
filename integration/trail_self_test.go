package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// trailTale tells a trail what happened to a partition.
type trailTale struct {
	t    *trail
	sent map[stamp]*kgo.Record
}

// send sends a record; offset is where it was acknowledged, -1 is not yet.
func (s *trailTale) send(producer int32, seq int64, key string, size int, offset int64) *trailTale {
	d := &dispatch{s: stamp{producer, seq}, key: key, gone: size < 0, idempotent: producer < 10, at: time.Unix(1000+seq, 0)}
	s.t.sending(d)
	s.sent[d.s] = motley(s.t.p, d.s, key, size)
	if offset >= 0 {
		s.t.told(d, offset)
	}
	return s
}

// at is a stored record.
type at struct {
	offset int64
	s      stamp
}

// look is a check: the bounds that are told, and what is read in between.
func (s *trailTale) look(start, end int64, quiet bool, stored ...at) {
	was := s.t.pledged()
	s.t.bounds(was, start, end, time.Unix(1100, 0))
	x := s.t.newPass(start)
	for _, a := range stored {
		r := *s.sent[a.s]
		r.Offset = a.offset
		x.take(&r)
	}
	s.t.settle(x, was, start, quiet)
	s.t.tail = x
}

// TestTrailFindsAnomalies: a partition's story for each anomaly, and of each policy
// one without.
func TestTrailFindsAnomalies(t *testing.T) {
	a, b, c, p := stamp{1, 0}, stamp{1, 1}, stamp{1, 2}, stamp{10, 0}
	for _, tt := range []struct {
		name   string
		policy policy
		tell   func(s *trailTale)
		want   []string
	}{
		{"nothing wrong", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, -1).send(1, 2, "", 50, 1)
			s.look(0, 2, false, at{0, a}, at{1, c})
		}, nil},
		{"a plain record twice", keeps, func(s *trailTale) {
			s.send(10, 0, "", 50, 1).look(0, 2, false, at{0, p}, at{1, p})
		}, nil},
		{"the end is lost", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, 1).look(0, 1, false, at{0, a})
		}, []string{lost}},
		{"what was read vanished", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, -1)
			s.look(0, 2, false, at{0, a}, at{1, b})
			s.look(0, 1, false, at{0, a})
		}, []string{vanished}},
		{"the start is gone", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, 1).look(1, 2, false, at{1, b})
		}, []string{lost}},
		{"another record", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(2, 0, "", 50, -1).look(0, 1, false, at{0, stamp{2, 0}})
		}, []string{inconsistent}},
		{"changed later", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, -1).send(2, 0, "", 50, -1)
			s.look(0, 1, false, at{0, a})
			s.look(0, 1, false, at{0, stamp{2, 0}})
		}, []string{inconsistent}},
		{"an idempotent record twice", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).look(0, 2, false, at{0, a}, at{1, a})
		}, []string{duplicate}},
		{"out of order", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, -1).send(1, 1, "", 50, -1).look(0, 2, false, at{0, b}, at{1, a})
		}, []string{reordered}},
		{"a gap", keeps, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 2, "", 50, 2).look(0, 3, false, at{0, a}, at{2, c})
		}, []string{gap}},
		{"other bytes", keeps, func(s *trailTale) {
			s.send(1, 0, "", 64, 0)
			s.sent[a].Value[40]++
			s.look(0, 1, false, at{0, a})
		}, []string{phantom}},
		{"nobody's", keeps, func(s *trailTale) {
			s.sent[b] = motley(s.t.p, b, "", 50)
			s.look(0, 1, false, at{0, b})
		}, []string{phantom}},
		{"no offset", keeps, func(s *trailTale) { s.t.told(&dispatch{}, -1) }, []string{noOffset}},
		{"old ones expired", expires, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 95, "", 50, 1).look(1, 2, false, at{1, stamp{1, 95}})
		}, nil},
		{"a young one expired", expires, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 95, "", 50, 1).look(2, 2, false)
		}, []string{lost}},
		{"expired ones came back", expires, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 95, "", 50, 1)
			s.look(1, 2, false, at{1, stamp{1, 95}})
			s.look(0, 2, false, at{0, a}, at{1, stamp{1, 95}})
		}, []string{backwards}},
		{"deleted", trims, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, 1)
			s.t.wanted, s.t.trimmed = 1, 1
			s.look(1, 2, false, at{1, b})
		}, nil},
		{"deleted and back", trims, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, 1)
			s.t.wanted, s.t.trimmed = 1, 1
			s.look(0, 2, false, at{0, a}, at{1, b})
		}, []string{vanished}},
		{"more than was asked for", trims, func(s *trailTale) {
			s.send(1, 0, "", 50, 0).send(1, 1, "", 50, 1)
			s.t.wanted = 1
			s.look(2, 2, false)
		}, []string{lost}},
		{"compacted", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "k", 50, 1).send(1, 2, "l", 50, 2).look(0, 3, true, at{1, b}, at{2, c})
		}, nil},
		{"a key is gone", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "l", 50, 1).look(0, 2, true, at{1, b})
		}, []string{lost}},
		{"a key went back", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "k", 50, 1).send(1, 2, "l", 50, 2).look(0, 3, true, at{0, a}, at{2, c})
		}, []string{lost}},
		{"deleted by a tombstone", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "k", -1, 1).send(1, 2, "l", 50, 2).look(0, 3, true, at{2, c})
		}, nil},
		{"a tombstone is gone and the value is not", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "k", -1, 1).send(1, 2, "l", 50, 2).look(0, 3, true, at{0, a}, at{2, c})
		}, []string{lost}},
		{"a newer value behind a tombstone is gone", compacts, func(s *trailTale) {
			s.send(1, 0, "k", -1, 0).send(1, 1, "k", 50, 1).send(1, 2, "l", 50, 2).look(0, 3, true, at{2, c})
		}, []string{lost}},
		{"replaced meanwhile", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0).send(1, 1, "l", 50, 1).send(1, 2, "k", 50, -1).look(0, 2, false, at{1, b})
		}, nil},
		{"another key", compacts, func(s *trailTale) {
			s.send(1, 0, "k", 50, 0)
			s.sent[a].Key = []byte("j")
			s.look(0, 1, false, at{0, a})
		}, []string{phantom}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &trailTale{t: newTrail(tp{"t", 0}, tt.policy, 10*time.Second), sent: map[stamp]*kgo.Record{}}
			tt.tell(s)
			var kinds []string
			for _, a := range s.t.found.all {
				if !slices.Contains(kinds, a.kind) {
					kinds = append(kinds, a.kind)
				}
			}
			for _, k := range tt.want {
				if !slices.Contains(kinds, k) {
					t.Errorf("found %v, want %v among them", s.t.found.all, k)
				}
			}
			if len(tt.want) == 0 && len(kinds) > 0 {
				t.Errorf("found %v", s.t.found.all)
			}
		})
	}
}
