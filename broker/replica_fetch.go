package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// replicaFetch is what a pendingFetch has more if a follower sent it. Each
// partition is first told of the follower's progress and judges it; then the
// fetch is read, or waits, like a consumer's, but to the end of the log.
type replicaFetch struct {
	id     model.BrokerID // -1: a consumer's
	now    model.Now      // when it came
	millis int32          // how long it may wait
	left   atomic.Int32   // verdicts still to come, and one for judge itself
	waits  []highWatermarkWait
}

// highWatermarkWait is a parked follower's registration for the high watermark of
// one partition, beside that for the log end.
type highWatermarkWait struct {
	host.FetchWait
	out   bool        // registered once; then woken says whether it is now
	woken atomic.Bool // has fired and is not registered any more
}

// judge tells each partition what the follower has.
func (p *pendingFetch) judge(req *kmsg.FetchRequest) {
	p.isolation = host.ReadUncommitted
	p.replica.now, p.replica.millis = p.r.Received, req.MaxWaitMillis
	p.replica.waits = p.replica.waits[:0]
	epoch := model.NoBrokerEpoch
	if req.Version >= 15 {
		epoch = model.BrokerEpoch(req.ReplicaState.Epoch)
	}
	p.replica.left.Store(int32(len(p.items)) + 1)
	for i := range p.items {
		it := &p.items[i]
		if it.h == nil {
			p.judged()
			continue
		}
		m := host.ReplicaFetchMsg{
			ReplicaFetch: partition.ReplicaFetch{
				Replica: p.replica.id, BrokerEpoch: epoch, CurrentEpoch: it.part.CurrentEpoch,
				Offset: it.part.Offset, LastEpoch: it.part.LastEpoch, LogStart: it.part.LogStart,
			},
			Suspect: it.part.Suspect, Waiter: p, Slot: int32(i),
		}
		if p.ctx.Incremental() {
			m.Part = it.part
		}
		it.h.ReplicaFetch(m)
	}
	p.judged()
}

// ReplicaFetchDone implements host.ReplicaFetchWaiter.
func (p *pendingFetch) ReplicaFetchDone(slot int32, r partition.ReplicaResult, s *host.State) {
	it := &p.items[slot]
	it.part.SetLeased(r.Leased)
	it.diverging, it.diverges = r.Diverging, r.Diverging.Epoch >= 0
	if r.Code != protocol.CodeNone {
		it.h, it.code, it.seen = nil, r.Code, s
	}
	p.judged()
}

// judged counts one verdict and goes on after the last.
func (p *pendingFetch) judged() {
	if p.replica.left.Add(-1) == 0 {
		p.run(p.replica.now, p.replica.millis)
	}
}

// bound returns which end the fetch waits for.
func (p *pendingFetch) bound() partition.Bound {
	if p.replica.id >= 0 {
		return partition.BoundLogEnd
	}
	return host.BoundOf(p.isolation)
}

// bounds says what the fetch may read of a partition now.
func (p *pendingFetch) bounds(s *host.State, it *fetchItem) host.FetchBounds {
	part := it.part
	b := s.FetchBounds(part.Offset, part.CurrentEpoch, part.LastEpoch, p.isolation, p.mustLead)
	switch {
	case p.replica.id < 0 || b.Code != protocol.CodeNone || b.Diverging.Epoch >= 0:
	case it.diverges:
		b.Diverging = it.diverging
	default:
		b.End, b.Poll = s.LogEnd, part.Offset == s.LogEnd
	}
	return b
}

// lacks reports whether a follower has said that it knows a lower high watermark
// or log start than there is. Source: KIP-1166, for the former. One that does not
// have our log start may not join the in-sync set.
func (f *replicaFetch) lacks(it *fetchItem) bool {
	return f.id >= 0 && it.seen != nil && (it.part.HighWatermark < it.seen.HighWatermark || it.part.LogStart < it.seen.LogStart)
}

// waitForHighWatermarks registers a follower's parked fetch for the high
// watermarks, where it is not.
func (p *pendingFetch) waitForHighWatermarks() {
	if p.replica.id < 0 || p.ctx.Incremental() {
		return
	}
	if len(p.replica.waits) == 0 {
		p.replica.waits = make([]highWatermarkWait, len(p.items))
	}
	for i := range p.items {
		it, w := &p.items[i], &p.replica.waits[i]
		if it.h == nil || w.out && !w.woken.Load() {
			continue
		}
		w.out = true
		w.woken.Store(false)
		w.Waiter, w.Slot, w.From, w.Bound, w.Seen = p, int32(len(p.items)+i), it.part.Offset, partition.BoundHighWatermark, it.seen
		it.h.Wait(&w.FetchWait)
	}
}

// cancelHighWatermarks takes back what is still registered.
func (p *pendingFetch) cancelHighWatermarks() {
	for i := range p.replica.waits {
		if w := &p.replica.waits[i]; w.out && !w.woken.Load() {
			p.items[i].h.Cancel(&w.FetchWait)
		}
	}
}
