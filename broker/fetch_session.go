package broker

import (
	"cmp"
	"slices"

	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// A fetch within a session has items only for the partitions that have to be
// looked at. Those with nothing to tell are left to their watches, and so cost
// later fetches nothing; a watch brings one back when something happens to it.

// outcome is what the session has to know of an item's answer.
func (p *pendingFetch) outcome(it *fetchItem) host.FetchOutcome {
	a := &it.answer
	return host.FetchOutcome{
		Code: a.Code, HighWatermark: a.HighWatermark, LogStart: a.LogStartOffset,
		Bytes: it.region.Len(), Diverging: a.Diverging.Epoch >= 0, Redirected: a.PreferredReadReplica >= 0,
		Lacking: it.poll && p.replica.lacks(it),
		AtEnd:   p.ctx.Incremental() && p.restsAt(it),
	}
}

// restsAt reports whether an item needs no look until its watch says so: it is
// read to its end, and a follower has a lease and all that the leader knows. Who
// may be sent to a nearer replica is asked each time: that depends on more than
// the partition.
func (p *pendingFetch) restsAt(it *fetchItem) bool {
	if it.h == nil || !it.poll || p.rack != "" || it.part.Watched() != it.h {
		return false
	}
	return p.replica.id < 0 || it.part.Leased() && !p.replica.lacks(it)
}

// watch has the partitions that are read to their end tell the session when
// there is more. A partition with an error is looked for anew each time.
func (p *pendingFetch) watch() {
	if !p.ctx.Incremental() {
		return
	}
	for i := range p.items {
		switch it := &p.items[i]; {
		case it.answer.Code != protocol.CodeNone:
			it.part.Unwatch()
		case p.replica.id < 0 && it.h != nil && it.poll:
			it.h.Watch(it.part, p.bound(), it.seen)
		}
	}
}

// rest lets go of the items that have nothing to tell, before the fetch waits.
func (p *pendingFetch) rest() {
	p.watch()
	kept := p.items[:0]
	for i := range p.items {
		if it := &p.items[i]; !p.ctx.Rest(i, p.outcome(it)) {
			kept = append(kept, *it)
		}
	}
	clear(p.items[len(kept):])
	p.items = kept
	p.ctx.Compact()
}

// more adds items for the partitions of the session to which something has
// happened. It is false if one of them is not to be had any more, so that the
// fetch has an error to tell.
func (p *pendingFetch) more() bool {
	if !p.ctx.Incremental() {
		return true
	}
	parts := p.ctx.More()
	if len(parts) == 0 {
		return true
	}
	known := len(p.items)
	p.items = slices.Grow(p.items, len(parts))[:known+len(parts)]
	p.find(p.b.quorum.Image(), p.items[known:], parts, p.r.Header.Version)
	return !slices.ContainsFunc(p.items[known:], func(it fetchItem) bool { return it.h == nil })
}

// inOrder brings the items into the session's order.
func (p *pendingFetch) inOrder() {
	slices.SortFunc(p.items, func(a, b fetchItem) int { return cmp.Compare(a.part.Turn(), b.part.Turn()) })
}
