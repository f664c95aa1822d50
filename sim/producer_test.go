package sim

import "testing"

// A sequence that is out of order at acks=1 needs no other reason than that two
// leaders took batches of it, one of them without knowing of the other.
func TestLaneIsWholeOnOneLeader(t *testing.T) {
	a, b := &node{}, &node{}
	l := &lane{}
	if !l.whole(a) {
		t.Error("nothing was acknowledged, and something is lost")
	}
	l.took(a)
	l.took(a)
	if !l.whole(a) || l.whole(b) {
		t.Errorf("one leader took all: whole for it %v, for another %v", l.whole(a), l.whole(b))
	}
	l.took(b)
	if l.whole(a) || l.whole(b) {
		t.Error("two leaders took batches, and either has all")
	}
}
