package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
)

// Go's collector lets as much garbage stand as there is live memory (GOGC=100).
// That is cheap where much is allocated; a node that rests, or has just made ten
// thousand partitions, keeps twice what it needs for no gain. What collecting costs
// is in proportion to what is allocated, and in inverse proportion to the
// percentage, whatever the size of the heap: about two thirds of a millisecond of CPU
// for each MiB at 100, as measured while partitions are made. So the percentage
// follows the rate of allocation.
const (
	headroomLeast = 25
	headroomMost  = 100
	// headroomCalm is the rate in bytes a second below which the least will do: it
	// costs about a hundredth of a core then. From twice that on it is the most.
	headroomCalm = 4 << 20
	// headroomEvery is how often that is looked at.
	headroomEvery = time.Second

	// What a burst has left free is given back to the system at once when it is over,
	// if it is at least that many bytes and a third of what is live: the runtime's
	// own scavenger takes minutes for that where little is collected. It costs a
	// collection, so not more often than every half minute.
	headroomFree    = 8 << 20
	headroomPatient = 30 * time.Second
)

// headroom decides the collector's percentage. Owned by one goroutine.
type headroom struct {
	percent int
	// rate is what was allocated in the last seconds, in bytes a second; older
	// seconds count less.
	rate float64
	// sinceRelease is how long ago memory was given back.
	sinceRelease time.Duration
}

// next takes how long the last period was and how many bytes were allocated in it,
// and returns the percentage from now on.
func (h *headroom) next(period time.Duration, allocated uint64) int {
	h.sinceRelease += period
	h.rate += (float64(allocated)/max(period.Seconds(), 1e-3) - h.rate) / 5
	switch {
	case h.rate > 2*headroomCalm:
		h.percent = headroomMost
	case h.rate < headroomCalm:
		h.percent = headroomLeast
	}
	return h.percent
}

// release says whether memory is to be given back: free bytes the heap has no use
// for, live ones it had after the last collection.
func (h *headroom) release(free, live uint64) bool {
	if h.percent > headroomLeast || free < max(headroomFree, live/3) || h.sinceRelease < headroomPatient {
		return false
	}
	h.sinceRelease = 0
	return true
}

// keepHeadroom sets the collector's percentage until ctx ends, unless whoever runs
// the process has set GOGC.
func keepHeadroom(ctx context.Context, g *lifecycle.Group) {
	if os.Getenv("GOGC") != "" {
		return
	}
	g.Go("collector's headroom", func() {
		h := headroom{percent: headroomMost, sinceRelease: headroomPatient}
		m := newHeapMetrics()
		m.read()
		before, at := m.allocated(), time.Now()
		tick := time.NewTicker(headroomEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				m.read()
				was, all := h.percent, m.allocated()
				if h.next(now.Sub(at), all-before) != was {
					debug.SetGCPercent(h.percent)
				}
				if h.release(m.free(), m.live()) {
					debug.FreeOSMemory()
				}
				before, at = all, now
			}
		}
	})
}

// heapMetrics are what is read of the runtime.
type heapMetrics []metrics.Sample

func newHeapMetrics() heapMetrics {
	return heapMetrics{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
}

func (m heapMetrics) read() { metrics.Read(m) }

// allocated is what was allocated so far, in bytes.
func (m heapMetrics) allocated() uint64 { return m[0].Value.Uint64() }

// free is what the heap has free and has not given back, in bytes.
func (m heapMetrics) free() uint64 { return m[1].Value.Uint64() }

// live is what the last collection has found in use, in bytes.
func (m heapMetrics) live() uint64 { return m[2].Value.Uint64() }
