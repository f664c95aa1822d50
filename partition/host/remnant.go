package host

import (
	"path/filepath"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/partition"
)

// A partition whose log is damaged is offline: it takes no writes, follows nobody and
// lets nobody follow it. Where another replica is whole, that one leads, and this one
// is filled anew. Where none is, the metadata goes on naming this replica as the
// leader, and then it serves what lies below the damage to consumers. At the damage
// and beyond they get KAFKA_STORAGE_ERROR: an empty answer would have them wait for
// ever, and OFFSET_OUT_OF_RANGE would have them go on elsewhere, over what they have
// not read or have read already. Source: rule 2.8 of the project.

// Remnant is what is served of a damaged partition. It is immutable.
type Remnant struct {
	// Start is the first offset that can be read.
	Start model.Offset
	// End is the first one that can't, Stable that of consumers of committed
	// transactions.
	End, Stable model.Offset
	// LogEnd is where the log ended, as far as anybody can tell.
	LogEnd model.Offset
	// Damage is why.
	Damage *log.CorruptionError

	view   *log.View
	epochs *epoch.Cache // frozen; what begins behind End need not be so
}

// serves decides whether a partition serves what lies below its damage, and what that
// is: nil if it doesn't. It is the one place that does. It belongs to the loop.
func (h *Hosted) serves() *Remnant {
	r, damage := h.remnant.Load(), h.damage.Load()
	if r == nil || damage == nil || h.plog != nil || !h.alone.Load() ||
		h.core.Mark().Role != partition.Offline || h.core.OfflineCode() != partition.CodeStorageError {
		return nil
	}
	end := r.View.End()
	// One that has to have company for a record to be committed shows what it knows to
	// be committed; alone it learns no more.
	if min(int(h.topic.MinInsyncReplicas), len(h.replicas)) > 1 {
		known := model.Offset(0)
		if s := h.lastOnline.Load(); s != nil {
			known = s.HighWatermark
		}
		end = max(r.View.Start(), min(end, known))
	}
	return &Remnant{
		Start: r.View.Start(), End: end, Stable: min(end, r.Stable), LogEnd: h.endBehind(r),
		Damage: r.Damage, view: r.View, epochs: r.Epochs(),
	}
}

// endBehind is where the log ended, as far as its files and what was known of it tell.
func (h *Hosted) endBehind(r *log.Remnant) model.Offset {
	end := r.LogEnd
	if s := h.lastOnline.Load(); s != nil {
		end = max(end, s.LogEnd, s.HighWatermark)
	}
	return end
}

// show makes a partition's numbers those that its readers see.
func (r *Remnant) show(m *partition.Mark) {
	m.LogStart, m.LastStable, m.HighWatermark, m.LogEnd = r.Start, r.Stable, r.End, r.End
}

// judge fills in the answer to a fetch of a consumer.
func (r *Remnant) judge(b *FetchBounds, s *State, from model.Offset, lastEpoch model.LeaderEpoch) {
	if from < r.Start {
		b.Code = partition.CodeOffsetOutOfRange
		return
	}
	if from >= b.End {
		b.Code = s.Code
		return
	}
	// What begins behind the damage need not be so, but ends nothing in front of it.
	verdict, end := r.epochs.Compare(from, lastEpoch, r.Start, r.LogEnd)
	switch {
	case verdict == epoch.Diverged:
		b.Diverging = end
	case verdict == epoch.OutOfRange:
		b.Code = s.Code // of an epoch that may have been behind the damage
	}
}

// endOffsetFor answers OffsetForLeaderEpoch for a consumer. An epoch that reaches to
// the damage ended there or behind it: the answer is rather too high than too low,
// since who is told of an end below what it has read believes that it was truncated. Of
// one that may be behind the damage nothing is said.
func (r *Remnant) endOffsetFor(asked model.LeaderEpoch) (model.OffsetAndEpoch, Code) {
	end := r.epochs.EndOffsetFor(asked, r.LogEnd)
	if end.Offset == model.NoOffset && asked >= 0 {
		return end, partition.CodeStorageError
	}
	if end.Offset >= r.End {
		end.Offset = max(end.Offset, r.LogEnd)
	}
	return end, partition.CodeNone
}

// openRemnant looks at what lies below the damage of a log that is not open. Nil if
// that can't be read.
func (m *ReplicaManager) openRemnant(h *Hosted, o log.Options, damage *log.CorruptionError, epochs *epoch.Cache) *log.Remnant {
	r, err := log.OpenRemnant(o, damage, epochs)
	if err != nil {
		m.logger.Warn("nothing can be read of a damaged log", name(h), zap.Error(err))
		return nil
	}
	m.logger.Warn("a damaged log can be read below its damage", name(h),
		zap.Int64("from", int64(r.View.Start())), zap.Int64("to", int64(r.View.End())), zap.Int64("log end", int64(r.LogEnd)))
	return r
}

// lookBelow has what lies below the damage of the log that was just let go of looked
// at, behind everything else that waits for the disk.
func (h *Hosted) lookBelow(out *loop.Outbox) {
	h.looking.Store(true)
	j := &remnantJob{h: h, damage: h.damage.Load(), config: logConfig(h.topic)}
	if s := h.lastOnline.Load(); s != nil && s.Standing != nil {
		j.epochs = s.epochs
	}
	out.Add(j)
}

// remnantJob is that on its way to the disk and back.
type remnantJob struct {
	h      *Hosted
	damage *log.CorruptionError
	config log.Config
	epochs *epoch.Cache // as they were known, nil if they are not any more
	found  *log.Remnant
}

// Deliver sends it, once the log is closed.
func (j *remnantJob) Deliver(model.Now) { j.h.dir.flusher.Submit(j, false) }

// Run reads.
func (j *remnantJob) Run() {
	h := j.h
	o := log.Options{
		FS: h.dir.fs, Dir: filepath.Join(h.dir.path, log.DirName(h.tp)), Partition: h.tp, Files: h.m.deps.Files,
		// The process lives, so everything that it wrote is there.
		Stop: log.StopProcess, CleanedTo: h.dir.cleanedTo(h.tp), Config: j.config,
	}
	if s := h.lastOnline.Load(); s != nil {
		o.RecoveryPoint, o.LogStart = s.RecoveryPoint, s.LogStart
	}
	j.found = h.m.openRemnant(h, o, j.damage, j.epochs)
}

// Done hands it to the partition.
func (j *remnantJob) Done() { j.h.box.Post(&remnantMsg{j}) }

type remnantMsg struct{ j *remnantJob }

func (m *remnantMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	if h.damage.Load() != m.j.damage {
		if m.j.found != nil {
			m.j.found.Close()
		}
		return
	}
	h.looking.Store(false)
	h.remnant.Store(m.j.found)
	h.standingStale = true
	out.Add(troubleDelivery{h.m})
}

// dropRemnant gives up what lies below the damage: the partition's directory is going
// to be somebody else's.
func (h *Hosted) dropRemnant() {
	if r := h.remnant.Swap(nil); r != nil {
		r.Close()
	}
}

// lower takes note of damage that was found below the one that is known.
func (h *Hosted) lower(damage *log.CorruptionError, out *loop.Outbox) {
	h.m.events.damaged(h, damage)
	h.dropRemnant()
	h.damage.Store(damage)
	h.standingStale = true
	h.lookBelow(out)
}
