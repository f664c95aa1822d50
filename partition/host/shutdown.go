package host

import (
	"errors"
	"maps"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// Shutdown ends all partitions. A clean one flushes and closes every log, writes
// the checkpoints, and last of all the marker of a clean stop in each directory. One that is not clean closes the files only, as
// when another process of this node has taken over.
func (m *ReplicaManager) Shutdown(clean bool) error {
	for _, t := range m.tasks {
		t.stop()
	}
	m.cleaner.stop()
	for _, s := range m.scrubbers {
		s.stop()
	}
	for _, l := range m.fetchLoops.all() {
		l.box.Enter(&stopMsg{})
	}
	for _, d := range m.deps.Dirs.All() {
		d.leaveTails()
	}
	all := m.All()
	marks := make([]*State, len(all))
	plogs := make([]*log.Log, len(all))
	m.parallel(createWorkers, len(all), func(i int) {
		marks[i] = all[i].State()
		plogs[i] = m.takeDown(all[i], partition.CodeNotLeaderOrFollower, "the broker is stopping")
	})
	for _, d := range m.deps.Dirs.All() {
		if d.flusher != nil {
			d.flusher.Stop()
		}
	}
	errs := make([]error, len(all))
	m.parallelIn(len(all), func(i int) *Dir { return all[i].dir }, func(i int) {
		if plogs[i] != nil {
			errs[i] = plogs[i].Close(clean)
		}
	})
	if !clean {
		return nil
	}
	return errors.Join(append(errs, m.markClean(all, marks, plogs, errs))...)
}

// markClean writes the checkpoints, the list of logs that did not close, and the
// marker of every directory.
func (m *ReplicaManager) markClean(all []*Hosted, marks []*State, plogs []*log.Log, errs []error) error {
	var failed []error
	for _, d := range m.deps.Dirs.All() {
		if !d.Online() || !d.hasMeta {
			continue
		}
		points, starts, highs := checkpoint.Offsets{}, checkpoint.Offsets{}, checkpoint.Offsets{}
		unclean := checkpoint.Offsets{}
		for i, h := range all {
			if h.dir != d {
				continue
			}
			if errors.Is(errs[i], log.ErrPoisoned) {
				m.doubt(d, h.id) // its last fsync failed
			}
			if plogs[i] == nil || errs[i] != nil {
				unclean[h.tp] = 0
				if s := h.lastOnline.Load(); s != nil {
					note(points, h, s.RecoveryPoint)
					note(highs, h, s.HighWatermark)
					note(starts, h, s.LogStart)
				}
				continue
			}
			note(points, h, plogs[i].RecoveryPoint())
			note(highs, h, marks[i].HighWatermark)
			note(starts, h, plogs[i].LogStart())
		}
		err := errors.Join(
			d.writeRecoveryPoints(finally(points)), d.writeLogStarts(finally(starts)), d.writeHighWatermarks(finally(highs)))
		if err == nil {
			err = checkpoint.WriteOffsets(d.fs, d.file(uncleanFile), unclean)
		}
		if err == nil {
			err = checkpoint.WriteCleanShutdown(d.fs, d.file(checkpoint.CleanShutdownFile),
				checkpoint.CleanShutdown{BrokerEpoch: d.run.BrokerEpoch})
		}
		if err != nil {
			m.logger.Error("log directory did not stop cleanly", zap.String("dir", d.path), zap.Error(err))
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// note takes an offset into a checkpoint, which holds none that is 0.
func note(to checkpoint.Offsets, h *Hosted, o model.Offset) {
	if o > 0 {
		to[h.tp] = o
	}
}

// finally is the reading of a checkpoint whose content is known.
func finally(next checkpoint.Offsets) reading {
	return func(held checkpoint.Offsets) (checkpoint.Offsets, bool) { return next, !maps.Equal(held, next) }
}

// takeDown ends a partition's service and returns its log, which nobody uses any
// more, nil if it had none.
func (m *ReplicaManager) takeDown(h *Hosted, code Code, reason string) *log.Log {
	if h.stalled.Load() {
		return nil // its loop is stuck in a write and would not answer
	}
	w := &takenDown{done: make(chan struct{})}
	h.box.Enter(&takeDownMsg{code: code, reason: reason, w: w})
	w.wait(m, h)
	m.cleaner.leave(h)
	m.leaveScrub(h)
	return w.plog
}

// takenDown is told when the loop has let go of the log.
type takenDown struct {
	plog *log.Log
	done chan struct{}
}

// Deliver wakes whoever takes the partition down.
func (w *takenDown) Deliver(model.Now) { close(w.done) }

// wait returns when that has happened. More may have waited in front than one owner of
// the box handles; a spare comes for the rest, but not where there is one goroutine.
func (w *takenDown) wait(m *ReplicaManager, h *Hosted) {
	for m.deps.Group == nil {
		select {
		case <-w.done:
			return
		default:
			h.box.Wake()
		}
	}
	<-w.done
}
