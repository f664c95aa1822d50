package sim

import "testing"

// A failure is seen again by the command that is printed: up to its event, or
// without a bound when only the look at the end has found it.
func TestReplayReachesTheFailure(t *testing.T) {
	o := Options{Seed: 9, Nodes: 3}
	for want, f := range map[string]Failure{
		"tidemark sim --seed 9 --until 77 --nodes 3": {Event: 77},
		"tidemark sim --seed 9 --nodes 3":            {Event: 77, Final: true},
	} {
		if got := Replay(&o, f.Until()); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

// What the last look finds is marked so, and nothing else is.
func TestFailureAtTheEndIsMarked(t *testing.T) {
	w := newWorld(Options{Seed: 1, Events: 300, Nodes: 1}, nil)
	defer seedRaft(1)()
	w.phase = over
	w.h.asserted = "made up" // the last look's events find it
	w.run()
	if w.failure == nil || !w.failure.Final {
		t.Errorf("at the end: %+v", w.failure)
	}
	w = newWorld(Options{Seed: 1, Events: 300, Nodes: 1}, nil)
	w.h.asserted = "made up"
	w.run()
	if w.failure == nil || w.failure.Final {
		t.Errorf("at an event: %+v", w.failure)
	}
}
