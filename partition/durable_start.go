package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// startState is what is known of the disk's notion of the log start. The log
// raises its start in memory; a checkpoint of the whole directory makes it
// durable. Who acts upon it waits for that: a DeleteRecords for its answer, and a
// follower before the fetch that tells its log start.
type startState struct {
	// durable is where the log begins for whoever starts after a crash, at least.
	// Invariant: durable ≤ mark.LogStart.
	durable model.Offset
	// asked: a write of the checkpoint is outstanding, which is to hold wanted.
	asked  bool
	wanted model.Offset
	// stale: the log start has fallen since then, so that its outcome says nothing.
	stale bool
	// failed: the last write failed. It is not repeated before something new wants
	// it: a DeleteRecords, or a leader's answer.
	failed bool
}

// startFalls is told each log start before it is taken. A cut below the log start
// lowers it, and the next checkpoint as well.
func (p *Partition) startFalls(to model.Offset) {
	if to < p.mark.LogStart {
		p.start.durable = min(p.start.durable, to)
		p.start.stale = p.start.asked
	}
}

// tellableStart is the log start that others may act upon.
func (p *Partition) tellableStart() model.Offset {
	if mutant.On("part-delete-before-disk") {
		return p.mark.LogStart
	}
	return p.start.durable
}

// awaitsStart says whether a fetch sent now would tell a log start that the disk
// doesn't have. After a failure it tells the one that the disk has.
func (p *Partition) awaitsStart() bool {
	return p.tellableStart() < p.mark.LogStart && !p.start.failed
}

// askStart asks for the checkpoint if somebody waits for it and none is asked for.
func (p *Partition) askStart(out *Output) {
	s := &p.start
	if s.asked || s.failed || p.writing != WriteNone || s.durable >= p.mark.LogStart {
		return
	}
	waits := p.mark.Role == Leader && p.deletes.Len() > 0 ||
		p.mark.Role == Follower && (p.settling != nil || p.follows == followPending)
	if waits {
		s.asked, s.wanted, out.KeepStart = true, p.mark.LogStart, true
	}
}

// startKept takes the outcome.
func (p *Partition) startKept(k StartKept, out *Output) {
	s := &p.start
	if !s.asked || p.mark.Role == Offline {
		return
	}
	stale := s.stale
	s.asked, s.stale = false, false
	switch {
	case stale:
	case k.Fault == FaultNone && k.LogStart >= s.wanted:
		s.durable = max(s.durable, min(k.LogStart, p.mark.LogStart))
		p.releaseDeletes(out)
	default:
		s.failed = true
		p.refuseUnkept(out)
		if f := p.settling; f != nil && f.Progress.Outcome == OutcomeApplied {
			f.Progress.Outcome = OutcomeRefused // so that whoever fetches takes its time
		}
	}
}

// refuseUnkept answers the deletes whose log start can't be made durable now.
func (p *Partition) refuseUnkept(out *Output) {
	var others []*DeleteRecords
	for d, ok := p.deletes.Pop(); ok; d, ok = p.deletes.Pop() {
		if d.Required <= p.start.durable {
			others = append(others, d)
			continue
		}
		p.refuseDelete(d, CodeStorageError, out)
	}
	for _, d := range others {
		p.deletes.Add(d)
	}
}
