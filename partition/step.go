package partition

import (
	"slices"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// role is what a replica does with each kind of input. A role that can't get
// some input answers with assert.Unreachable.
type role interface {
	kind() Role
	produce(p *Partition, now model.Now, m *Produce, out *Output)
	wait(p *Partition, now model.Now, w *FetchWait, out *Output)
	replicaFetch(p *Partition, now model.Now, f *ReplicaFetch, out *Output)
	deleteRecords(p *Partition, now model.Now, d *DeleteRecords, out *Output)
	fetched(p *Partition, now model.Now, f *Fetched, out *Output)
	alterAnswered(p *Partition, now model.Now, a AlterAnswer, out *Output)
	written(p *Partition, now model.Now, kind WriteKind, w Written, out *Output)
	flushed(p *Partition, now model.Now, to model.Offset, out *Output)
	tick(p *Partition, now model.Now, out *Output)
}

// Step takes one fact and leaves in out what is to be done about it. Input that
// can't be taken while a write is outstanding is kept, and taken in order when
// the write has completed, before Step returns from the completion.
func (p *Partition) Step(now model.Now, in *Input, out *Output) {
	if p.writing != WriteNone && in.Kind != KindWritten && in.Kind != KindOffline {
		p.deferred = append(p.deferred, *in)
		return
	}
	p.dispatch(now, in, out)
	p.release(out)
	for p.writing == WriteNone && len(p.deferred) > 0 {
		next := p.deferred[0]
		p.deferred = slices.Delete(p.deferred, 0, 1)
		p.dispatch(now, &next, out)
		p.release(out)
	}
	p.askFlush(out)
	p.askStart(out)
	assert.Slow(p.check)
}

func (p *Partition) dispatch(now model.Now, in *Input, out *Output) {
	switch in.Kind {
	case KindProduce:
		p.role.produce(p, now, in.Produce, out)
	case KindWait:
		p.role.wait(p, now, in.Wait, out)
	case KindCancel:
		in.Wait.link.Unlink()
	case KindReplicaFetch:
		p.role.replicaFetch(p, now, in.Replica, out)
	case KindDeleteRecords:
		p.role.deleteRecords(p, now, in.Delete, out)
	case KindFetched:
		p.role.fetched(p, now, in.Fetched, out)
	case KindRegistration:
		p.register(now, in.Registration, out)
	case KindAlterAnswered:
		p.role.alterAnswered(p, now, in.Alter, out)
	case KindConfig:
		p.configure(now, in.Config, out)
	case KindWritten:
		if p.mark.Role == Offline {
			return // the loss of the log overtook the write
		}
		assert.That(p.writing != WriteNone, "a write completed that nobody asked for")
		kind := p.writing
		p.writing = WriteNone
		p.role.written(p, now, kind, in.Written, out)
	case KindFlushed:
		p.role.flushed(p, now, in.Flushed, out)
	case KindFlushOld:
		p.flushOld()
	case KindOffline:
		p.becomeOffline(in.Code, out)
	case KindTick:
		p.role.tick(p, now, out)
	case KindRetain:
		p.retain(in.Retain, out)
	case KindStartKept:
		p.startKept(in.Start, out)
	default:
		assert.Unreachable("input of kind %d", in.Kind)
	}
}

// write asks for one change of the log. No other may be outstanding.
func (p *Partition) write(out *Output, w Write) {
	assert.That(p.writing == WriteNone && out.Write.Kind == WriteNone,
		"write %d asked for while %d is outstanding", w.Kind, p.writing)
	p.writing, out.Write = w.Kind, w
}

// check asserts what must hold after every step.
func (p *Partition) check() {
	m := &p.mark
	assert.That(m.LogStart <= m.LastStable && m.LastStable <= m.HighWatermark && m.HighWatermark <= m.LogEnd,
		"log start %d, last stable %d, high watermark %d, log end %d", m.LogStart, m.LastStable, m.HighWatermark, m.LogEnd)
	assert.That(p.durable <= m.LogEnd, "durable end %d above log end %d", p.durable, m.LogEnd)
	assert.That(p.start.durable <= m.LogStart, "durable log start %d above log start %d", p.start.durable, m.LogStart)
	assert.That(m.Role == p.role.kind(), "role %s, object %s", m.Role, p.role.kind())
	assert.That(m.Role == Follower || p.applying == nil && p.settling == nil && p.follows != followTold,
		"a %s follows", m.Role)
	if m.Role != Leader {
		assert.That(p.replicated.Len()+p.synced.Len()+p.deletes.Len() == 0, "a %s has waiting writes", m.Role)
		return
	}
	for _, id := range p.isr.committed {
		assert.That(p.isr.inMaximal(id), "isr %v has %d, maximal isr %v doesn't", p.isr.committed, id, p.isr.maximal)
	}
}
