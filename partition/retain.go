package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// retain gives up what the topic's retention lets go. Every replica does so on
// its own, never above its high watermark: what is not committed yet isn't old.
func (p *Partition) retain(to model.Offset, out *Output) {
	if !mutant.On("part-retain-uncommitted") {
		to = min(to, p.mark.HighWatermark)
	}
	if p.mark.Role == Offline || to <= p.mark.LogStart {
		return
	}
	p.write(out, Write{Kind: WriteRetain, Offset: to})
}
