package host

import (
	"sync/atomic"
	"time"
)

// cleanerCounts are the numbers behind CleanerStats.
type cleanerCounts struct {
	runs, failed, read, written, dropped atomic.Int64
	utilization, lastTook                atomic.Int64
}

// CleanerStats is what compaction did since the process started, and what it
// found last.
type CleanerStats struct {
	// Runs are cleanings that were completed, Failures those that made their
	// partition uncleanable.
	Runs, Failures int64
	// BytesRead counts both passes, BytesWritten what was left.
	BytesRead, BytesWritten int64
	// RecordsDropped are those that were left out.
	RecordsDropped int64
	// Running is how many partitions are being cleaned.
	Running int
	// MaxDirtyPercent is the dirty part of the dirtiest log at the last look.
	MaxDirtyPercent int64
	// SinceLook is how long ago that was, 0 if there was none.
	SinceLook time.Duration
	// BufferPercent is how full the memory for keys was in the last run, and Took
	// how long that run took.
	BufferPercent int64
	Took          time.Duration
	// Uncleanable counts, for each log directory, the partitions that can't be
	// cleaned, and their bytes.
	Uncleanable map[string]Uncleanable
}

// Uncleanable is what can't be cleaned in one directory.
type Uncleanable struct {
	Partitions int
	Bytes      int64
}

// CleanerStats reads the counters; any goroutine.
func (m *ReplicaManager) CleanerStats() CleanerStats {
	c := &m.cleaner
	s := CleanerStats{
		Runs: c.counts.runs.Load(), Failures: c.counts.failed.Load(),
		BytesRead: c.counts.read.Load(), BytesWritten: c.counts.written.Load(), RecordsDropped: c.counts.dropped.Load(),
		BufferPercent: c.counts.utilization.Load(), Took: time.Duration(c.counts.lastTook.Load()),
		Uncleanable: make(map[string]Uncleanable),
	}
	for _, d := range m.deps.Dirs.All() {
		s.Uncleanable[d.path] = Uncleanable{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Running, s.MaxDirtyPercent = len(c.active), int64(100*c.maxDirty)
	if c.lastLook > 0 {
		s.SinceLook = time.Duration(m.deps.RT.Now().Mono - c.lastLook)
	}
	for h := range c.bad { // order-free: sums
		u := s.Uncleanable[h.Dir()]
		u.Partitions++
		if v := h.State().View; v != nil {
			u.Bytes += v.Size()
		}
		s.Uncleanable[h.Dir()] = u
	}
	return s
}
