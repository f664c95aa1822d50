package host

import (
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/partition"
)

// eventLog turns what happens to partitions into log lines. Its table of levels
// is the methods below: what an operator must act on is an error, what they
// should know is a warning.
type eventLog struct {
	logger   *zap.Logger
	counters *counters
}

func name(h *Hosted) zap.Field { return zap.Stringer("partition", h.tp) }

func (e eventLog) loaded(h *Hosted, r *log.LoadReport) {
	for i := range r.Removed {
		e.counters.cut(&r.Removed[i]) // the receipt has told of it
	}
	if len(r.Rebuilt) > 0 {
		e.logger.Info("files were rebuilt from the log", name(h), zap.Strings("files", r.Rebuilt))
	}
}

func (e eventLog) damaged(h *Hosted, d *log.CorruptionError) {
	e.logger.Error("a log is damaged", name(h), zap.String("dir", d.Dir), zap.Int64("segment", int64(d.Segment)),
		zap.Int64("position", d.Pos), zap.Bool("below the recovery point", d.BelowRecoveryPoint), zap.Error(d.Err))
}

func (e eventLog) epochsMended(h *Hosted, w *log.WrongEpochs, before []epoch.Entry) {
	e.logger.Warn("the leader epochs of a log were wrong, and are mended from its batches", name(h), zap.String("file", w.File),
		zap.Int64("segment", int64(w.Damage.Segment)), zap.Int64("offset", int64(w.Damage.Offset)), zap.Error(w.Damage.Err),
		zap.Any("epochs were", before), zap.Any("epochs are", h.plog.Epochs().Entries()))
}

func (e eventLog) sound(h *Hosted, at model.Offset) {
	e.logger.Warn("records were called damaged; this copy of them is sound", name(h), zap.Int64("offset", int64(at)))
}

func (e eventLog) offline(h *Hosted, reason string) {
	e.counters.quarantined.Add(1)
	e.logger.Error("a partition is offline; its files are as they were found", name(h), zap.String("reason", reason))
}

func (e eventLog) serving(h *Hosted, r *Remnant) {
	e.logger.Error("a damaged partition has no better copy: it is read below the damage and takes no writes", name(h),
		zap.Int64("from", int64(r.Start)), zap.Int64("to", int64(r.End)), zap.Int64("log end", int64(r.LogEnd)), zap.Error(r.Damage.Err))
}

func (e eventLog) quarantined(h *Hosted, f *assert.Failure) {
	e.logger.Error("an assertion failed; the partition is quarantined", name(h), zap.String("assertion", f.Message), zap.Stack("stack"))
}

func (e eventLog) stalled(h *Hosted, since model.Instant) {
	e.counters.stalls.Add(1)
	e.logger.Error("the disk does not answer; the partition is not served", name(h), zap.Duration("since", time.Duration(since)))
}

func (e eventLog) resumed(h *Hosted) {
	e.logger.Warn("the disk answers again", name(h))
}

// observe tells one of the core's events. It runs in the loop, so it only hands
// fields to the logger.
func (h *Hosted) observe(ev *partition.Event) {
	h.standingStale = true
	h.m.counters.count(ev, h.inSync())
	logger := h.m.logger
	switch ev.Kind {
	case partition.EventLeader:
		logger.Info("leading", name(h), zap.Int32("epoch", int32(ev.Mark.LeaderEpoch)),
			zap.Int64("high watermark", int64(ev.Mark.HighWatermark)), zap.Int64("log end", int64(ev.Mark.LogEnd)))
		h.snapshotProducers()
		h.led(ev.Mark.LeaderEpoch, ev.Mark.LogEnd)
	case partition.EventFollower:
		logger.Info("following", name(h), zap.Int32("epoch", int32(ev.Mark.LeaderEpoch)))
		h.snapshotProducers()
		h.unled()
	case partition.EventISRProposed, partition.EventISRCommitted, partition.EventISRRefused:
		logger.Info(ev.Kind.String(), name(h), zap.Int16("code", ev.Code), zap.Any("isr", ev.ISR))
	case partition.EventTruncated:
		if ev.From == ev.To { // only an epoch in which this replica has nothing
			logger.Info("agreed with the leader's log", name(h), zap.Int64("log end", int64(ev.To)))
			break
		}
		logger.Info("truncated to the leader's log", name(h), zap.Int64("from", int64(ev.From)), zap.Int64("to", int64(ev.To)))
	case partition.EventCutOff:
		logger.Warn("hears neither the controller nor enough followers: takes no writes", name(h))
	case partition.EventRejoined:
		logger.Info("takes writes again", name(h))
	case partition.EventBelowHW:
		h.m.followed.belowHW.Add(1)
		logger.Error("truncated below the high watermark", name(h),
			zap.Int64("from", int64(ev.From)), zap.Int64("to", int64(ev.To)))
	case partition.EventOffline:
		level := zap.DebugLevel // stopped or removed, as somebody wished
		if ev.Code == partition.CodeStorageError {
			level = zap.WarnLevel
		}
		logger.Log(level, "partition went offline", name(h), zap.Int16("code", ev.Code), zap.String("reason", h.reason))
	case partition.EventLogStart:
		logger.Info("log start raised", name(h), zap.Int64("from", int64(ev.From)), zap.Int64("to", int64(ev.To)))
	case partition.EventAppendFailed:
		// The refusals counter has told it.
	}
}

// refusals tells of appends that the disk refused, at most once in a while.
type refusals struct {
	last  model.Instant
	since int64
}

// refusalEvery is how often a full disk is told of for one partition.
const refusalEvery = model.Instant(10 * time.Second)

func (r *refusals) note(h *Hosted, err error) {
	r.since++
	h.m.counters.refused.Add(1)
	if vfs.IsNoSpace(err) {
		h.m.keeper().noRoom()
	}
	now := h.m.deps.RT.Now().Mono
	if r.last != 0 && now-r.last < refusalEvery {
		return
	}
	h.m.logger.Error("the disk refused an append; nothing was written, reads go on", name(h),
		zap.Int64("refused since last told", r.since), zap.Error(err))
	r.last, r.since = now, 0
}

// alterDelivery sends a proposal after the loop's release.
type alterDelivery struct {
	h *Hosted
	a *partition.AlterPartition
}

// Deliver hands the proposal to the sender.
func (d *alterDelivery) Deliver(model.Now) { d.h.m.deps.Alter.SendAlter(d.h, d.a) }

func (m *ReplicaManager) sendAlter(h *Hosted, a *partition.AlterPartition, out *loop.Outbox) {
	if m.deps.Alter != nil {
		out.Add(&alterDelivery{h, a})
	}
}
