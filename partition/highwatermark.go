package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// advance moves the leader's high watermark as far as replication allows and
// answers whatever waited for it. It never lowers it.
//
// The candidate is the least end over this replica, every member of the maximal
// ISR, and every replica outside it that is caught up and may join: holding back
// for the last kind lets it join. While the committed ISR is below min ISR
// nothing moves. With flush before ack this replica's own end is its durable
// end. Source: KIP-966.
func (p *Partition) advance(now model.Now, out *Output) {
	if p.mark.Role != Leader {
		return
	}
	if len(p.isr.committed) >= p.EffectiveMinISR() {
		if to := p.highWatermarkCandidate(now); to > p.mark.HighWatermark {
			p.setEnds(p.mark.LogStart, to, p.mark.LogEnd, out)
		}
	}
	p.releaseProduces(out)
}

func (p *Partition) highWatermarkCandidate(now model.Now) model.Offset {
	to := p.mark.LogEnd
	if p.cfg.FlushBeforeAck() {
		to = min(to, p.durable)
	}
	for i := range p.remote {
		r := &p.remote[i]
		counts := p.isr.inMaximal(r.id)
		if mutant.On("part-hw-ignores-pending-isr") {
			counts = p.isr.inCommitted(r.id)
		}
		if counts || (p.eligible(r) && r.caughtUp(p.mark.LogEnd, now.Mono, p.cfg.ReplicaLagMax)) {
			to = min(to, r.logEnd)
		}
	}
	return to
}

// lowWatermark is the least durable log start of this and of the live replicas.
func (p *Partition) lowWatermark() model.Offset {
	low := p.tellableStart()
	for i := range p.remote {
		if r := &p.remote[i]; p.peer(r.id).Alive {
			low = min(low, p.durableStart(r))
		}
	}
	return low
}
