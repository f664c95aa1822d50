package sim

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
)

// What a replica has held counts until a leader has it cut, or it is taken into
// the ISR anew: a leader that was busy with its disk may hear only later that it
// did.
func TestHolders(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	for _, topic := range []string{"d0", "f0"} {
		p := w.h.part(model.TopicIDPartition{TopicID: model.TopicID{topic[0]}}, model.TopicPartition{Topic: topic})
		r := w.machines[1].replica(p)
		state := &host.State{Durable: 4}
		state.LogEnd = 4
		r.had.note(state)
		want := func(when string, end int64, n int) {
			if got := w.holders(p, end); got != n {
				t.Errorf("%s: %s: %d hold what is below %d, want %d", topic, when, got, end, n)
			}
		}
		want("all durable", 4, 1)
		state.LogEnd = 6
		r.had.note(state)
		want("the end is not durable", 6, map[string]int{"d0": 1, "f0": 0}[topic])
		r.cut(0)
		want("its directory is gone", 4, 1)
		r.had.truncated(3)
		want("a leader had it cut", 4, 0)
		want("a leader had it cut", 3, 1)
		r.settle()
		want("it is in the ISR anew", 1, 0)
	}
}

// A partition that waits for its disk may be told several settings meanwhile, and
// goes by each in turn in one event.
func TestUnheardSettings(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	r := w.machines[0].replica(w.h.part(model.TopicIDPartition{}, model.TopicPartition{Topic: "d0"}))
	r.told(3)
	if r.unheard != nil {
		t.Error("nobody is there to be told")
	}
	r.state = &host.State{Standing: &host.Standing{MinISR: 3}}
	for _, n := range []int{3, 1, 2, 1, 3} {
		r.told(n)
	}
	if len(r.unheard) != 2 || r.unheard[0] != 1 || r.unheard[1] != 2 {
		t.Errorf("told 3, 1, 2, 1, 3, goes by 3, has yet to hear of %v", r.unheard)
	}
}
