package partition

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// acksAll is the value of acks that waits for the in-sync set.
const acksAll = -1

// produce makes the checks in Kafka's order and asks for the append. The
// validation of the bytes was done before, outside the loop; what it found is
// reported only here, after the checks that come first.
func (leader) produce(p *Partition, now model.Now, m *Produce, out *Output) {
	if p.noteCutOff(now, m.ControllerHeard, out) {
		p.fail(m, CodeNotLeaderOrFollower, "", out)
		return
	}
	if m.Acks == acksAll && len(p.isr.committed) < p.EffectiveMinISR() {
		p.fail(m, CodeNotEnoughReplicas, "", out)
		return
	}
	if r := m.Rejection; r != nil {
		m.Result.Records = r.Records
		p.fail(m, r.Code, r.Message, out)
		return
	}
	b := m.Prepared.Batch
	switch {
	case len(b) > int(p.cfg.SegmentBytes):
		p.fail(m, CodeRecordListTooLarge, "", out)
		return
	case b.IsTransactional():
		p.fail(m, CodeInvalidTxnState, "transactions are not supported", out)
		return
	}
	switch c := p.plog.Producers().Check(b); c.Kind {
	case producer.OK:
		p.append(now, m, out)
	case producer.Duplicate:
		p.duplicate(m, c, out)
	case producer.OutOfOrder:
		p.fail(m, CodeOutOfOrderSequence, "", out)
	case producer.FencedEpoch:
		p.fail(m, CodeInvalidProducerEpoch, "", out)
	case producer.InvalidTxnState:
		p.fail(m, CodeInvalidTxnState, "", out)
	default:
		assert.Unreachable("producer verdict %d", c.Kind)
	}
}

func (p *Partition) append(now model.Now, m *Produce, out *Output) {
	base := p.mark.LogEnd
	m.Result = ProduceResult{BaseOffset: base, AppendTime: model.NoTimestamp}
	if p.cfg.LogAppendTime {
		p.appendTime = max(p.appendTime, now.Wall)
		m.Prepared.StampAppendTime(p.appendTime)
		m.Result.AppendTime = p.appendTime
	}
	b := m.Prepared.Batch
	record.Stamp(b, base, p.mark.LeaderEpoch)
	m.Required = b.NextOffset()
	p.inFlight = m
	p.write(out, Write{Kind: WriteAppend, Set: b})
	if mutant.On("part-ack-before-append") && m.Acks == 1 {
		p.inFlight = nil
		p.succeed(m, out)
	}
}

// duplicate answers a retry with the original's offsets, and waits for what the
// original waited for.
func (p *Partition) duplicate(m *Produce, c producer.Check, out *Output) {
	m.Result = ProduceResult{BaseOffset: c.First, AppendTime: c.Timestamp}
	m.Required = c.Last.Next()
	if mutant.On("part-dup-acked-early") {
		p.succeed(m, out)
		return
	}
	m.needDurable = p.cfg.FlushBeforeAck()
	p.settle(m, out)
}

// appended completes the outstanding append.
func (p *Partition) appended(now model.Now, w Written, out *Output) {
	m := p.inFlight
	p.inFlight = nil
	if w.Fault == FaultRefused {
		out.Events = append(out.Events, Event{Kind: EventAppendFailed, Mark: p.mark})
		if m != nil {
			p.fail(m, CodeStorageError, "the disk refused the append", out)
		}
		return
	}
	p.setEnds(p.mark.LogStart, p.mark.HighWatermark, w.LogEnd, out)
	p.noteUnsynced(now, w.Rolled)
	p.watchISR(now)
	p.watchProducers(now)
	p.advance(now, out)
	if m == nil {
		return
	}
	unsynced := int64(p.mark.LogEnd.Sub(p.durable))
	m.needDurable = p.cfg.FlushBeforeAck() || unsynced >= p.cfg.FlushMessages
	if m.needDurable {
		p.flushWanted = FlushNow
	}
	p.settle(m, out)
}

// settle answers m if it has what it waits for, else parks it.
func (p *Partition) settle(m *Produce, out *Output) {
	switch {
	case m.Acks == acksAll && p.mark.HighWatermark < m.Required && !mutant.On("part-ack-before-hw"):
		p.replicated.Add(m)
	case m.Acks != 0 && m.needDurable && p.durable < m.Required:
		p.flushWanted = FlushNow
		p.synced.Add(m)
	case m.Acks == acksAll && len(p.isr.maximal) < p.EffectiveMinISR():
		p.finish(m, CodeNotEnoughReplicasAfter, out)
	default:
		p.succeed(m, out)
	}
}

// releaseProduces answers what the moved high watermark or durable end allows.
func (p *Partition) releaseProduces(out *Output) {
	for {
		m, ok := p.replicated.PopReached(p.mark.HighWatermark)
		if !ok {
			break
		}
		p.settle(m, out)
	}
	for {
		m, ok := p.synced.PopReached(p.durable)
		if !ok {
			return
		}
		p.settle(m, out)
	}
}

// expireProduces answers what waited too long. The records stay: they may still
// become replicated.
func (p *Partition) expireProduces(now model.Now, out *Output) {
	for {
		m, ok := p.replicated.PopExpired(now.Mono)
		if !ok {
			break
		}
		p.finish(m, CodeRequestTimedOut, out)
	}
	for {
		m, ok := p.synced.PopExpired(now.Mono)
		if !ok {
			return
		}
		p.finish(m, CodeRequestTimedOut, out)
	}
}

func (p *Partition) succeed(m *Produce, out *Output) { p.finish(m, CodeNone, out) }

// finish answers m and keeps the offsets it was given.
func (p *Partition) finish(m *Produce, c Code, out *Output) {
	m.Result.Code = c
	m.Result.LogStart = p.mark.LogStart
	m.Result.Leader, m.Result.LeaderEpoch = p.leader, p.mark.LeaderEpoch
	out.Produced = append(out.Produced, m)
}

// fail answers m with an error and no offsets.
func (p *Partition) fail(m *Produce, c Code, message string, out *Output) {
	m.Result = ProduceResult{
		Code: c, Message: message, Records: m.Result.Records,
		BaseOffset: model.NoOffset, LogStart: p.mark.LogStart, AppendTime: model.NoTimestamp,
		Leader: p.leader, LeaderEpoch: p.mark.LeaderEpoch,
	}
	if hidesLogStart(c) {
		m.Result.LogStart = model.NoOffset
	}
	out.Produced = append(out.Produced, m)
}

// failWrites answers every waiting and outstanding write with c: the leadership
// is gone, though the records may survive. What was appended keeps its offsets.
func (p *Partition) failWrites(c Code, out *Output) {
	if m := p.inFlight; m != nil {
		p.inFlight = nil
		p.fail(m, c, "", out)
	}
	for m, ok := p.replicated.Pop(); ok; m, ok = p.replicated.Pop() {
		p.finish(m, c, out)
	}
	for m, ok := p.synced.Pop(); ok; m, ok = p.synced.Pop() {
		p.finish(m, c, out)
	}
	if d := p.raising; d != nil {
		p.raising = nil
		p.refuseDelete(d, c, out)
	}
	for d, ok := p.deletes.Pop(); ok; d, ok = p.deletes.Pop() {
		p.refuseDelete(d, c, out)
	}
}
