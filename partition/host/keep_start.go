package host

import (
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// A log start that somebody acts upon is made durable first: a DeleteRecords is
// answered, and a follower tells its start, when the directory's checkpoint holds
// it. The directory's flusher writes that, once for all partitions that have asked
// by then. Those that ask meanwhile wait for the next write.

// startAsked is one partition's wish (partition.Output.KeepStart).
type startAsked struct {
	h    *Hosted
	plog *log.Log
}

// Deliver hands the wish to the directory. The State that has the log start has
// been published by then, so that every later checkpoint holds it.
func (a *startAsked) Deliver(model.Now) { a.h.dir.keeper.add(a) }

// startKeeper has the partitions of one directory that wait for the checkpoint of
// log starts: each at most once.
type startKeeper struct {
	mu      sync.Mutex
	waiting []*startAsked
	// busy: a startJob is queued or running.
	busy bool
}

func (k *startKeeper) add(a *startAsked) {
	k.mu.Lock()
	k.waiting = append(k.waiting, a)
	idle := !k.busy
	k.busy = true
	k.mu.Unlock()
	if idle {
		a.h.dir.flusher.Submit(&startJob{m: a.h.m, d: a.h.dir}, true)
	}
}

// take returns all that wait. When nobody does, the next one to come begins anew.
func (k *startKeeper) take() []*startAsked {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.waiting
	k.waiting = nil
	return all
}

// again says whether somebody has come meanwhile; if not, the keeper is idle.
func (k *startKeeper) again() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = len(k.waiting) > 0
	return k.busy
}

// startJob is one write of the checkpoint on its way to the disk and back.
type startJob struct {
	m *ReplicaManager
	d *Dir

	told []startKeptMsg // to whom it is told, valid when done
}

// Run writes the checkpoint.
func (j *startJob) Run() {
	all := j.d.keeper.take()
	j.told = make([]startKeptMsg, len(all))
	starts, err := j.m.writeLogStarts(j.d)
	for vfs.IsNoSpace(err) && j.m.deps.SpareRoom != nil && j.m.deps.SpareRoom(j.d.path) {
		starts, err = j.m.writeLogStarts(j.d)
	}
	fault := partition.FaultNone
	if err != nil {
		fault = partition.FaultRefused
		j.failed(err)
	}
	for i, a := range all {
		j.told[i] = startKeptMsg{a, partition.StartKept{Fault: fault, LogStart: starts[a.h.tp]}}
	}
}

// failed: a full disk may have room at the next try. After any other error the
// directory's small files can't be relied on.
func (j *startJob) failed(err error) {
	if vfs.IsNoSpace(err) {
		j.m.logger.Warn("log starts not written: the disk is full", zap.String("dir", j.d.path), zap.Error(err))
		return
	}
	j.m.dirFailed(j.d, err)
}

// Done tells the partitions, and has the next write begin if somebody waits.
func (j *startJob) Done() {
	for i := range j.told {
		m := &j.told[i]
		m.asked.h.box.Post(m)
	}
	if j.d.keeper.again() {
		j.d.flusher.Submit(&startJob{m: j.m, d: j.d}, true)
	}
}

// startKeptMsg tells a partition how its wish has ended.
type startKeptMsg struct {
	asked *startAsked
	kept  partition.StartKept
}

func (m *startKeptMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if h.plog == nil || h.plog != m.asked.plog {
		return
	}
	h.in = partition.Input{Kind: partition.KindStartKept, Start: m.kept}
	h.step(now, out)
}
