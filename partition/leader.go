package partition

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// leader is the role of the one replica that takes writes. Its other methods
// stand in produce.go, replica_fetch.go, deleterecords.go and isr.go.
type leader struct{}

func (leader) kind() Role { return Leader }

// wait parks a fetch, unless what it saw is no longer the state.
func (leader) wait(p *Partition, _ model.Now, w *FetchWait, out *Output) { p.park(w, out) }

func (p *Partition) park(w *FetchWait, out *Output) {
	moved := p.mark.Role != w.Seen.Role || p.mark.LeaderEpoch != w.Seen.LeaderEpoch ||
		p.mark.Bound(w.Bound) != w.Seen.Bound(w.Bound) || p.mark.LogStart > w.From
	if moved {
		out.Woken = append(out.Woken, w)
		return
	}
	p.waiters[w.Bound].Add(&w.link, w)
}

func (leader) fetched(p *Partition, _ model.Now, f *Fetched, out *Output) { p.dropFetched(f, out) }

func (leader) written(p *Partition, now model.Now, kind WriteKind, w Written, out *Output) {
	if w.Fault == FaultBroken {
		p.becomeOffline(CodeStorageError, out)
		return
	}
	switch kind {
	case WriteAppend:
		p.appended(now, w, out)
	case WriteLogStart, WriteRetain:
		p.logStartRaised(w, out)
	case WriteEpoch:
		if w.Fault != FaultNone {
			p.becomeOffline(CodeStorageError, out)
			return
		}
		p.advance(now, out)
	default:
		assert.Unreachable("a leader completed write %d", kind)
	}
}

func (leader) flushed(p *Partition, now model.Now, to model.Offset, out *Output) {
	p.durableTo(now, to)
	p.advance(now, out)
}

func (leader) tick(p *Partition, now model.Now, out *Output) {
	p.expireProduces(now, out)
	p.expireDeletes(now, out)
	p.flushDue(now)
	p.sweepProducers(now)
	if p.shrinkAt <= now.Mono {
		p.shrinkAt = model.Never
		p.maybeShrink(now, out)
		p.watchISR(now)
		p.advance(now, out)
	}
}

// watchISR sees to it that the ISR is looked at, if there is a member that lacks
// something: twice in each lag time, so that a dead follower leaves after 1 to
// 1.5 times the limit. One that has everything may stay, however long ago it was
// heard, so that an idle partition has no timer.
func (p *Partition) watchISR(now model.Now) {
	if p.shrinkAt != model.Never {
		return
	}
	for i := range p.remote {
		if r := &p.remote[i]; r.logEnd != p.mark.LogEnd && p.isr.inCommitted(r.id) {
			p.shrinkAt = now.Mono + p.cfg.ReplicaLagMax/2
			return
		}
	}
}

func (p *Partition) sweepProducers(now model.Now) {
	if p.sweepAt <= now.Mono {
		p.sweepAt = model.Never
		p.plog.Producers().Expire(now.Wall, p.cfg.ProducerExpiryMs)
		p.watchProducers(now)
	}
}

// watchProducers sees to it that idle producers are dropped, if there are any.
func (p *Partition) watchProducers(now model.Now) {
	if p.sweepAt == model.Never && p.plog.Producers().Len() > 0 {
		p.sweepAt = now.Mono + producerSweep
	}
}
