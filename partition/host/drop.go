package host

import (
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// dropMsg has the log let go of the segments below its start.
type dropMsg struct{ durable model.Offset }

func (m *dropMsg) handle(h *Hosted, _ model.Now, out *loop.Outbox) {
	if h.plog == nil {
		return
	}
	if d := h.plog.StartDrop(m.durable); d != nil {
		out.Add(&dropJob{h: h, drop: d})
	}
}

// dropJob is the removal of segments' files on its way to the disk and back.
type dropJob struct {
	h    *Hosted
	drop *log.Drop
	err  error
}

// Deliver hands the job to the directory's flusher, behind all that somebody
// waits for.
func (j *dropJob) Deliver(model.Now) { j.h.dir.flusher.Submit(j, false) }

// Run renames the files.
func (j *dropJob) Run() { j.err = j.drop.Run() }

// Done has the partition take it into account.
func (j *dropJob) Done() { j.h.box.Post(&droppedMsg{j}) }

// droppedMsg completes a dropJob.
type droppedMsg struct{ j *dropJob }

func (m *droppedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if h.plog == nil {
		return
	}
	d := m.j.drop
	if err := h.plog.FinishDrop(d, m.j.err); err != nil {
		h.fault = err
		h.goOffline(now, partition.CodeStorageError, err.Error(), out)
		return
	}
	h.m.counters.dropped.Add(int64(d.Segments()))
	h.m.counters.droppedBytes.Add(d.Bytes())
	h.m.logger.Info("segments below the log start were removed", name(h), zap.Int64("from", int64(d.Start())),
		zap.Int64("to", int64(d.End())), zap.Int("segments", d.Segments()), zap.Int64("bytes", d.Bytes()))
	h.m.unlinkLater(h.dir, d, nanos(h.topic.FileDeleteDelayMs))
}

// unlinker removes files for good, as far as no reader has them.
type unlinker interface {
	Unlink() (left int, err error)
}

// doomed are files that wait for that (file.delete.delay.ms).
type doomed struct {
	dir   *Dir
	files unlinker
	at    model.Instant
}

// unlinkLater has files removed after a delay. Until then they stand under
// another name; a start removes them too.
func (m *ReplicaManager) unlinkLater(d *Dir, files unlinker, delay model.Instant) {
	at := m.deps.RT.Now().Mono + delay
	if delay == model.Never {
		return // a later start removes them
	}
	m.retiredMu.Lock()
	m.doomed = append(m.doomed, doomed{d, files, at})
	m.retiredMu.Unlock()
}

// unlinkDue removes what has waited long enough in a directory. What a reader has
// waits on.
func (m *ReplicaManager) unlinkDue(d *Dir) {
	now := m.deps.RT.Now().Mono
	m.retiredMu.Lock()
	var due []doomed
	keep := m.doomed[:0]
	for _, f := range m.doomed {
		if f.dir == d && f.at <= now {
			due = append(due, f)
		} else {
			keep = append(keep, f)
		}
	}
	clear(m.doomed[len(keep):])
	m.doomed = keep
	m.retiredMu.Unlock()
	for _, f := range due {
		if !f.dir.Online() {
			continue
		}
		left, err := f.files.Unlink()
		if err != nil {
			m.logger.Warn("a removed segment's file is still there; the next start removes it", zap.String("dir", f.dir.path), zap.Error(err))
			continue
		}
		if left > 0 {
			m.unlinkLater(f.dir, f.files, 0)
		}
	}
}
