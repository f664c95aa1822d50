package host

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// Codes of fetch sessions.
const (
	codeSessionNotFound Code = 70
	codeSessionEpoch    Code = 71
	codeSessionTopicID  Code = 106
)

// sessionIdle is how long a session must have been unused, or have lived, before
// it may be pushed out: two minutes.
const sessionIdle = model.Instant(120 * 1e9)

// topicIDVersion is the first Fetch version that names topics by id.
const topicIDVersion = 13

// FetchSessionCache remembers what clients fetch (KIP-227), so that a fetch of a
// thousand idle partitions costs next to nothing. It may be used from any
// goroutine.
type FetchSessionCache struct {
	slots int

	mu       sync.Mutex
	rand     *rand.Rand
	sessions map[int32]*fetchSession
	evicted  int64
}

// NewFetchSessionCache returns a cache of at most slots sessions
// (max.incremental.fetch.session.cache.slots); 0 remembers nothing.
func NewFetchSessionCache(slots int, r *rand.Rand) *FetchSessionCache {
	return &FetchSessionCache{slots: slots, rand: r, sessions: make(map[int32]*fetchSession)}
}

// Len returns how many sessions exist, and how many were pushed out so far.
func (c *FetchSessionCache) Len() (sessions int, evicted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions), c.evicted
}

// FetchContext is one fetch request with its session, if it has one. It belongs
// to whoever answers the request, and ends with Finish or Abandon.
type FetchContext struct {
	c *FetchSessionCache
	s *fetchSession // nil when there is none yet
	// full: the response lists every partition.
	full bool
	// create: the client wants a session.
	create     bool
	privileged bool
	byID       bool
	epoch      int32 // the session's after Begin
	parts      []*FetchPartition
	moved      []*FetchPartition
	terms      fetchTerms
}

// Begin reads a request's session fields. privileged is true for followers. A
// code other than 0 answers the whole request, with session id 0 and no
// partitions. Requests below v7 have no sessions.
func (c *FetchSessionCache) Begin(now model.Instant, r *kmsg.FetchRequest, privileged bool) (*FetchContext, Code) {
	ctx := &FetchContext{c: c, privileged: privileged, byID: r.Version >= topicIDVersion, terms: termsOf(r)}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, epoch := r.SessionID, r.SessionEpoch
	if r.Version < 7 {
		id, epoch = 0, -1
	}
	if epoch == 0 || epoch == -1 {
		c.drop(c.sessions[id])
		ctx.full, ctx.create = true, epoch == 0
		ctx.collect(r)
		return ctx, 0
	}
	s := c.sessions[id]
	switch {
	case s == nil:
		return nil, codeSessionNotFound
	case s.epoch != epoch, s.busy:
		return nil, codeSessionEpoch
	case s.byID != ctx.byID:
		return nil, codeSessionTopicID
	}
	s.update(r)
	s.epoch = nextSessionEpoch(s.epoch)
	s.used = now
	if len(s.parts) == 0 {
		c.drop(s)
		ctx.full = true
		return ctx, 0
	}
	s.busy = true
	ctx.s, ctx.epoch = s, s.epoch
	// In this order: a partition that moves in between is told of this fetch, or
	// counts it.
	s.news.fetched(now)
	ctx.parts = s.news.take(nil)
	sortByTurn(ctx.parts)
	return ctx, 0
}

// drop ends a session, if there is one. Called with mu held.
func (c *FetchSessionCache) drop(s *fetchSession) {
	if s != nil {
		delete(c.sessions, s.id)
		s.news.close()
	}
}

// collect lists a full request's partitions in its order.
func (ctx *FetchContext) collect(r *kmsg.FetchRequest) {
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	all := make([]FetchPartition, n)
	ctx.parts = make([]*FetchPartition, 0, n)
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			p := &all[len(ctx.parts)]
			p.Topic, p.TopicID, p.Partition = t.Topic, t.TopicID, t.Partitions[j].Partition
			if ctx.byID {
				p.Topic = ""
			}
			p.sentHighWatermark, p.sentLogStart = model.NoOffset, model.NoOffset
			p.ask(&t.Partitions[j])
			ctx.parts = append(ctx.parts, p)
		}
	}
}

// Partitions returns what to look at, in the order in which to read it; read
// only. Of a session's partitions that is those that were named, those that have
// something new, and those of which nobody can tell whether they have.
func (ctx *FetchContext) Partitions() []*FetchPartition { return ctx.parts }

// Resting returns how many partitions the session has beside Partitions.
func (ctx *FetchContext) Resting() int {
	if ctx.s == nil {
		return 0
	}
	return len(ctx.s.parts) - len(ctx.parts)
}

// Incremental reports whether the request continues a session, so that
// Partitions is only what has to be looked at.
func (ctx *FetchContext) Incremental() bool { return ctx.s != nil }

// Full reports whether the response lists every partition.
func (ctx *FetchContext) Full() bool { return ctx.full }

// Include says whether the response must hold p, one of Partitions. It is called
// once for each when the answer is final.
func (ctx *FetchContext) Include(p *FetchPartition, o FetchOutcome) bool {
	p.quiet = p.resting(&o)
	news := p.news(&o)
	if o.Bytes > 0 && ctx.s != nil {
		ctx.moved = append(ctx.moved, p)
	}
	return ctx.full || news
}

// Rest takes a partition out of Partitions if it has nothing to tell, and says
// whether it did: it comes back, through More, once there is something.
func (ctx *FetchContext) Rest(i int, o FetchOutcome) bool {
	p := ctx.parts[i]
	p.quiet = ctx.s != nil && p.resting(&o) && !p.hasNews(&o)
	return p.quiet
}

// Compact takes the partitions that Rest has spoken of out of Partitions.
func (ctx *FetchContext) Compact() {
	ctx.parts = slices.DeleteFunc(ctx.parts, func(p *FetchPartition) bool {
		p.taken = p.taken && !p.quiet
		return p.quiet
	})
}

// Park has w told, possibly at once, when a partition of the session has
// something new. It stays until Unpark.
func (ctx *FetchContext) Park(w FetchWaiter) { ctx.s.news.park(w) }

// Unpark ends Park; w may still be told once.
func (ctx *FetchContext) Unpark() { ctx.s.news.park(nil) }

// More adds the partitions to Partitions that have something new and are not
// there, and returns them.
func (ctx *FetchContext) More() []*FetchPartition {
	known := len(ctx.parts)
	ctx.parts = ctx.s.news.take(ctx.parts)
	return ctx.parts[known:]
}

// Finish ends the fetch and returns the response's session id. A code other than
// 0 replaces the response: the session was lost meanwhile.
func (ctx *FetchContext) Finish(now model.Instant) (id int32, code Code) {
	c := ctx.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := ctx.s; s != nil {
		s.busy = false
		s.news.putBack(ctx.parts)
		if c.sessions[s.id] != s {
			return 0, codeSessionNotFound
		}
		for _, p := range ctx.moved {
			s.moveToEnd(p)
		}
		return s.id, 0
	}
	if !ctx.create || len(ctx.parts) == 0 {
		return 0, 0
	}
	c.supersede(ctx)
	s := c.open(now, ctx.privileged, len(ctx.parts))
	if s == nil {
		return 0, 0
	}
	s.byID, s.terms = ctx.byID, ctx.terms
	for _, p := range ctx.parts {
		s.remove(p.key()) // named twice in one request: the last one counts
		s.add(p)
	}
	return s.id, 0
}

// Abandon ends a fetch that won't be answered.
func (ctx *FetchContext) Abandon() {
	if ctx.s == nil {
		return
	}
	ctx.c.mu.Lock()
	defer ctx.c.mu.Unlock()
	ctx.s.busy = false
	for _, p := range ctx.parts {
		p.quiet = false
	}
	ctx.s.news.putBack(ctx.parts)
}

// SessionID returns the id of the session that the request continues, 0 if it
// has none; a throttled response, which is empty, carries it.
func (ctx *FetchContext) SessionID() int32 {
	if ctx.s == nil {
		return 0
	}
	return ctx.s.id
}

// supersede ends what sessions the follower has that is about to get one, if they
// hold a partition of the new one: a follower fetches each in one session only. It
// may not know of the old one, having given up waiting for the answer that told it.
// Called with mu held.
func (c *FetchSessionCache) supersede(ctx *FetchContext) {
	if !ctx.privileged || ctx.terms.replica < 0 {
		return
	}
	for _, s := range c.sessions { // order-free: each is judged by itself
		if !s.privileged || s.terms.replica != ctx.terms.replica {
			continue
		}
		if slices.ContainsFunc(ctx.parts, func(p *FetchPartition) bool { return s.parts[p.key()] != nil }) {
			c.drop(s)
		}
	}
}

// open makes a session of n partitions, pushing out a less valuable one if there
// is no room; nil if there is none to push out. Called with mu held.
func (c *FetchSessionCache) open(now model.Instant, privileged bool, n int) *fetchSession {
	if c.slots <= 0 {
		return nil
	}
	if len(c.sessions) >= c.slots {
		victim := c.victim(now, privileged, n)
		if victim == nil {
			return nil
		}
		c.drop(victim)
		c.evicted++
	}
	s := &fetchSession{
		id: c.drawID(), epoch: 1, privileged: privileged, created: now, used: now,
		parts: make(map[sessionKey]*FetchPartition, n),
	}
	c.sessions[s.id] = s
	return s
}

// victim returns the session that makes room: the one unused longest, if that is
// long; else the least valuable of those that may be pushed out, if it is less
// valuable than the new one. A session may be pushed out once it has lived for a
// while; a follower's new session also pushes out a consumer's young one.
func (c *FetchSessionCache) victim(now model.Instant, privileged bool, n int) *fetchSession {
	var idle, least *fetchSession
	for _, s := range c.sessions { // order-free: ties are broken by id
		if idle == nil || s.used < idle.used || (s.used == idle.used && s.id < idle.id) {
			idle = s
		}
		old := now-s.created > sessionIdle
		if (old || (privileged && !s.privileged)) && (least == nil || compareSessions(s, least) < 0) {
			least = s
		}
	}
	switch {
	case idle != nil && now-idle.used > sessionIdle:
		return idle
	case least == nil:
		return nil
	case least.privileged == privileged && len(least.parts) < n, !least.privileged && privileged:
		return least
	}
	return nil
}

// compareSessions orders by value: consumers before followers, small before
// large.
func compareSessions(a, b *fetchSession) int {
	if a.privileged != b.privileged {
		if b.privileged {
			return -1
		}
		return 1
	}
	if d := cmp.Compare(len(a.parts), len(b.parts)); d != 0 {
		return d
	}
	return cmp.Compare(a.id, b.id)
}

// drawID returns an unused id above 0.
func (c *FetchSessionCache) drawID() int32 {
	for {
		id := c.rand.Int32()
		if id > 0 && c.sessions[id] == nil {
			return id
		}
	}
}
