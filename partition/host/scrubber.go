package host

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/scrub"
)

// scrubFile tells, in each log directory, when each segment was verified.
const scrubFile = ".tidemark_scrub"

const (
	// scrubLook is how often a directory is asked whether something is to be verified;
	// scrubRest how long it is left alone once nothing was, at most.
	scrubLook = time.Second
	scrubRest = model.Instant(60 * time.Second)
	// scrubPlan is how many segments are chosen together. To choose, all of the
	// directory are looked at and sorted.
	scrubPlan = 1024
	// scrubOpening is what a segment costs beside its bytes, as bytes: its files are
	// found and opened, and what stands beside it is read. Many small ones would be
	// read without a pause otherwise.
	scrubOpening = 64 << 10
	// scrubSave is how often it is written down what was verified.
	scrubSave = model.Instant(5 * time.Minute)
	// scrubBuffer is what is read at once.
	scrubBuffer = 256 << 10
)

// scrubber verifies the sealed segments of one log directory, one at a time and no
// faster than it is allowed to. Its goroutine exists only while there is something
// to verify.
type scrubber struct {
	m      *ReplicaManager
	d      *Dir
	cfg    config.Scrub
	counts *scrubCounts

	mu     sync.Mutex
	bucket scrub.Bucket
	book   scrub.Book
	loaded bool // the book was read
	plan   []scrub.Segment
	// active is what is being verified, nil if nothing.
	active  *scrubbing
	rest    model.Instant // until when nobody looks
	saved   model.Instant
	stopped bool
	buf     []byte // whoever has active uses it
}

func newScrubber(m *ReplicaManager, d *Dir) *scrubber {
	cfg := m.deps.Broker.Own.Scrub
	return &scrubber{m: m, d: d, cfg: cfg, counts: &m.scrubs, bucket: scrub.Bucket{Rate: float64(cfg.BytesPerSecond)}}
}

// look begins to verify what is due, and writes down what was. It runs on a spare.
func (s *scrubber) look() {
	if !s.d.Online() {
		return
	}
	s.load()
	now := s.m.deps.RT.Now()
	s.mu.Lock()
	if s.saved == 0 {
		s.saved = now.Mono
	}
	save := now.Mono-s.saved >= scrubSave
	s.mu.Unlock()
	if save {
		s.save()
	}
	sc := s.next()
	if sc == nil {
		return
	}
	if s.m.deps.Group == nil {
		sc.ask()
		return
	}
	s.m.deps.Group.Go("scrubber "+s.d.path, func() {
		for ; sc != nil; sc = s.next() {
			sc.work()
		}
	})
}

// next chooses a segment and notes that it is being verified; nil if none is due, or
// one is being verified.
func (s *scrubber) next() *scrubbing {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.m.deps.RT.Now()
	for s.active == nil && !s.stopped {
		if len(s.plan) == 0 && !s.plans(now) {
			return nil
		}
		seg := s.plan[0]
		s.plan = s.plan[1:]
		h := s.m.GetByID(seg.Replica)
		if h == nil || h.dir != s.d || h.State().View == nil {
			continue
		}
		s.active = newScrubbing(s, h, seg)
		return s.active
	}
	return nil
}

// plans fills the plan, and reports whether there is anything in it.
func (s *scrubber) plans(now model.Now) bool {
	if now.Mono < s.rest {
		return false
	}
	due := s.book.Plan(now.Wall, s.cfg.Period.Milliseconds(), s.sealed, scrubPlan)
	s.counts.oldest(s.d, due.OldestMs)
	s.plan = due.Next
	if len(s.plan) == 0 {
		s.rest = now.Mono + min(scrubRest, model.Instant(s.cfg.Period)/10)
	}
	return len(s.plan) > 0
}

// sealed yields the sealed segments of the directory.
func (s *scrubber) sealed(yield func(scrub.Segment) bool) {
	for _, h := range s.m.All() {
		v := h.State().View
		if h.dir != s.d || v == nil {
			continue
		}
		all := v.Segments()
		for _, seg := range all[:len(all)-1] {
			if seg.Next <= v.Start() {
				continue // it is deleted, and nobody is given any of it
			}
			if !yield(scrub.Segment{Key: scrub.Key{Replica: h.id, Base: seg.Base}, Size: seg.Size}) {
				return
			}
		}
	}
}

// load reads what an earlier process has noted. A file that can't be read is as good
// as none.
func (s *scrubber) load() {
	s.mu.Lock()
	loaded := s.loaded
	s.loaded = true
	s.mu.Unlock()
	if loaded {
		return
	}
	text, err := vfs.ReadFile(s.d.fs, s.d.file(scrubFile))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.book.Unmarshal(text, s.m.deps.RT.Now().Wall); err != nil {
		s.m.logger.Warn("it is not known when segments were verified", zap.String("file", s.d.file(scrubFile)), zap.Error(err))
	}
}

// save writes down what was verified. A failure costs no more than that some of it
// is verified once more.
func (s *scrubber) save() {
	s.mu.Lock()
	s.saved = s.m.deps.RT.Now().Mono
	if !s.book.Changed() || !s.d.Online() {
		s.mu.Unlock()
		return
	}
	text := s.book.Marshal()
	s.mu.Unlock()
	if err := vfs.WriteFileAtomic(s.d.fs, s.d.file(scrubFile), text); err != nil {
		s.m.logger.Warn("it could not be noted which segments were verified", zap.String("dir", s.d.path), zap.Error(err))
	}
}

// take notes bytes that were read and returns until when to pause, 0 for not at all.
func (s *scrubber) take(n int) model.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket.Take(s.m.deps.RT.Now().Mono, n)
}

// done takes the end of a verification into account.
func (s *scrubber) done(sc *scrubbing) {
	s.judge(sc)
	now := s.m.deps.RT.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = nil
	if sc.err == nil {
		s.book.Verified(sc.seg, now.Wall)
	} else {
		s.book.Tried(sc.seg, now.Wall)
	}
}

// judge decides what becomes of what was found. Files beside a segment that are wrong
// were made anew in memory, and are stored. Everything else takes the way of damage
// that a reader comes upon: the segment is read once more, beside the loop, and if
// that finds the same the replica is quarantined, or its epochs are mended.
func (s *scrubber) judge(sc *scrubbing) {
	now := sc.h.State().View
	if sc.err == nil && (now == nil || !sc.view.Holds(now, sc.seg.Base)) {
		sc.err = log.ErrStaleView
	}
	c := s.counts
	var damage *log.CorruptionError
	var wrong *log.WrongEpochs
	switch err := sc.err; {
	case err == nil:
		c.segments.Add(1)
		c.rebuilt.Add(int64(len(sc.found.Wrong)))
		if sc.found.Unvouched {
			c.derived.Add(1)
		}
		if len(sc.found.Wrong) > 0 {
			s.m.logger.Warn("files beside a segment were wrong, and are made anew", name(sc.h),
				zap.Int64("segment", int64(sc.seg.Base)), zap.Strings("files", sc.found.Wrong))
		}
		if len(sc.found.Wrong) > 0 || sc.found.Unvouched {
			sc.h.box.Post(mendMsg{})
		}
		return
	case errors.Is(err, errLeft), errors.Is(err, log.ErrStaleView), now == nil:
		return
	case errors.As(err, &wrong):
		s.m.logger.Warn("a scrub has found leader epochs that contradict what was written", name(sc.h), zap.Error(err))
	case errors.As(err, &damage) && damage.Offset < sc.view.Start():
		// Nobody is given that, and what lies behind it in the segment is sound, if it
		// could be found (see log's exam).
		s.m.logger.Info("what was deleted of a segment is damaged", name(sc.h), zap.Error(err))
		sc.err = nil
		return
	case errors.As(err, &damage):
		c.damaged.Add(1)
		s.m.logger.Error("a scrub has found damage", name(sc.h), zap.Error(err))
	default:
		c.failed.Add(1)
		s.m.logger.Error("a segment can't be read", name(sc.h), zap.Int64("segment", int64(sc.seg.Base)), zap.Error(err))
	}
	if !mutant.On("host-scrub-unheard") {
		sc.h.box.Post(&verifyMsg{at: max(sc.seg.Base, sc.view.Start()), scrubbed: true})
	}
}

// leave ends the verification of a partition whose log is taken away. Nothing waits
// for that: it only reads, through a handle of its own.
func (s *scrubber) leave(h *Hosted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil && s.active.h == h {
		s.active.abort()
	}
}

func (m *ReplicaManager) leaveScrub(h *Hosted) {
	for _, s := range m.scrubbers {
		s.leave(h)
	}
}

// stop ends all that is being verified, and writes down what was.
func (s *scrubber) stop() {
	s.mu.Lock()
	s.stopped = true
	if s.active != nil {
		s.active.abort()
	}
	s.mu.Unlock()
	s.save()
}
