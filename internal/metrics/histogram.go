package metrics

import (
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// bounds are the upper ends of a histogram's buckets, but for the last, which
// has none: from what an answer out of memory takes to what a client waits for.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Histogram counts durations in fixed buckets. Its zero value is ready; all
// methods may be called from any goroutine, and none allocates but Read.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64 // ns
}

// Observe counts one duration: two atomic additions. A negative one, which only
// a clock that was read on two sides of an adjustment gives, counts as none.
func (h *Histogram) Observe(d time.Duration) { h.ObserveMany(d, 1) }

// ObserveMany counts n events that took d each.
func (h *Histogram) ObserveMany(d time.Duration, n int) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(uint64(n))
	h.sum.Add(int64(d) * int64(n))
}

// Reading is what a Histogram held at about one moment.
type Reading struct {
	Count   uint64
	Sum     time.Duration
	buckets [len(bounds) + 1]uint64
}

// Read returns the counts. Events that are counted meanwhile may be in the sum
// and not in the count, or the other way round.
func (h *Histogram) Read() Reading {
	var r Reading
	for i := range h.buckets {
		r.buckets[i] = h.buckets[i].Load()
		r.Count += r.buckets[i]
	}
	r.Sum = time.Duration(h.sum.Load())
	return r
}

// Add puts what another reading counted on top of r.
func (r *Reading) Add(o Reading) {
	r.Count += o.Count
	r.Sum += o.Sum
	for i := range o.buckets {
		r.buckets[i] += o.buckets[i]
	}
}

// cumulative returns the buckets as Prometheus wants them: by their upper ends in
// seconds, each with all below it.
func (r *Reading) cumulative() []*dto.Bucket {
	buckets := make([]*dto.Bucket, len(bounds))
	var below uint64
	for i, b := range bounds {
		below += r.buckets[i]
		count, end := below, b.Seconds()
		buckets[i] = &dto.Bucket{CumulativeCount: &count, UpperBound: &end}
	}
	return buckets
}
