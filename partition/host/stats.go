package host

import (
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// Stats counts what happened to the partitions of this broker since the process
// started, partitions that are gone included.
type Stats struct {
	// AppendsRefused are appends that a full disk refused; nothing was written.
	AppendsRefused int64
	// Quarantined are partitions taken offline for damage or a failing disk, with
	// their files as they are.
	Quarantined int64
	// Stalls are writes that did not come back in time.
	Stalls int64
	// Led and Followed count the turns of a role.
	Led, Followed int64
	// CutOffs are the times that a leader here stopped taking writes because it
	// heard neither a controller nor its followers.
	CutOffs int64
	// ISRExpansions and ISRShrinks were agreed on by the cluster, ISRRefusals
	// weren't; all three are counted by the leader.
	ISRExpansions, ISRShrinks, ISRRefusals int64
	// Truncations counts the cuts of a log's end, at a start or to follow a
	// leader; the others what they took. BelowHighWatermark are those that took
	// what had been exposed.
	Truncations, TruncatedBytes, TruncatedRecords, BelowHighWatermark int64
	// DroppedSegments and DroppedBytes lay below a log's start and were removed:
	// retention's work, or DeleteRecords'.
	DroppedSegments, DroppedBytes int64
	// RetentionHeld: the wall clock has jumped, and nothing is removed for its age
	// until that is explained or a day has passed.
	RetentionHeld bool
}

// Stats reads the counters; any goroutine.
func (m *ReplicaManager) Stats() Stats {
	c := &m.counters
	return Stats{
		AppendsRefused: c.refused.Load(), Quarantined: c.quarantined.Load(), Stalls: c.stalls.Load(),
		Led: c.led.Load(), Followed: c.followed.Load(), CutOffs: c.cutOffs.Load(),
		ISRExpansions: c.expansions.Load(), ISRShrinks: c.shrinks.Load(), ISRRefusals: c.refusals.Load(),
		Truncations: c.cuts.Load(), TruncatedBytes: c.cutBytes.Load(), TruncatedRecords: c.cutRecords.Load(),
		BelowHighWatermark: c.belowHW.Load(),
		DroppedSegments:    c.dropped.Load(), DroppedBytes: c.droppedBytes.Load(), RetentionHeld: m.wall.held(),
	}
}

// Applied returns the metadata offset of the newest image in force here.
func (m *ReplicaManager) Applied() model.Offset { return model.Offset(m.imageAt.Load()) }

// LastHeard returns when a controller whose term a quorum had confirmed was heard
// last, 0 if never.
func (m *ReplicaManager) LastHeard() model.Instant { return model.Instant(m.heardAt.Load()) }

// Waiting returns how many produces have no answer yet.
func (h *Hosted) Waiting() int {
	h.unanswered.mu.Lock()
	defer h.unanswered.mu.Unlock()
	return h.unanswered.n
}

// counters are the numbers behind Stats. They count what is rare.
type counters struct {
	refused, quarantined, stalls        atomic.Int64
	led, followed, cutOffs              atomic.Int64
	expansions, shrinks, refusals       atomic.Int64
	cuts, cutBytes, cutRecords, belowHW atomic.Int64
	dropped, droppedBytes               atomic.Int64
}

// cut counts bytes that left a log.
func (c *counters) cut(r *log.Removal) {
	if r.Empty() {
		return
	}
	c.cuts.Add(1)
	c.cutBytes.Add(r.Bytes)
	c.cutRecords.Add(r.Records)
}

// count counts one of the core's events. had is the in-sync set before it.
func (c *counters) count(ev *partition.Event, had []model.BrokerID) {
	switch ev.Kind {
	case partition.EventLeader:
		c.led.Add(1)
	case partition.EventFollower:
		c.followed.Add(1)
	case partition.EventCutOff:
		c.cutOffs.Add(1)
	case partition.EventISRCommitted:
		if len(ev.ISR) < len(had) {
			c.shrinks.Add(1)
		} else {
			c.expansions.Add(1)
		}
	case partition.EventOffline:
		if ev.Code == partition.CodeStorageError {
			c.quarantined.Add(1)
		}
	case partition.EventISRRefused:
		c.refusals.Add(1)
	case partition.EventBelowHW:
		c.belowHW.Add(1)
	}
}

// inSync returns the committed in-sync set as it was last published.
func (h *Hosted) inSync() []model.BrokerID {
	if s := h.state.Load(); s != nil && s.Standing != nil {
		return s.ISR
	}
	return nil
}

// Traffic is what went in and out of one partition since it was opened here.
type Traffic struct {
	// Produces counts appends for clients, RecordsIn and BytesIn what was in them.
	Produces, RecordsIn, BytesIn int64
	// ReplicaBytesIn was appended by following.
	ReplicaBytesIn int64
	// BytesOut went to consumers, ReplicaBytesOut to followers.
	BytesOut, ReplicaBytesOut int64
}

// Add puts what another partition saw on top of t.
func (t *Traffic) Add(o Traffic) {
	t.Produces += o.Produces
	t.RecordsIn += o.RecordsIn
	t.BytesIn += o.BytesIn
	t.ReplicaBytesIn += o.ReplicaBytesIn
	t.BytesOut += o.BytesOut
	t.ReplicaBytesOut += o.ReplicaBytesOut
}

// Traffic reads the counters; any goroutine.
func (h *Hosted) Traffic() Traffic {
	t := &h.traffic
	return Traffic{
		Produces: t.produces.Load(), RecordsIn: t.recordsIn.Load(), BytesIn: t.bytesIn.Load(),
		ReplicaBytesIn: t.replicaBytesIn.Load(), BytesOut: t.bytesOut.Load(), ReplicaBytesOut: t.replicaBytesOut.Load(),
	}
}

// traffic is the numbers behind Traffic. What comes in is counted in the loop, so
// those additions meet nobody.
type traffic struct {
	produces, recordsIn, bytesIn, replicaBytesIn atomic.Int64
	bytesOut, replicaBytesOut                    atomic.Int64
}

// appended counts an append.
func (h *Hosted) appended(info *log.AppendInfo) {
	if h.core.Mark().Role != partition.Leader {
		h.traffic.replicaBytesIn.Add(int64(info.Bytes))
		return
	}
	h.traffic.produces.Add(1)
	h.traffic.recordsIn.Add(int64(info.Last.Sub(info.First)) + 1)
	h.traffic.bytesIn.Add(int64(info.Bytes))
}

// Sent counts record bytes that are on their way to a consumer, or to a follower.
func (h *Hosted) Sent(bytes int, follower bool) {
	if follower {
		h.traffic.replicaBytesOut.Add(int64(bytes))
		return
	}
	h.traffic.bytesOut.Add(int64(bytes))
}

// DirStats is what the disk of one log directory does.
type DirStats struct {
	Path   string
	Online bool
	// Waiting is the flushes that are queued, -1 if that is not known.
	Waiting int
	// Flushes is how long they took, those of the partitions' logs alone.
	Flushes metrics.Reading
	// UsableBytes and TotalBytes are the file system's, -1 if it doesn't say.
	UsableBytes, TotalBytes int64
}

// DirStats reads the counters of every log directory, and asks their file systems
// for their room; any goroutine but a loop's.
func (m *ReplicaManager) DirStats() []DirStats {
	var all []DirStats
	for _, d := range m.deps.Dirs.All() {
		s := DirStats{Path: d.path, Online: d.Online(), Waiting: -1, Flushes: d.flushes.Read(), UsableBytes: -1, TotalBytes: -1}
		if usable, total, err := d.fs.Free(d.path); err == nil && s.Online {
			s.UsableBytes, s.TotalBytes = usable, total
		}
		if q, ok := d.flusher.(interface{ Len() int }); ok {
			s.Waiting = q.Len()
		}
		all = append(all, s)
	}
	return all
}

// timed runs the disk's part of a flush and counts how long it took.
func (f *flush) timed() error {
	clock := f.h.m.deps.RT
	from := clock.Now().Mono
	err := f.job.Run()
	f.h.dir.flushes.Observe(time.Duration(clock.Now().Mono - from))
	return err
}
