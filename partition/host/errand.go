package host

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// What an image asks of the disks is done by errands, one a directory at a time, all
// directories at once. Who applies images waits for them, but not for a disk that
// does not answer for tidemark.io.stall.timeout.ms: that directory falls behind, and
// images take effect without it. When its errand comes back it catches up with the
// image of then; what it missed in between is in that.

// errand is the work of one directory's disk.
type errand struct {
	dir *Dir
	// done: run has returned. late: nobody waits for it any more.
	done, late bool
}

// errands are those of all directories.
type errands struct {
	mu   sync.Mutex
	cond *sync.Cond
}

func (s *errands) init() { s.cond = sync.NewCond(&s.mu) }

// onDisks runs an errand in each directory of dirs that is not behind, and waits.
// run must keep to what belongs to its directory. It returns the directories whose
// errand is done. Only who applies images calls it.
func (m *ReplicaManager) onDisks(dirs []*Dir, run func(d *Dir)) (done []*Dir) {
	var sent []*errand
	for _, d := range dirs {
		switch {
		case d.behind:
		case m.deps.Group == nil:
			run(d)
			done = append(done, d)
		default:
			e := &errand{dir: d}
			sent = append(sent, e)
			m.deps.Group.Go("log directory "+d.path, func() {
				run(d)
				m.returned(e)
			})
		}
	}
	m.await(sent)
	for _, e := range sent {
		if !e.late {
			done = append(done, e.dir)
			continue
		}
		e.dir.behind = true
		e.dir.slow.set(true)
		m.logger.Error("the disk of a log directory does not answer; metadata takes effect without it", zap.String("dir", e.dir.path))
	}
	return done
}

// returned notes that an errand is done. One that was given up makes its directory
// catch up.
func (m *ReplicaManager) returned(e *errand) {
	s := &m.errands
	s.mu.Lock()
	e.done = true
	late := e.late
	s.cond.Broadcast()
	s.mu.Unlock()
	if late && m.deps.Serial != nil {
		m.deps.Serial(func() { m.catchUp(e.dir) })
	}
}

// await waits until all are done, and gives up those that take too long.
func (m *ReplicaManager) await(sent []*errand) {
	if len(sent) == 0 {
		return
	}
	s := &m.errands
	patience := &patience{errands: s}
	m.deps.RT.SetDeadline(patience, m.deps.RT.Now().Mono+model.Instant(m.deps.Broker.Own.IOStallTimeout))
	s.mu.Lock()
	for _, e := range sent {
		for !e.done && !patience.over {
			s.cond.Wait()
		}
		e.late = !e.done
	}
	s.mu.Unlock()
	m.deps.RT.SetDeadline(patience, model.Never)
}

// patience ends a wait.
type patience struct {
	errands *errands
	over    bool
}

// TickAt implements loop.Ticker.
func (p *patience) TickAt(model.Now) {
	p.errands.mu.Lock()
	defer p.errands.mu.Unlock()
	p.over = true
	p.errands.cond.Broadcast()
}

// leaving is a partition that an image has taken from this broker while its
// directory was behind.
type leaving struct {
	h     *Hosted
	stray bool
}

// catchUp brings a directory whose disk answers again up to the newest image, in
// line with Apply.
func (m *ReplicaManager) catchUp(d *Dir) {
	m.logger.Warn("the disk of a log directory answers again", zap.String("dir", d.path))
	d.behind = false
	d.slow.set(false)
	if mk := d.making; mk != nil {
		d.making = nil
		m.settle(mk)
	}
	left := d.leaving
	d.leaving = nil
	var gone, stray []*Hosted
	for _, l := range left {
		if l.stray {
			stray = append(stray, l.h)
		} else {
			gone = append(gone, l.h)
		}
	}
	m.remove(gone, stray)
	m.deps.Dirs.noteAppliedIn(m, m.image.At().Offset, d)
	fed := m.fedUnder == model.BrokerEpoch(m.registeredAt.Load()) && m.fedUnder != model.NoBrokerEpoch
	var parts []*Hosted
	for _, h := range m.All() {
		if h.dir == d {
			parts = append(parts, h)
		}
	}
	m.onDisks([]*Dir{d}, func(*Dir) {
		for _, h := range parts {
			h.box.Enter(&configMsg{topic: m.deps.Topic(m.image, h.tp.Topic)})
			if fed {
				m.register(m.image, h)
			}
		}
	})
}

// tell has each partition do its part in a loop's turn, where a write may hang: those
// of one directory after each other, away from those of others.
func (m *ReplicaManager) tell(parts []*Hosted, do func(h *Hosted)) {
	var dirs []*Dir
	of := make(map[*Dir][]*Hosted)
	for _, h := range parts {
		if h.dir == nil {
			do(h)
			continue
		}
		if of[h.dir] == nil {
			dirs = append(dirs, h.dir)
		}
		of[h.dir] = append(of[h.dir], h)
	}
	m.onDisks(dirs, func(d *Dir) {
		for _, h := range of[d] {
			do(h)
		}
	})
}

// slowLane takes the work of a hanging directory's partitions away from the node's
// spares, of which there are only so many: one goroutine does it, and hangs.
type slowLane struct {
	// used is behind || hangs.
	used atomic.Bool

	mu sync.Mutex
	// behind: the directory is. hangs: a partition's write or flush does.
	behind, hangs bool
	queue         []loop.Delivery // one a partition at most
	busy          bool
}

// set says whether the directory is behind.
func (s *slowLane) set(behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = behind
	s.used.Store(s.behind || s.hangs)
}

// ease says whether a write or flush hangs.
func (s *slowLane) ease(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hangs
	s.used.Store(s.behind || s.hangs)
}

// take queues a delivery if the lane is in use; start says that somebody must run it.
func (s *slowLane) take(d loop.Delivery) (taken, start bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used.Load() && !s.busy {
		return false, false
	}
	s.queue = append(s.queue, d)
	start = !s.busy
	s.busy = true
	return true, start
}

// run does what is queued until nothing is.
func (s *slowLane) run(now func() model.Now) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		d := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		d.Deliver(now())
		s.mu.Lock()
	}
	s.queue, s.busy = nil, false
}

// hostedRuntime is the runtime of one partition's loop.
type hostedRuntime struct {
	loop.Runtime
	h *Hosted
}

// Spare runs d, on the slow lane of a directory that hangs.
func (r hostedRuntime) Spare(d loop.Delivery) {
	if dir := r.h.dir; dir != nil && r.h.m.deps.Group != nil {
		if taken, start := dir.slow.take(d); taken {
			if start {
				r.h.m.deps.Group.Go("slow "+dir.path, func() { dir.slow.run(r.Now) })
			}
			return
		}
	}
	r.Runtime.Spare(d)
}
