package partition

import (
	"github.com/tidemark/tidemark/internal/model"
)

// isCutOff says whether this leader may long have a successor: within a session
// it has heard neither a controller that had its term confirmed by a quorum, nor
// as many followers of its epoch as an acknowledged record needs. Each of them
// alone keeps it going: without the controller nobody is elected, and followers
// of its epoch are none of a successor's. With a min ISR of one nobody else is
// needed, so that it never applies.
func (p *Partition) isCutOff(now, heard model.Instant) bool {
	need := p.EffectiveMinISR() - 1
	limit := p.cfg.FenceAfter
	if limit <= 0 || need <= 0 || now-max(heard, p.ledSince) <= limit {
		return false
	}
	for i := range p.remote {
		if at := p.remote[i].heard(); at != longAgo && now-at <= limit {
			need--
		}
	}
	return need > 0
}

// noteCutOff is isCutOff, and tells when it changes.
func (p *Partition) noteCutOff(now model.Now, heard model.Instant, out *Output) bool {
	is := p.isCutOff(now.Mono, heard)
	if is == p.cutOff {
		return is
	}
	p.cutOff = is
	kind := EventRejoined
	if is {
		kind = EventCutOff
	}
	out.Events = append(out.Events, Event{Kind: kind, Mark: p.mark})
	return is
}
