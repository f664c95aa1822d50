package sim

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
)

// acknowledged is, by the leader epoch of the coordinator, the greatest offset of one
// partition that was acknowledged to members of a group.
//
// A coordinator that has not heard of its successor answers from its own log, as
// Apache Kafka's does: what its successor has acknowledged is not in there. Of what
// it has acknowledged itself, and those before it, nothing may be missing.
type acknowledged map[int32]int64

// note takes in an offset that a coordinator of that epoch, or of one before, has
// acknowledged.
func (a acknowledged) note(epoch int32, at int64) { a[epoch] = max(a[epoch], at) }

// by returns the greatest offset that whoever coordinates in that epoch or later has
// to know, -1 for none.
func (a acknowledged) by(epoch int32) int64 {
	greatest := int64(-1)
	for e, at := range a { // order-free
		if e <= epoch {
			greatest = max(greatest, at)
		}
	}
	return greatest
}

// groupsEpoch is the newest leader epoch of the groups that anybody knows: an answer
// that has come was not given in a later one.
func (w *World) groupsEpoch() int32 {
	if p := w.groupsPart(); p != nil {
		return int32(w.registration(p).LeaderEpoch)
	}
	return math.MaxInt32 // nobody is to know anything
}

// groupsEpochOn is the leader epoch of the groups that a broker goes by now: whatever
// it answers later is not given in an earlier one. -1: it knows of none.
func (w *World) groupsEpochOn(b model.BrokerID) int32 {
	p, m := w.groupsPart(), w.machine(b)
	if p == nil || m == nil {
		return -1
	}
	if r := m.find(p); r != nil && r.state != nil {
		return int32(r.state.LeaderEpoch)
	}
	return -1
}
