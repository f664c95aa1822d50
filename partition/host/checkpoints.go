package host

import (
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
	// What the files hold. What isn't there counts as 0, and 0 is not written: most
	// of many partitions hold nothing.
	recovery, starts, highWatermarks, cleaned checkpoint.Offsets
	// unsure are the files of which that isn't known: the last write failed.
	unsure map[string]bool

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

// readVital reads log starts or recovery points. A disk that can't be read is no
// file without content: what DeleteRecords took away would come back to view, and
// damage below a recovery point would pass for the torn end of a log. So the error
// is the directory's. A file that makes no sense counts as absent, as in Kafka.
func (d *Dir) readVital(name string, logger *zap.Logger, k *Keeper) (checkpoint.Offsets, error) {
	offsets, err := checkpoint.ReadOffsets(d.fs, d.file(name))
	if err == nil || !makesNoSense(err) {
		return offsets, err
	}
	return d.readOffsets(name, logger, k), nil
}

// readOffsets reads a checkpoint file; what can't be read counts as absent: the
// log is then scanned from an earlier point, or the high watermark begins lower.
func (d *Dir) readOffsets(name string, logger *zap.Logger, k *Keeper) checkpoint.Offsets {
	offsets, err := checkpoint.ReadOffsets(d.fs, d.file(name))
	if err != nil {
		logger.Warn("checkpoint can't be read and counts as empty",
			zap.String("file", d.file(name)), zap.Error(err))
		if makesNoSense(err) {
			k.keepFile(d, d.file(name), err)
		}
		return checkpoint.Offsets{}
	}
	return offsets
}

// lowerRecoveryPoint takes back, durably, a promise that is about to be broken
// by a truncation, and with it all others of which that was announced.
func (d *Dir) lowerRecoveryPoint(tp model.TopicPartition, to model.Offset) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if at, ok := d.files.recovery[tp]; (!ok || at <= to) && !d.files.unsure[checkpoint.RecoveryPointFile] {
		return nil
	}
	next := maps.Clone(d.files.recovery)
	if next == nil {
		next = make(checkpoint.Offsets)
	}
	next[tp] = min(to, next[tp])
	for other, low := range d.takeLowering() { // order-free: each is its own
		if at, ok := next[other]; ok && low < at {
			next[other] = low
		}
	}
	return d.writeOffsets(checkpoint.RecoveryPointFile, &d.files.recovery, next)
}

// reading gives what a checkpoint file is to hold, and whether that is anything
// else than held, what it holds. It is called under the lock of the files: a
// recovery point that a truncation lowers meanwhile must not be raised again by an
// older reading.
type reading func(held checkpoint.Offsets) (next checkpoint.Offsets, changed bool)

// writeRecoveryPoints replaces the recovery point file.
func (d *Dir) writeRecoveryPoints(read reading) error {
	return d.replaceOffsets(checkpoint.RecoveryPointFile, &d.files.recovery, read)
}

// writeLogStarts replaces the log start file.
func (d *Dir) writeLogStarts(read reading) error {
	return d.replaceOffsets(checkpoint.LogStartFile, &d.files.starts, read)
}

// writeHighWatermarks replaces the high watermark file.
func (d *Dir) writeHighWatermarks(read reading) error {
	return d.replaceOffsets(checkpoint.HighWatermarkFile, &d.files.highWatermarks, read)
}

// replaceOffsets replaces a file if it is to hold anything else than it does.
func (d *Dir) replaceOffsets(name string, held *checkpoint.Offsets, read reading) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	next, changed := read(*held)
	if !changed && !d.files.unsure[name] {
		return nil
	}
	return d.writeOffsets(name, held, next)
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
		if _, ok := (*f.held)[tp]; !ok && !d.files.unsure[f.name] {
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
		if d.files.unsure == nil {
			d.files.unsure = make(map[string]bool)
		}
		d.files.unsure[name] = true
		return err
	}
	delete(d.files.unsure, name)
	*held = next
	return nil
}

// checkpointHighWatermarks writes a directory's high watermarks, and the offset
// of the newest image if it has moved, and what could not be written of its doubts.
func (m *ReplicaManager) checkpointHighWatermarks(d *Dir) {
	m.doubtAgain(d)
	if at := model.Offset(m.imageAt.Load()); at > 0 {
		d.noteApplied(at)
	}
	m.checkpoint(d, func() error {
		return d.writeHighWatermarks(m.read(d, func(s *State) model.Offset { return s.HighWatermark }))
	})
}

// checkpointLogs writes a directory's recovery points and log starts, and has
// what has been unsynced since the last time flushed in the background, so that
// a recovery never scans more than two intervals' appends.
func (m *ReplicaManager) checkpointLogs(d *Dir) {
	m.checkpoint(d, func() error {
		for _, h := range m.All() {
			if s := h.State(); h.dir == d && s.View != nil && s.RecoveryPoint < s.LogEnd {
				h.box.Post(&flushOldMsg{})
			}
		}
		if err := m.writeRecoveryPoints(d); err != nil {
			return err
		}
		_, err := m.writeLogStarts(d)
		return err
	})
}

// writeLogStarts writes a directory's log starts and returns what the file is to
// hold, also if it could not be written.
func (m *ReplicaManager) writeLogStarts(d *Dir) (starts checkpoint.Offsets, err error) {
	read := m.read(d, func(s *State) model.Offset { return s.LogStart })
	err = d.writeLogStarts(func(held checkpoint.Offsets) (_ checkpoint.Offsets, changed bool) {
		starts, changed = read(held)
		return starts, changed
	})
	return starts, err
}

// read reads one offset of all partitions of a directory. Nothing is made while
// nothing has changed.
func (m *ReplicaManager) read(d *Dir, of func(*State) model.Offset) reading {
	return func(held checkpoint.Offsets) (checkpoint.Offsets, bool) {
		some, same := 0, true
		m.offsets(d, of, func(tp model.TopicPartition, o model.Offset) bool {
			some++
			same = held[tp] == o
			return same
		})
		if same && some == len(held) {
			return held, false
		}
		next := make(checkpoint.Offsets, len(held))
		m.offsets(d, of, func(tp model.TopicPartition, o model.Offset) bool {
			next[tp] = o
			return true
		})
		return next, true
	}
}

// offsets calls yield with the offsets that are not 0, until it returns false.
func (m *ReplicaManager) offsets(d *Dir, of func(*State) model.Offset, yield func(model.TopicPartition, model.Offset) bool) {
	for _, h := range m.All() {
		if h.dir != d || m.GetByID(h.id) != h {
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
		if o := of(s); o > 0 && !yield(h.tp, o) {
			return
		}
	}
}

// checkpoint runs write for a directory in use. A full disk is left for the next
// time; another error takes the directory offline.
func (m *ReplicaManager) checkpoint(d *Dir, write func() error) {
	if !d.Online() {
		return
	}
	switch err := write(); {
	case err == nil:
	case vfs.IsNoSpace(err):
		m.logger.Warn("checkpoint not written: the disk is full", zap.String("dir", d.path), zap.Error(err))
	default:
		m.dirFailed(d, err)
	}
}
