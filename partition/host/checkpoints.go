package host

import (
	"errors"
	"maps"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// checkpointFiles is the writer of one directory's offset checkpoints.
type checkpointFiles struct {
	mu sync.Mutex
	// What the files hold.
	recovery, starts, highWatermarks, cleaned checkpoint.Offsets

	// loweringMu guards lowering: recovery points that are to be lowered soon. Many
	// partitions follow another leader at once; one write does for all of them.
	loweringMu sync.Mutex
	lowering   checkpoint.Offsets
}

// willLower announces a lowerRecoveryPoint.
func (d *Dir) willLower(tp model.TopicPartition, to model.Offset) {
	d.files.loweringMu.Lock()
	defer d.files.loweringMu.Unlock()
	if d.files.lowering == nil {
		d.files.lowering = make(checkpoint.Offsets)
	}
	if at, ok := d.files.lowering[tp]; !ok || to < at {
		d.files.lowering[tp] = to
	}
}

// takeLowering returns what was announced.
func (d *Dir) takeLowering() checkpoint.Offsets {
	d.files.loweringMu.Lock()
	defer d.files.loweringMu.Unlock()
	all := d.files.lowering
	d.files.lowering = nil
	return all
}

// readStarts reads the log starts. A disk that can't be read is no file without
// content: what DeleteRecords took away would come back to view, so the error is
// the directory's. A file that makes no sense counts as absent, as in Kafka.
func (d *Dir) readStarts(logger *zap.Logger) (checkpoint.Offsets, error) {
	offsets, err := checkpoint.ReadOffsets(d.fs, d.file(checkpoint.LogStartFile))
	var format *checkpoint.FormatError
	if err == nil || !errors.As(err, &format) {
		return offsets, err
	}
	return d.readOffsets(checkpoint.LogStartFile, logger), nil
}

// readOffsets reads a checkpoint file; what can't be read counts as absent: the
// log is then scanned from an earlier point, or the high watermark begins lower.
func (d *Dir) readOffsets(name string, logger *zap.Logger) checkpoint.Offsets {
	offsets, err := checkpoint.ReadOffsets(d.fs, d.file(name))
	if err != nil {
		logger.Warn("checkpoint can't be read and counts as empty",
			zap.String("file", d.file(name)), zap.Error(err))
		return checkpoint.Offsets{}
	}
	return offsets
}

// lowerRecoveryPoint takes back, durably, a promise that is about to be broken
// by a truncation, and with it all others of which that was announced.
func (d *Dir) lowerRecoveryPoint(tp model.TopicPartition, to model.Offset) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if at, ok := d.files.recovery[tp]; !ok || at <= to {
		return nil
	}
	next := maps.Clone(d.files.recovery)
	next[tp] = to
	for other, low := range d.takeLowering() { // order-free: each is its own
		if at, ok := next[other]; ok && low < at {
			next[other] = low
		}
	}
	return d.writeOffsets(checkpoint.RecoveryPointFile, &d.files.recovery, next)
}

// writeRecoveryPoints replaces the recovery point file.
func (d *Dir) writeRecoveryPoints(read func() checkpoint.Offsets) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	// Read under the lock: a point that a truncation lowers meanwhile must not
	// be raised again by an older reading.
	return d.writeOffsets(checkpoint.RecoveryPointFile, &d.files.recovery, read())
}

// writeLogStarts replaces the log start file.
func (d *Dir) writeLogStarts(read func() checkpoint.Offsets) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	return d.writeOffsets(checkpoint.LogStartFile, &d.files.starts, read())
}

// writeHighWatermarks replaces the high watermark file.
func (d *Dir) writeHighWatermarks(read func() checkpoint.Offsets) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	return d.writeOffsets(checkpoint.HighWatermarkFile, &d.files.highWatermarks, read())
}

// forget takes a partition out of the checkpoints, durably, before a new one of
// its name is made: what they say is of a deleted topic, and would make a start
// after a crash look for records that the new one never had, or hide those that
// it has.
func (d *Dir) forget(tp model.TopicPartition) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	for _, f := range []struct {
		name string
		held *checkpoint.Offsets
	}{
		{checkpoint.RecoveryPointFile, &d.files.recovery},
		{checkpoint.LogStartFile, &d.files.starts},
		{checkpoint.HighWatermarkFile, &d.files.highWatermarks},
		{checkpoint.CleanerFile, &d.files.cleaned},
	} {
		if _, ok := (*f.held)[tp]; !ok {
			continue
		}
		rest := maps.Clone(*f.held)
		delete(rest, tp)
		if err := d.writeOffsets(f.name, f.held, rest); err != nil {
			return err
		}
	}
	return nil
}

// writeOffsets replaces a file and notes what it holds. Called with the lock of
// the files.
func (d *Dir) writeOffsets(name string, held *checkpoint.Offsets, next checkpoint.Offsets) error {
	if err := checkpoint.WriteOffsets(d.fs, d.file(name), next); err != nil {
		return err
	}
	*held = next
	return nil
}

// checkpointHighWatermarks writes a directory's high watermarks, and the offset
// of the newest image if it has moved.
func (m *ReplicaManager) checkpointHighWatermarks(d *Dir) {
	if at := model.Offset(m.imageAt.Load()); at > 0 {
		d.noteApplied(at)
	}
	m.checkpoint(d, func(parts []*Hosted) error {
		return d.writeHighWatermarks(func() checkpoint.Offsets {
			return offsetsOf(parts, func(s *State) (model.Offset, bool) { return s.HighWatermark, true })
		})
	})
}

// checkpointLogs writes a directory's recovery points and log starts, and has
// what has been unsynced since the last time flushed in the background, so that
// a recovery never scans more than two intervals' appends.
func (m *ReplicaManager) checkpointLogs(d *Dir) {
	m.checkpoint(d, func(parts []*Hosted) error {
		for _, h := range parts {
			if s := h.State(); s.View != nil && s.RecoveryPoint < s.LogEnd {
				h.box.Post(&flushOldMsg{})
			}
		}
		err := d.writeRecoveryPoints(func() checkpoint.Offsets {
			return offsetsOf(parts, func(s *State) (model.Offset, bool) { return s.RecoveryPoint, true })
		})
		if err != nil {
			return err
		}
		return d.writeLogStarts(func() checkpoint.Offsets {
			return offsetsOf(parts, func(s *State) (model.Offset, bool) { return s.LogStart, s.LogStart > 0 })
		})
	})
}

func offsetsOf(parts []*Hosted, of func(*State) (model.Offset, bool)) checkpoint.Offsets {
	offsets := make(checkpoint.Offsets, len(parts))
	for _, h := range parts {
		if h.m.GetByID(h.id) != h {
			continue // removed meanwhile; its name may be another's by now
		}
		s := h.State()
		if s.View == nil {
			// An offline log keeps what was known of it.
			s = h.lastOnline.Load()
		}
		if s == nil {
			continue
		}
		if o, ok := of(s); ok {
			offsets[h.tp] = o
		}
	}
	return offsets
}

// checkpoint runs write for a directory in use with its partitions. A full disk
// is left for the next time; another error takes the directory offline.
func (m *ReplicaManager) checkpoint(d *Dir, write func(parts []*Hosted) error) {
	if !d.Online() {
		return
	}
	var parts []*Hosted
	for _, h := range m.All() {
		if h.dir == d {
			parts = append(parts, h)
		}
	}
	switch err := write(parts); {
	case err == nil:
	case vfs.IsNoSpace(err):
		m.logger.Warn("checkpoint not written: the disk is full", zap.String("dir", d.path), zap.Error(err))
	default:
		m.dirFailed(d, err)
	}
}
