package partition

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
)

// admission is what of an answer may be appended next.
type admission struct {
	// set is the batches for one append.
	set []byte
	// refill: the log must first be emptied to begin at from, because it ended
	// inside the leader's first batch, and has nothing that the leader still has.
	refill bool
	from   model.Offset
	// more: the next batch is sound and has to wait for the next append.
	more bool
	// newer: the next batch, and all behind it, are of an epoch that was not
	// fetched in.
	newer bool
	// why is what is wrong with the next batch; if it is a gap in front of it, gapTo
	// is where it goes on, else NoOffset.
	why   error
	gapTo model.Offset
}

// admissible looks at the batches of rest, which follow the log's end. Base
// offsets may leave gaps, where compaction removed something (see gaps), but never
// go back; epochs neither fall nor pass the one that the fetch was made in: what a later
// epoch holds may stand on other records than ours. Source: KAFKA-18723.
func (p *Partition) admissible(rest []byte, fetchEpoch model.LeaderEpoch, leaderStart model.Offset) admission {
	a := admission{gapTo: model.NoOffset}
	next, last := p.mark.LogEnd, p.plog.Epochs().LatestEpoch()
	first := model.NoOffset
	it := record.NewIter(rest)
	end := 0
	for it.Next() {
		b := it.Batch()
		if end == 0 && b.BaseOffset() < next && p.beginsInside(b, leaderStart) {
			a.refill, a.from = true, b.BaseOffset()
			next, last = b.BaseOffset(), model.NoEpoch
		}
		if b.LeaderEpoch() > fetchEpoch && !mutant.On("part-accepts-newer-epoch") {
			a.newer = true
			break
		}
		if a.why = follows(b, next, last); a.why != nil {
			break
		}
		if a.why = p.believable(b, next, fetchEpoch); a.why != nil {
			a.gapTo = b.BaseOffset()
			break
		}
		if end == 0 {
			first = b.BaseOffset()
		} else if end+len(b) > int(p.cfg.SegmentBytes) || int64(b.LastOffset()-first) > math.MaxInt32 {
			a.more = true
			break
		}
		end += len(b)
		next, last = b.NextOffset(), b.LeaderEpoch()
	}
	a.set = rest[:end:end]
	a.refill = a.refill && end > 0
	return a
}

// follows says what keeps b from standing at next, behind a batch of epoch last.
func follows(b record.Batch, next model.Offset, last model.LeaderEpoch) error {
	switch {
	case b.BaseOffset() < next:
		return fmt.Errorf("batch [%d, %d] where %d is expected", b.BaseOffset(), b.LastOffset(), next)
	case b.LeaderEpoch() < 0, b.LeaderEpoch() < last:
		return fmt.Errorf("batch [%d, %d] of epoch %d after epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), last)
	}
	return nil
}

// beginsInside says whether the log ends inside b, which is sent whole because
// the leader's log start lies inside it: the log is empty and starts there, or the
// leader has deleted all that it holds.
func (p *Partition) beginsInside(b record.Batch, leaderStart model.Offset) bool {
	return (p.mark.LogEnd == p.mark.LogStart || p.mark.LogEnd <= leaderStart) && b.BaseOffset() < p.mark.LogEnd && p.mark.LogEnd <= b.LastOffset()
}
