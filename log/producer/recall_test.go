package producer

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// After a cut the state is that of the batches that are left, from a snapshot of
// any place below, and as much of each producer is remembered as was before and is
// in the log still.
func TestRecallAfterACut(t *testing.T) {
	recalled := 0
	for seed := range int64(30) {
		rng := rand.New(rand.NewSource(seed))
		h := &history{forgot: map[model.ProducerID]int{}}
		states := []*StateManager{New()}
		for len(h.plog) < 40 {
			s := h.propose(rng)
			if rng.Intn(8) == 0 {
				s = h.marker(rng)
			} else if v, _ := h.check(s); v != OK {
				continue
			}
			h.plog = append(h.plog, s)
			states = append(states, built(h.plog))
		}
		for cut, want := range states {
			for from := range cut + 1 {
				live, m := built(h.plog), New()
				m.Reset(states[from].MapEnd())
				k := live.Memory()
				if err := m.Unmarshal(states[from].Marshal(nil)); err != nil {
					t.Fatal(err)
				}
				for _, s := range h.plog[from:cut] {
					m.Update(s.batch())
				}
				had := remembered(m)
				m.Recall(k)
				sameAfterRestart(t, "cut", want, m)
				recalled += remembered(m) - had
				built(h.plog).Each(func(e *Entry) {
					is, _ := m.Lookup(e.ProducerID)
					for _, b := range e.Batches() {
						same := func(x BatchMeta) bool { return x.LastOffset == b.LastOffset }
						if b.LastOffset < want.MapEnd() && e.Epoch == is.Epoch && !slices.ContainsFunc(is.Batches(), same) {
							t.Fatalf("cut at %d, snapshot of %d: %v of producer %d is forgotten, known are %v", want.MapEnd(), states[from].MapEnd(), b, e.ProducerID, is.Batches())
						}
					}
				})
			}
		}
	}
	if recalled == 0 {
		t.Error("nothing was ever recalled")
	}
}

// built returns the state after some batches.
func built(list []spec) *StateManager {
	m := New()
	for _, s := range list {
		m.Update(s.batch())
	}
	return m
}

// remembered counts batches.
func remembered(m *StateManager) (n int) {
	m.Each(func(e *Entry) { n += len(e.Batches()) })
	return n
}

// A producer that has begun a new epoch since, or that nothing is left of, brings
// nothing back.
func TestRecallsNothingOfAnotherEpoch(t *testing.T) {
	m := built([]spec{data(7, 0, 0, 0, 1), data(7, 0, 1, 1, 1)})
	k := built([]spec{data(7, 0, 0, 0, 1), data(7, 1, 0, 1, 1), data(8, 0, 0, 2, 1)}).Memory()
	m.Recall(k)
	if e, _ := m.Lookup(7); len(e.Batches()) != 2 || m.Len() != 1 {
		t.Errorf("%d producers, batches %v", m.Len(), e.Batches())
	}
}
