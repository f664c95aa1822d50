package host

import (
	"errors"
	"math"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/compaction"
)

// cleaner compacts the partitions whose topics ask for it, the dirtiest first, a
// few at a time. Its goroutines exist only while there is something to do.
type cleaner struct {
	m      *ReplicaManager
	secret compaction.Secret
	pace   pacer
	counts cleanerCounts

	mu   sync.Mutex
	idle *sync.Cond
	cfg  config.Cleaner
	// active are the partitions that are being cleaned.
	active map[*Hosted]*cleaning
	// bad are those that can't be cleaned, with the reason, as long as the process
	// lives or the partition is here.
	bad     map[*Hosted]error
	stopped bool
	// maxDirty is the greatest dirty ratio that the last look has met, lastLook
	// when that was.
	maxDirty float64
	lastLook model.Instant
}

func (c *cleaner) init(m *ReplicaManager) {
	r := m.rand()
	c.m, c.cfg = m, m.deps.Broker.Storage.Cleaner
	c.secret = compaction.Secret{r.Uint64(), r.Uint64()}
	c.pace.rate = c.cfg.BytesPerSecond
	c.idle = sync.NewCond(&c.mu)
	c.active, c.bad = make(map[*Hosted]*cleaning), make(map[*Hosted]error)
}

// SetCleaner has the cleaner go on with other settings. What is being compacted
// keeps its memory and buffers to the end of its go.
func (m *ReplicaManager) SetCleaner(cfg config.Cleaner) {
	c := &m.cleaner
	c.mu.Lock()
	same := c.cfg == cfg
	c.cfg = cfg
	c.mu.Unlock()
	if same {
		return
	}
	c.pace.set(cfg.BytesPerSecond)
	if t := m.cleanerTask; t != nil {
		t.pace(cfg.Backoff)
	}
}

// settings returns those that hold now.
func (c *cleaner) settings() config.Cleaner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}

// look starts as many cleanings as there are partitions that need one and
// threads for them.
func (c *cleaner) look() {
	c.forgetGone()
	for c.startOne() {
	}
}

// startOne starts one cleaning, and reports whether there was a partition in need
// of one and a thread for it.
func (c *cleaner) startOne() bool {
	cl := c.next()
	if cl == nil {
		return false
	}
	if c.m.deps.Group == nil {
		cl.Deliver(c.m.deps.RT.Now())
		return true
	}
	c.m.deps.Group.Go("log cleaner", func() {
		// The thread goes on with the next partition when it is through with one.
		for ; cl != nil; cl = c.next() {
			cl.work()
		}
	})
	return true
}

// next chooses the dirtiest partition and notes that it is being cleaned; nil if
// none is in need, or all threads are at work.
func (c *cleaner) next() *cleaning {
	c.mu.Lock()
	full := c.stopped || len(c.active) >= int(c.cfg.Threads)
	c.mu.Unlock()
	if full {
		return nil
	}
	var best *cleaning
	most := 0.0
	for _, h := range c.m.All() {
		cl := c.measure(h)
		if cl == nil {
			continue
		}
		ratio := cl.dirt.Ratio()
		most = max(most, ratio)
		if cl.dirt.Due(cl.topic.MinCleanableDirtyRatio) && (best == nil || ratio > best.dirt.Ratio()) {
			best = cl
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxDirty, c.lastLook = most, c.m.deps.RT.Now().Mono
	if best == nil || c.stopped || c.active[best.h] != nil || len(c.active) >= int(c.cfg.Threads) {
		return nil
	}
	c.active[best.h] = best
	return best
}

// measure finds out how dirty a partition is; nil if it is not compacted, or
// can't be cleaned now.
func (c *cleaner) measure(h *Hosted) *cleaning {
	s := h.State()
	if s.View == nil || !s.Config.CleanupPolicy.Compact || !h.dir.Online() || c.excluded(h) {
		return nil
	}
	now := c.m.deps.RT.Now()
	cl := &cleaning{c: c, h: h, view: s.View, topic: s.Config, now: now}
	cl.idle = sync.NewCond(&cl.mu)
	cl.segments = s.View.Compactable()
	cl.dirt = compaction.Measure(cl.segments, compaction.Bounds{
		Start: s.LogStart, End: s.LogEnd, Stable: s.LastStable, Durable: s.RecoveryPoint, Cleaned: h.dir.cleanedTo(h.tp),
		Now: now.Wall, MinLagMs: s.Config.MinCompactionLagMs, MaxLagMs: s.Config.MaxCompactionLagMs,
		FirstTimestamp: func(base model.Offset) model.Timestamp {
			ts, err := s.View.FirstTimestamp(base)
			if err != nil {
				return model.NoTimestamp // the cleaning will meet it
			}
			return ts
		},
	})
	if cl.dirt.Reset {
		h.dir.resetCleaned(h.tp, cl.dirt.From)
	}
	return cl
}

func (c *cleaner) excluded(h *Hosted) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active[h] != nil || c.bad[h] != nil
}

// done takes the end of a cleaning into account.
func (c *cleaner) done(cl *cleaning) {
	c.mu.Lock()
	delete(c.active, cl.h)
	c.idle.Broadcast()
	c.mu.Unlock()
	c.judge(cl)
}

// judge decides what a failed cleaning says of its partition. One that was taken
// away, or whose log changed meanwhile, is no failure; a full disk passes. All
// else is there the next time too, so that there is none: the partition serves on
// as it is, and an operator is told.
func (c *cleaner) judge(cl *cleaning) {
	var damage *log.CorruptionError
	switch err := cl.err; {
	case err == nil:
		return
	case errors.Is(err, errLeft), errors.Is(err, log.ErrStaleView), errors.Is(err, log.ErrBusy), errors.Is(err, log.ErrClosed),
		errors.Is(err, log.ErrPoisoned), c.m.GetByID(cl.h.id) != cl.h, cl.h.State().View == nil:
		return
	case vfs.IsNoSpace(err):
		c.m.logger.Warn("not compacted: the disk is full", name(cl.h), zap.Error(err))
		return
	case errors.As(err, &damage):
		c.m.events.damaged(cl.h, damage)
	}
	c.counts.failed.Add(1)
	c.m.logger.Error("a partition can't be compacted; it is left as it is until the broker starts again", name(cl.h), zap.Error(cl.err))
	c.mu.Lock()
	c.bad[cl.h] = cl.err
	c.mu.Unlock()
}

// forgetGone forgets failures of partitions that are no longer here.
func (c *cleaner) forgetGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range c.bad { // order-free
		if c.m.GetByID(h.id) != h {
			delete(c.bad, h)
		}
	}
}

// leave ends the cleaning of a partition whose log is taken away, and waits until
// nothing of it touches the directory any more.
func (c *cleaner) leave(h *Hosted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.active[h]; cl != nil {
		cl.abort()
	}
	for c.m.deps.Group != nil && c.active[h] != nil {
		c.idle.Wait()
	}
}

// stop ends all cleanings and waits for that.
func (c *cleaner) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, cl := range c.active { // order-free
		cl.abort()
	}
	for c.m.deps.Group != nil && len(c.active) > 0 {
		c.idle.Wait()
	}
}

// pacer spreads reading and writing over time (log.cleaner.io.max.bytes.per.second).
type pacer struct {
	mu   sync.Mutex
	rate float64 // bytes a second
	// free is when what was done so far has been paid for.
	free model.Instant
}

// pacerIdle is how much may be done at once after a rest.
const pacerIdle = model.Instant(300e6)

// set changes the rate from now on.
func (p *pacer) set(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// after notes n more bytes and returns until when to pause, 0 for not at all.
func (p *pacer) after(now model.Instant, n int) model.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate > math.MaxInt64 {
		return 0
	}
	p.free = max(p.free, now-pacerIdle) + model.Instant(float64(n)/max(p.rate, 1)*1e9)
	if p.free <= now {
		return 0
	}
	return p.free
}
