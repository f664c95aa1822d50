package partition

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// Role is what this replica does for the partition.
type Role uint8

// The roles.
const (
	Offline Role = iota
	Follower
	Leader
)

// String returns the name of the role.
func (r Role) String() string {
	switch r {
	case Leader:
		return "leader"
	case Follower:
		return "follower"
	}
	return "offline"
}

// Mark is a partition's state at one moment: what a reader needs to know.
// LogStart ≤ LastStable ≤ HighWatermark ≤ LogEnd; all are exclusive ends.
type Mark struct {
	Role        Role
	LeaderEpoch model.LeaderEpoch
	// LogStart is the lowest offset that can be read.
	LogStart model.Offset
	// LastStable bounds read_committed consumers: no open transaction below it.
	LastStable model.Offset
	// HighWatermark bounds consumers: everything below is replicated. It never
	// falls while one incarnation leads one epoch.
	HighWatermark model.Offset
	// LogEnd is the offset the next record will get; it bounds followers.
	LogEnd model.Offset
}

// Bound returns the end that a reader of kind b may read to.
func (m *Mark) Bound(b Bound) model.Offset {
	switch b {
	case BoundLastStable:
		return m.LastStable
	case BoundHighWatermark:
		return m.HighWatermark
	}
	return m.LogEnd
}

// Mark returns the present state.
func (p *Partition) Mark() Mark { return p.mark }

// setEnds is the only writer of the four numbers. The last stable offset follows
// from the others and from the open transactions.
func (p *Partition) setEnds(logStart, highWatermark, logEnd model.Offset, out *Output) {
	assert.That(logStart <= highWatermark && highWatermark <= logEnd,
		"log start %d, high watermark %d, log end %d are out of order", logStart, highWatermark, logEnd)
	stable := highWatermark
	p.plog.Producers().AdvanceHighWatermark(highWatermark)
	if first, ok := p.plog.Producers().FirstUnstable(); ok {
		stable = max(logStart, min(stable, first))
	}
	old := p.mark
	p.startFalls(logStart)
	p.mark.LogStart, p.mark.LastStable, p.mark.HighWatermark, p.mark.LogEnd = logStart, stable, highWatermark, logEnd
	if p.mark == old {
		return
	}
	if !mutant.On("part-lease-outlives-append") {
		p.endLeases()
	}
	if old.LogStart != logStart || logEnd < old.LogEnd {
		p.wakeAll(out)
		return
	}
	for b := range bounds {
		if old.Bound(b) != p.mark.Bound(b) {
			p.wake(b, out)
		}
	}
}

// clampEnds bounds numbers that came from a disk, where anything may stand.
func clampEnds(logStart, highWatermark, logEnd model.Offset) (model.Offset, model.Offset, model.Offset) {
	logStart = max(0, min(logStart, logEnd))
	return logStart, max(logStart, min(highWatermark, logEnd)), logEnd
}

func (p *Partition) wake(b Bound, out *Output) {
	for {
		w, ok := p.waiters[b].Pop()
		if !ok {
			return
		}
		out.Woken = append(out.Woken, w)
	}
}

func (p *Partition) wakeAll(out *Output) {
	for b := range bounds {
		p.wake(b, out)
	}
}
