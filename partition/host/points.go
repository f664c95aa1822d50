package host

import (
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
)

// points sees to it that a log directory's recovery points are written down as its
// logs become durable, and not only when it is time to: under load a minute is
// gigabytes, which the next start would have to read.
type points struct {
	durable atomic.Int64 // bytes since they were written down last
	writing atomic.Bool  // they are being written down, or about to
}

// advance notes that bytes of a log have become durable.
func (p *points) advance(h *Hosted, bytes int64, out *loop.Outbox) {
	if p.durable.Add(bytes) < flushEvery || !p.writing.CompareAndSwap(false, true) {
		return
	}
	out.Add(&pointsJob{h.m, h.dir})
}

// pointsJob writes them down.
type pointsJob struct {
	m *ReplicaManager
	d *Dir
}

// Deliver hands the job to the directory's flusher, once the newest is published.
func (j *pointsJob) Deliver(model.Now) { j.d.flusher.Submit(j, false) }

// Run waits for the disk.
func (j *pointsJob) Run() {
	j.m.checkpoint(j.d, func() error { return j.m.writeRecoveryPoints(j.d) })
}

// Done lets the next one begin.
func (j *pointsJob) Done() { j.d.points.writing.Store(false) }

// writeRecoveryPoints writes down how far each log of a directory is durable.
func (m *ReplicaManager) writeRecoveryPoints(d *Dir) error {
	d.points.durable.Store(0)
	return d.writeRecoveryPoints(m.read(d, func(s *State) model.Offset { return s.RecoveryPoint }))
}
