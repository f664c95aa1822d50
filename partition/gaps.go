package partition

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
)

// gapTries is how often a gap must have come before it is believed: once more
// than it takes to have the leader verify what it has, which gives nothing of it
// until then.
const gapTries = 3

// gaps is what a follower makes of batches that leave offsets out. Compaction
// does so. Elsewhere it is more likely a base offset, which no CRC covers, that is
// not what was written: to take the batch would put it at another offset than the
// leader's, and nothing would ever say so. But a topic may have been compacted
// once, so that a gap which comes again and again, over other connections and with
// the leader's copy looked at meanwhile, is believed, and so is every other of
// that leader's epoch.
type gaps struct {
	epoch    model.LeaderEpoch
	at, to   model.Offset // the gap that came last, in epoch
	times    int
	believed bool
}

// believable says what speaks against a batch that does not begin at next.
func (p *Partition) believable(b record.Batch, next model.Offset, fetchEpoch model.LeaderEpoch) error {
	g := &p.gaps
	if b.BaseOffset() == next || p.cfg.Compacted || mutant.On("part-any-gap") || g.epoch == fetchEpoch && g.believed {
		return nil
	}
	return fmt.Errorf("batch [%d, %d] leaves a gap behind %d, in what was never compacted", b.BaseOffset(), b.LastOffset(), next)
}

// note counts a gap for which an answer was refused.
func (g *gaps) note(at, to model.Offset, fetchEpoch model.LeaderEpoch) {
	if g.epoch != fetchEpoch || g.at != at || g.to != to {
		*g = gaps{epoch: fetchEpoch, at: at, to: to}
	}
	g.times++
	g.believed = g.times >= gapTries-1
}
