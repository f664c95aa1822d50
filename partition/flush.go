package partition

import (
	"github.com/tidemark/tidemark/internal/model"
)

// noteUnsynced starts the clock of FlushAfter at the first unsynced record, and
// asks for a flush of what a roll has closed, as Kafka does.
func (p *Partition) noteUnsynced(now model.Now, rolled bool) {
	if rolled {
		p.flushWanted = max(p.flushWanted, FlushBackground)
	}
	after := p.cfg.FlushAfter
	if p.flushAt == model.Never && after < model.Never-now.Mono {
		p.flushAt = now.Mono + after
	}
}

// flushOld wants a flush of all that is unsynced. With flush before ack the high
// watermark waits for it.
func (p *Partition) flushOld() {
	p.flushWanted = max(p.flushWanted, FlushBackground)
	if p.cfg.FlushBeforeAck() {
		p.flushWanted = FlushNow
	}
}

// askFlush asks for the wanted flush unless one is running: the next one then
// covers all that was appended meanwhile, which is the group commit.
func (p *Partition) askFlush(out *Output) {
	if p.flushWanted == FlushNone || p.flushing || p.writing != WriteNone || p.mark.Role == Offline {
		return
	}
	if p.durable >= p.mark.LogEnd {
		p.flushWanted = FlushNone
		return
	}
	out.Flush = p.flushWanted
	p.flushing, p.flushWanted, p.flushAt = true, FlushNone, model.Never
}

// flushDue asks for a flush when the oldest unsynced record has waited long
// enough.
func (p *Partition) flushDue(now model.Now) {
	if p.flushAt <= now.Mono && !p.flushing {
		p.flushWanted, p.flushAt = max(p.flushWanted, FlushBackground), model.Never
		if p.synced.Len() > 0 || p.cfg.FlushBeforeAck() {
			p.flushWanted = FlushNow
		}
	}
}

// flushRetry is how long a flush that moved nothing is not repeated: 100 ms.
const flushRetry = model.Instant(100 * 1e6)

// durableTo moves the durable end. What was appended while the flush ran starts
// the clock of FlushAfter again.
func (p *Partition) durableTo(now model.Now, to model.Offset) {
	p.flushing = false
	stuck := to <= p.durable && p.durable < p.mark.LogEnd
	p.durable = max(p.durable, min(to, p.mark.LogEnd))
	if p.durable >= p.mark.LogEnd {
		p.flushAt = model.Never
		return
	}
	if stuck {
		// A full disk, or a truncation that overtook the flush. Trying at once
		// again would only keep the disk busy.
		p.flushWanted, p.flushAt = FlushNone, now.Mono+flushRetry
		return
	}
	p.noteUnsynced(now, false)
	if p.synced.Len() > 0 || p.cfg.FlushBeforeAck() {
		p.flushWanted = FlushNow
	}
}
