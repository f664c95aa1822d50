package host

import (
	"slices"
	"sync"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// fakeRuntime is a loop.Runtime whose time stands still until a test moves it,
// and whose spares run when a test says so, in order.
type fakeRuntime struct {
	mu        sync.Mutex
	now       model.Now
	spares    []loop.Delivery
	deadlines []fakeDeadline
}

type fakeDeadline struct {
	t  loop.Ticker
	at model.Instant
}

func newFakeRuntime() *fakeRuntime {
	return &fakeRuntime{now: model.Now{Mono: 1, Wall: 1_700_000_000_000}}
}

func (r *fakeRuntime) Now() model.Now {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *fakeRuntime) Spare(d loop.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spares = append(r.spares, d)
}

func (r *fakeRuntime) SetDeadline(t loop.Ticker, at model.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadlines = slices.DeleteFunc(r.deadlines, func(d fakeDeadline) bool { return d.t == t })
	if at != model.Never {
		r.deadlines = append(r.deadlines, fakeDeadline{t, at})
	}
}

// idle runs spares until none is left.
func (r *fakeRuntime) idle() {
	for {
		r.mu.Lock()
		if len(r.spares) == 0 {
			r.mu.Unlock()
			return
		}
		d := r.spares[0]
		r.spares = r.spares[1:]
		now := r.now
		r.mu.Unlock()
		d.Deliver(now)
	}
}

// advance moves both clocks, firing deadlines in order.
func (r *fakeRuntime) advance(msec int64) {
	r.idle()
	until := r.Now().Mono + model.Instant(msec)*1_000_000
	for {
		r.mu.Lock()
		best := -1
		for i, d := range r.deadlines {
			if d.at <= until && (best < 0 || d.at < r.deadlines[best].at) {
				best = i
			}
		}
		if best < 0 {
			r.now.Wall += model.Timestamp((until - r.now.Mono) / 1_000_000)
			r.now.Mono = until
			r.mu.Unlock()
			r.idle()
			return
		}
		d := r.deadlines[best]
		r.deadlines = slices.Delete(r.deadlines, best, best+1)
		if d.at > r.now.Mono {
			r.now.Wall += model.Timestamp((d.at - r.now.Mono) / 1_000_000)
			r.now.Mono = d.at
		}
		now := r.now
		r.mu.Unlock()
		d.t.TickAt(now)
		r.idle()
	}
}

// fakeFlusher runs jobs when a test says so.
type fakeFlusher struct {
	jobs []DiskJob
	ran  int // jobs that are done
}

func (f *fakeFlusher) Submit(j DiskJob, _ bool) { f.jobs = append(f.jobs, j) }

func (f *fakeFlusher) Stop() { f.run() }

// run does all that is queued.
func (f *fakeFlusher) run() int {
	n := len(f.jobs)
	for len(f.jobs) > 0 {
		j := f.jobs[0]
		f.jobs = f.jobs[1:]
		j.Run()
		j.Done()
		f.ran++
	}
	return n
}
