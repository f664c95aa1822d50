package partition

import (
	"github.com/tidemark/tidemark/internal/model"
)

// deleteRecords raises the log start and waits until it is durable here and on
// every live replica: an acknowledged one is not undone by a crash. Source:
// KIP-107, but for the disk.
func (leader) deleteRecords(p *Partition, _ model.Now, d *DeleteRecords, out *Output) {
	if !p.cfg.DeleteAllowed {
		p.refuseDelete(d, CodePolicyViolation, out)
		return
	}
	if d.Offset == model.NoOffset {
		d.Offset = p.mark.HighWatermark
	}
	if d.Offset < 0 || d.Offset > p.mark.HighWatermark {
		p.refuseDelete(d, CodeOffsetOutOfRange, out)
		return
	}
	d.Required = d.Offset
	p.start.failed = false
	if d.Offset <= p.mark.LogStart {
		p.settleDelete(d, out)
		return
	}
	p.raising = d
	p.write(out, Write{Kind: WriteLogStart, Offset: d.Offset})
}

// logStartRaised completes the outstanding raise.
func (p *Partition) logStartRaised(w Written, out *Output) {
	d := p.raising
	p.raising = nil
	if w.Fault == FaultRefused {
		if d != nil {
			p.refuseDelete(d, CodeStorageError, out)
		}
		return
	}
	old := p.mark
	p.setEnds(w.LogStart, max(p.mark.HighWatermark, w.LogStart), p.mark.LogEnd, out)
	out.Events = append(out.Events, Event{Kind: EventLogStart, Mark: p.mark, From: old.LogStart, To: w.LogStart})
	if d != nil {
		p.settleDelete(d, out)
	}
	p.releaseDeletes(out)
}

func (p *Partition) settleDelete(d *DeleteRecords, out *Output) {
	low := p.lowWatermark()
	if low < d.Required {
		p.deletes.Add(d)
		return
	}
	d.Code, d.LowWatermark = CodeNone, low
	out.Deleted = append(out.Deleted, d)
}

func (p *Partition) releaseDeletes(out *Output) {
	if p.deletes.Len() == 0 {
		return
	}
	low := p.lowWatermark()
	for d, ok := p.deletes.PopReached(low); ok; d, ok = p.deletes.PopReached(low) {
		d.Code, d.LowWatermark = CodeNone, low
		out.Deleted = append(out.Deleted, d)
	}
}

func (p *Partition) expireDeletes(now model.Now, out *Output) {
	for d, ok := p.deletes.PopExpired(now.Mono); ok; d, ok = p.deletes.PopExpired(now.Mono) {
		p.refuseDelete(d, CodeRequestTimedOut, out)
	}
}

func (p *Partition) refuseDelete(d *DeleteRecords, c Code, out *Output) {
	d.Code, d.LowWatermark = c, model.NoOffset
	out.Deleted = append(out.Deleted, d)
}
