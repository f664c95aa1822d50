package broker

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// fetchItem is one partition of a Fetch request and what becomes of it.
type fetchItem struct {
	part *host.FetchPartition // what the client asks
	id   model.TopicID
	h    *host.Hosted  // nil: answered with code
	code protocol.Code // why h is nil
	// diverging is the leader's word on a follower's log, where diverges; the state
	// alone does not say all that a leader goes by.
	diverging model.OffsetAndEpoch
	diverges  bool
	// leader is who leads a partition that is not here, as the metadata has it.
	leader protocol.LeaderHint

	answer protocol.FetchPartition
	region log.Region
	seen   *host.State // what the answer was made from
	poll   bool        // at the end: nothing there now, something may come
	chosen bool        // part of the answer
}

// fetchWait is a parked fetch's registration with one partition, if there is no
// session to watch it.
type fetchWait struct {
	host.FetchWait
	woken atomic.Bool // it has fired and is not registered any more
}

// pendingFetch is a Fetch request under way. Its items are read at once; if that
// gives too little, it registers with its partitions and tries again whenever
// one of them has moved, until there is enough or its time is up. Source: KIP-74.
type pendingFetch struct {
	b         *Broker
	r         *server.Request
	ctx       *host.FetchContext
	items     []fetchItem
	waits     []fetchWait // of the items; nil within a session
	isolation host.Isolation
	mustLead  bool
	minBytes  int
	maxBytes  int
	rack      string // of a consumer that may be sent to a nearer replica; "" for others
	replica   replicaFetch
	waited    bool

	// turns counts who wants the fetch looked at. Whoever raises it from 0 looks,
	// and goes on looking until it has seen all turns; a fetch that is answered
	// keeps its turns, so that no later wake gets in.
	turns   atomic.Int32
	expired atomic.Bool
}

// run reads, and answers or waits. It is called once, by the handler.
func (p *pendingFetch) run(now model.Now, waitMillis int32) {
	bytes := p.readAll()
	p.turns.Store(1) // before anybody else knows of this fetch
	if waitMillis <= 0 || !p.shouldWait(bytes) || !p.b.parked.add(p) {
		p.answer()
		return
	}
	p.releaseRegions()
	p.waited = true
	if p.ctx.Incremental() {
		p.rest()
		p.ctx.Park(p)
	} else {
		p.waits = make([]fetchWait, len(p.items))
		for i := range p.items {
			if p.items[i].h != nil {
				p.register(int32(i))
			}
		}
		p.waitForHighWatermarks()
	}
	p.b.rt.SetDeadline(p, now.Mono+model.Instant(waitMillis)*nanosPerMilli)
	p.look(1)
}

// shouldWait reports whether waiting can make the answer better: nothing went
// wrong, there is something to wait for, and less than was asked for is there.
// A topic or partition that does not exist is not what goes wrong: as with
// Kafka, the others wait, and a client that goes on asking for it does so at the
// pace of its waits.
func (p *pendingFetch) shouldWait(bytes int) bool {
	if bytes >= p.minBytes {
		return false
	}
	waiting := p.ctx.Resting() > 0
	for i := range p.items {
		it := &p.items[i]
		if it.h == nil && (it.code == protocol.CodeUnknownTopicOrPartition || it.code == protocol.CodeUnknownTopicID) {
			continue
		}
		waiting = true
		if it.answer.Code != protocol.CodeNone || it.answer.Diverging.Epoch >= 0 || it.answer.PreferredReadReplica >= 0 {
			return false
		}
		if p.replica.lacks(it) || it.ofRemnant() {
			return false
		}
		// Data on a segment that is no longer written will not grow, and an
		// offset between the readable end and the log end has nothing to wait
		// for.
		if it.region.OlderSegment() || it.region.Len() == 0 && !it.poll && !it.capped() {
			return false
		}
	}
	return waiting
}

// ofRemnant reports whether the item is of a damaged partition that is read below the
// damage: nothing comes there that could be waited for.
func (it *fetchItem) ofRemnant() bool { return it.seen != nil && it.seen.Remnant != nil }

// capped reports whether the item is empty only because earlier items used up
// the bytes that the whole answer may hold.
func (it *fetchItem) capped() bool {
	return it.seen != nil && !it.poll && it.part.Offset < it.seen.LogEnd
}

func (p *pendingFetch) register(i int32) {
	it, w := &p.items[i], &p.waits[i]
	w.woken.Store(false)
	w.Waiter, w.Slot, w.From, w.Bound, w.Seen = p, i, it.part.Offset, p.bound(), it.seen
	it.h.Wait(&w.FetchWait)
}

// FetchReady implements host.FetchWaiter.
func (p *pendingFetch) FetchReady(slot int32) {
	switch n := int32(len(p.items)); {
	case p.ctx.Incremental():
		// The session knows which partitions have something new.
	case slot >= n:
		p.replica.waits[slot-n].woken.Store(true)
	default:
		p.waits[slot].woken.Store(true)
	}
	if p.turns.Add(1) == 1 {
		p.look(1)
	}
}

// TickAt implements loop.Ticker: the time is up.
func (p *pendingFetch) TickAt(model.Now) {
	p.expired.Store(true)
	if p.turns.Add(1) == 1 {
		p.look(1)
	}
}

// look tries again until every turn has been seen; one goroutine at a time is
// in here.
func (p *pendingFetch) look(seen int32) {
	for {
		if !p.more() || p.expired.Load() || p.enough() {
			p.finish()
			return
		}
		p.registerAgain()
		if p.turns.CompareAndSwap(seen, 0) {
			return
		}
		seen = p.turns.Load()
	}
}

// registerAgain registers with the partitions that have woken the fetch; those of
// a session are watched anyway.
func (p *pendingFetch) registerAgain() {
	if p.ctx.Incremental() {
		return
	}
	for i := range p.items {
		if p.items[i].h != nil && p.waits[i].woken.Load() {
			p.register(int32(i))
		}
	}
	p.waitForHighWatermarks()
}

// enough reports whether the answer should be given now. It reads no records,
// only positions.
func (p *pendingFetch) enough() bool {
	if p.r.Abandoned() {
		return true
	}
	sum := 0
	for i := range p.items {
		it := &p.items[i]
		if it.h == nil {
			continue
		}
		s := it.h.State()
		bounds := p.bounds(s, it)
		it.seen = s
		if bounds.Code != protocol.CodeNone || bounds.Diverging.Epoch >= 0 || p.replica.lacks(it) || it.ofRemnant() {
			return true
		}
		if it.part.Offset < bounds.End {
			sum += int(min(s.Reader().ReadableBytes(it.part.Offset, bounds.End), int64(it.part.MaxBytes)))
		}
	}
	return sum >= p.minBytes
}

// finish takes back what is still registered, reads and answers.
func (p *pendingFetch) finish() {
	p.b.rt.SetDeadline(p, model.Never)
	p.b.parked.remove(p)
	if p.ctx.Incremental() {
		p.ctx.Unpark()
		p.more()
		p.inOrder()
	} else {
		for i := range p.items {
			if it := &p.items[i]; it.h != nil && !p.waits[i].woken.Load() {
				it.h.Cancel(&p.waits[i].FetchWait)
			}
		}
		p.cancelHighWatermarks()
	}
	p.readAll()
	p.answer()
}

// readAll reads every item and returns how many bytes that gave. The first item
// with data may exceed the limits by giving one whole batch (KIP-74).
func (p *pendingFetch) readAll() int {
	left, minOne, sum := p.maxBytes, true, 0
	for i := range p.items {
		it := &p.items[i]
		p.read(it, max(left, 0), minOne)
		n := it.region.Len()
		if n > 0 {
			minOne = false
		}
		left -= n
		sum += n
	}
	return sum
}

// read answers one item from the partition's present state.
func (p *pendingFetch) read(it *fetchItem, left int, minOne bool) {
	it.answer = protocol.NewFetchPartition(it.part.Partition)
	it.answer.ReadCommitted = p.isolation == host.ReadCommitted
	it.poll = false
	if it.h == nil {
		it.fail(it.code)
		return
	}
	s := it.h.State()
	it.seen = s
	bounds := p.bounds(s, it)
	if bounds.Code != protocol.CodeNone {
		it.fail(bounds.Code)
		return
	}
	it.answer.HighWatermark, it.answer.LastStableOffset, it.answer.LogStartOffset = s.HighWatermark, s.LastStable, s.LogStart
	if bounds.Diverging.Epoch >= 0 && !mutant.On("shell-diverging-dropped") {
		it.answer.Diverging = bounds.Diverging
		return
	}
	if p.rack != "" {
		if it.answer.PreferredReadReplica = p.b.nearest(s, it.part.Offset, p.rack, p.r.Listener); it.answer.PreferredReadReplica >= 0 {
			return
		}
	}
	it.poll = bounds.Poll
	if it.part.Offset >= bounds.End {
		return
	}
	region, err := s.Reader().Read(it.part.Offset, bounds.End, min(left, int(it.part.MaxBytes)), minOne)
	if err != nil {
		it.failRead(err)
		if damage := (*log.CorruptionError)(nil); errors.As(err, &damage) {
			it.h.Verify(it.part.Offset)
		}
		return
	}
	it.region = region
	if s.Remnant != nil && region.Len() == 0 && minOne && left > 0 && it.part.MaxBytes > 0 {
		it.fail(s.Code) // nothing more comes, and an empty answer would be asked for again for ever
		return
	}
	if p.isolation == host.ReadCommitted && region.Len() > 0 {
		it.answer.Aborted = abortedTxns(s.Reader(), it.part.Offset, bounds.End)
	}
}

func abortedTxns(v *log.View, from, end model.Offset) []protocol.AbortedTxn {
	found := v.AbortedTxns(from, end)
	out := make([]protocol.AbortedTxn, len(found))
	for i := range found {
		out[i] = protocol.AbortedTxn{ProducerID: found[i].ProducerID, FirstOffset: found[i].FirstOffset}
	}
	return out
}

// fail makes the item an error; for a stale or wrong leader it names the present
// one (KIP-951).
func (it *fetchItem) fail(code protocol.Code) {
	it.answer.Code = code
	switch code {
	case protocol.CodeNotLeaderOrFollower, protocol.CodeFencedLeaderEpoch:
		switch {
		case it.seen != nil && it.seen.Leader != model.NoLeader:
			it.answer.CurrentLeader = protocol.LeaderHint{ID: it.seen.Leader, Epoch: it.seen.LeaderEpoch}
		case it.seen == nil && it.leader.ID != model.NoLeader:
			it.answer.CurrentLeader = it.leader
		}
	}
}

// failRead turns a failed read into an error: an offset that went below the log
// start meanwhile is out of range, everything else is the disk's.
func (it *fetchItem) failRead(err error) {
	aborted := it.answer.ReadCommitted
	it.answer = protocol.NewFetchPartition(it.part.Partition)
	it.answer.ReadCommitted = aborted
	it.answer.Code = protocol.CodeKafkaStorageError
	if errors.Is(err, log.ErrOffsetOutOfRange) || errors.Is(err, log.ErrStaleView) {
		it.answer.Code = protocol.CodeOffsetOutOfRange
	}
}

func (p *pendingFetch) releaseRegions() {
	for i := range p.items {
		p.items[i].region.Release()
	}
}

// fetches recycles pendingFetches: one with a thousand partitions is some
// hundred kilobytes.
type fetches struct{ pool sync.Pool }

func (s *fetches) get() *pendingFetch {
	if p, ok := s.pool.Get().(*pendingFetch); ok {
		return p
	}
	return new(pendingFetch)
}

// Recycle implements server.Owner: the answer has been sent, or can't be, and
// its regions are released. A fetch that waited is left to the collector, since
// a wake for it may still be under way.
func (p *pendingFetch) Recycle() {
	if p.waited {
		return
	}
	b := p.b
	p.b, p.r, p.ctx, p.rack = nil, nil, nil, ""
	b.fetches.pool.Put(p)
}
