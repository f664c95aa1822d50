package realtime

import (
	"sync"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

const (
	// sparesMax bounds the goroutines that run spares. Most hold one for
	// microseconds; a write that blocks in the kernel holds one for long.
	sparesMax = 128

	// sparesIdle is how many spare goroutines wait for work instead of ending.
	sparesIdle = 4
)

// Runtime implements loop.Runtime. All methods may be called from any
// goroutine.
type Runtime struct {
	group *lifecycle.Group
	start time.Time // with its monotonic reading

	mu      sync.Mutex
	stopped bool

	// spares are deliveries that no goroutine has taken, first in first out;
	// workers counts the goroutines, idle those of them that wait on work.
	spares  []loop.Delivery
	workers int
	idle    int
	work    *sync.Cond

	timers timers
}

var _ loop.Runtime = (*Runtime)(nil)

// New returns a Runtime that starts its goroutines in group. It must be
// stopped.
func New(group *lifecycle.Group) *Runtime {
	r := &Runtime{group: group, start: time.Now()}
	r.work = sync.NewCond(&r.mu)
	r.timers.init()
	group.Go("loop timers", r.runTimers)
	return r
}

// Now reads both clocks at once.
func (r *Runtime) Now() model.Now {
	t := time.Now()
	return model.Now{
		Mono: model.Instant(t.Sub(r.start)),
		Wall: model.Timestamp(t.UnixMilli()),
	}
}

// Spare runs d on one of the spare goroutines. After Stop it does nothing.
func (r *Runtime) Spare(d loop.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.spares = append(r.spares, d)
	if r.idle > 0 {
		r.work.Signal()
		return
	}
	if r.workers < sparesMax {
		r.workers++
		r.group.Go("loop spare", r.runSpares)
	}
}

// Stop ends the timer and spare goroutines. What they run now is finished;
// spares that were not begun are dropped, deadlines no longer fire. It does
// not wait: the Group does.
func (r *Runtime) Stop() {
	r.mu.Lock()
	r.stopped = true
	r.spares = nil
	r.work.Broadcast()
	r.mu.Unlock()
	r.timers.stop()
}

// runSpares is the life of one spare goroutine.
func (r *Runtime) runSpares() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.workers-- }()
	for {
		for len(r.spares) == 0 {
			if r.stopped || r.idle >= sparesIdle {
				return
			}
			r.idle++
			r.work.Wait()
			r.idle--
		}
		d := r.spares[0]
		r.spares[0] = nil
		r.spares = r.spares[1:]
		r.mu.Unlock()
		d.Deliver(r.Now())
		r.mu.Lock()
	}
}
