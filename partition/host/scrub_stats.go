package host

import (
	"sync"
	"sync/atomic"
	"time"
)

// scrubCounts are the numbers behind ScrubStats.
type scrubCounts struct {
	bytes, segments, damaged, rebuilt, derived, failed atomic.Int64

	mu  sync.Mutex
	age map[string]int64 // of the oldest verification in each directory, ms
}

func (c *scrubCounts) oldest(d *Dir, ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.age == nil {
		c.age = make(map[string]int64)
	}
	c.age[d.path] = ms
}

// ScrubStats is what the verification of sealed segments did since the process
// started.
type ScrubStats struct {
	// Bytes were read, Segments found in order.
	Bytes, Segments int64
	// Damaged are segments that were not, also those that a second reading found
	// sound; Failures those that could not be read.
	Damaged, Failures int64
	// Rebuilt are files beside segments that were wrong and made anew, Derived the
	// segments without a digest that have got one.
	Rebuilt, Derived int64
	// Oldest is, for each log directory, how long ago that segment was verified of
	// which it is longest, at the last look.
	Oldest map[string]time.Duration
}

// ScrubStats reads the counters; any goroutine.
func (m *ReplicaManager) ScrubStats() ScrubStats {
	c := &m.scrubs
	s := ScrubStats{
		Bytes: c.bytes.Load(), Segments: c.segments.Load(), Damaged: c.damaged.Load(), Failures: c.failed.Load(),
		Rebuilt: c.rebuilt.Load(), Derived: c.derived.Load(), Oldest: make(map[string]time.Duration),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range m.deps.Dirs.All() {
		s.Oldest[d.path] = time.Duration(c.age[d.path]) * time.Millisecond
	}
	return s
}
