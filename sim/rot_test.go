package sim

import "testing"

// In worlds of one broker a disk spoils batches of the only replica there is: what the
// broker serves of it is what was written, up to where nothing can be said.
func TestRotOfTheLastReplica(t *testing.T) {
	for _, seed := range []uint64{17, 37, 55, 126} {
		r := Run(Options{Seed: seed, Nodes: 1}, nil)
		if r.Failure != nil {
			t.Errorf("%v\n%s", r.Failure, r.Options)
		}
		if r.Remnants == 0 {
			t.Errorf("seed %d: no damaged log was read below its damage", seed)
		}
	}
}
