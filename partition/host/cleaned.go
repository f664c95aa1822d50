package host

import (
	"maps"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// cleanedTo returns up to where a log is compacted, NoOffset if it never was.
func (d *Dir) cleanedTo(tp model.TopicPartition) model.Offset {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if o, ok := d.files.cleaned[tp]; ok {
		return o
	}
	return model.NoOffset
}

// resetCleaned replaces a point that doesn't fit the log. It is written with the
// next one.
func (d *Dir) resetCleaned(tp model.TopicPartition, to model.Offset) {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	next := maps.Clone(d.files.cleaned)
	if next == nil {
		next = make(checkpoint.Offsets)
	}
	next[tp] = to
	d.files.cleaned = next
}

// lowerCleaned takes back what was compacted of a log that is about to be cut:
// what will stand there later isn't.
func (d *Dir) lowerCleaned(tp model.TopicPartition, to model.Offset) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if at, ok := d.files.cleaned[tp]; !ok || at <= to {
		return nil
	}
	next := maps.Clone(d.files.cleaned)
	next[tp] = to
	return d.writeOffsets(checkpoint.CleanerFile, &d.files.cleaned, next)
}

// noteCleaned writes down up to where a log is compacted. On a full disk it is
// only remembered: a start then compacts more than it must.
func (m *ReplicaManager) noteCleaned(h *Hosted, to model.Offset) error {
	d := h.dir
	d.files.mu.Lock()
	next := make(checkpoint.Offsets, len(d.files.cleaned)+1)
	for tp, o := range d.files.cleaned { // order-free: a copy
		if m.Get(tp.Topic, tp.Partition) != nil {
			next[tp] = o
		}
	}
	next[h.tp] = to
	err := d.writeOffsets(checkpoint.CleanerFile, &d.files.cleaned, next)
	d.files.cleaned = next
	d.files.mu.Unlock()
	if vfs.IsNoSpace(err) {
		m.logger.Warn("checkpoint not written: the disk is full", zap.String("dir", d.path), zap.Error(err))
		return nil
	}
	if err != nil {
		m.dirFailed(d, err)
	}
	return err
}

// settle makes it durable that the log below to is: a start after a loss of power
// must not take the holes that compaction leaves for pages that were lost.
func (d *Dir) settle(h *Hosted, to model.Offset) error {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	if d.files.recovery[h.tp] >= to {
		return nil
	}
	// Read under the lock, as in writeRecoveryPoints.
	point := h.State().RecoveryPoint
	if point < to {
		return log.ErrStaleView // it was cut meanwhile
	}
	next := maps.Clone(d.files.recovery)
	if next == nil {
		next = make(checkpoint.Offsets)
	}
	next[h.tp] = point
	return d.writeOffsets(checkpoint.RecoveryPointFile, &d.files.recovery, next)
}
