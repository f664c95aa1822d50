package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
)

// A spoilt replica, one that is damaged or that the disk has refused with an I/O error,
// is filled anew while the broker runs, once the cluster does not count on it any more
// and another leads: its directory is set aside under the name of a stray one, its files
// as they were found, and a new log beside it follows the leader. When the new one is in
// sync, the old files go to the kept bytes, with a receipt (aside.go). A lost replica
// goes the same way, without files. Source: rule 2.8 of the project.
//
// Whether a disk that has refused a log takes another nobody can tell but by trying:
// the first thing that is asked of it is a note among the old files, synced with its
// name, and every try that fails, then or later, has the next wait for twice as long. A
// disk that can't even make names and sync them fails as a whole. An fsync that failed
// is not tried again: the new log has new files, and with the old names gone the note of
// it (doubt.go) goes.
//
// A crash anywhere leaves either the spoilt directory under its own name, which is found
// as it would have been, or none, or the new one; and what was set aside is found by the
// note in it.

// diskError is why the disk's refusal took a partition offline.
type diskError struct {
	err error
	// nameless: whose directory it is can't be read.
	nameless bool
}

// diskErrorOf returns an error as one of the disk, nil if it is none: a full disk
// comes back by itself, and who may not read a file, or has no descriptor left, has no
// bad disk. A log that is poisoned can't be used any more, whatever the reason.
func diskErrorOf(err error) *diskError {
	if err == nil || !vfs.IsIOError(err) && !errors.Is(err, log.ErrPoisoned) {
		return nil
	}
	return &diskError{err: err}
}

// spoilt says whether the partition's log is one to be filled anew.
func (h *Hosted) spoilt() bool { return h.damage.Load() != nil || h.diskError.Load() != nil }

// refillTry is when a partition was filled anew last, and how long to wait before
// that is done again: a disk that spoils or refuses what it is given is given it ever
// more rarely.
type refillTry struct {
	at   model.Instant
	wait model.Instant
}

const (
	refillWait    = model.Instant(60e9)
	refillWaitMax = model.Instant(3600e9)
)

// given says whether the cluster does not count on this broker's replica, and has
// another to fill it from. Metadata from before this process's registration don't say.
func (m *ReplicaManager) given(reg *metadata.PartitionRegistration) bool {
	self, epoch := m.deps.Self, model.BrokerEpoch(m.registeredAt.Load())
	if epoch == model.NoBrokerEpoch || m.fedUnder != epoch {
		return false
	}
	return reg.Leader != model.NoLeader && reg.Leader != self && !reg.InISR(self) && !reg.InELR(self)
}

// mayRefill says whether it is time for a spoilt replica to be filled anew. What the
// old log has asked its leader for may arrive late: it counts for nothing in a later
// leader epoch, and until then the new one could be taken into the in-sync set for it,
// and be elected, with nothing in it.
func (m *ReplicaManager) mayRefill(h *Hosted, reg *metadata.PartitionRegistration) bool {
	try := m.refills[h.id]
	if model.LeaderEpoch(h.heard.Load()) >= reg.LeaderEpoch && !mutant.On("host-refill-in-the-same-epoch") {
		return false
	}
	return m.given(reg) && h.dir.Online() && !h.dir.behind && !h.closing.Load() &&
		(try.wait == 0 || m.deps.RT.Now().Mono-try.at >= try.wait)
}

// tried notes that a replica was filled anew now, or that it could not be.
func (m *ReplicaManager) tried(id model.TopicIDPartition) {
	if m.refills == nil {
		m.refills = make(map[model.TopicIDPartition]refillTry)
	}
	wait := min(max(2*m.refills[id].wait, refillWait), refillWaitMax)
	m.refills[id] = refillTry{at: m.deps.RT.Now().Mono, wait: wait}
}

// awayJob sets a spoilt partition's directory aside, so that a new log can be made
// in its place.
type awayJob struct {
	h      *Hosted
	damage *log.CorruptionError // nil if it is not that
	disk   *diskError           // nil if it is damage
	leader model.BrokerID
	// Valid when done: the new name, "" if an earlier try has done it.
	name string
	err  error
}

// run is the disk's part.
func (j *awayJob) run(m *ReplicaManager) {
	d, dirName := j.h.dir, log.DirName(j.h.tp)
	m.cleaner.leave(j.h)
	j.h.dropRemnant()
	m.leaveScrub(j.h)
	path := filepath.Join(d.path, dirName)
	if _, err := d.fs.Stat(path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			j.err = err
		}
		return
	}
	// Who finds it later knows by the note what it is.
	switch {
	case j.damage != nil:
		j.err = log.NoteDamage(d.fs, j.damage)
	case !j.disk.nameless:
		j.err = log.NoteFailure(d.fs, path, j.disk.err)
	}
	if j.err == nil {
		j.name, j.err = m.rename(d, dirName, j.h.tp, log.StrayDirSuffix)
	}
}

// finish makes durable what several have done in a directory. What is noted of failed
// fsyncs is of the old files.
func (d *Dir) finish(jobs []*awayJob) error {
	if err := d.fs.SyncDir(d.path); err != nil {
		return err
	}
	var ids []model.TopicIDPartition
	for _, j := range jobs {
		if j.err == nil {
			ids = append(ids, j.h.id)
		}
	}
	if err := d.doubts.forget(d, ids); !vfs.IsNoSpace(err) {
		return err
	}
	return nil
}

// setAway sets directories of spoilt partitions aside and returns in whose place a
// log can be made now.
func (m *ReplicaManager) setAway(jobs []*awayJob) (ready []*Hosted) {
	var dirs []*Dir
	of := make(map[*Dir][]*awayJob)
	for _, j := range jobs {
		if of[j.h.dir] == nil {
			dirs = append(dirs, j.h.dir)
		}
		of[j.h.dir] = append(of[j.h.dir], j)
	}
	failed := make([]error, len(dirs))
	done := m.onDisks(dirs, func(d *Dir) {
		for _, j := range of[d] {
			j.run(m)
		}
		failed[slices.Index(dirs, d)] = d.finish(of[d])
	})
	for _, d := range done {
		if err := failed[slices.Index(dirs, d)]; err != nil {
			m.dirFailed(d, err)
			continue
		}
		for _, j := range of[d] {
			if j.err != nil {
				m.notAway(j)
				continue
			}
			m.isAway(j)
			ready = append(ready, j.h)
		}
	}
	return ready
}

// notAway notes that nothing has come of it. For room it waits no longer than there
// is none.
func (m *ReplicaManager) notAway(j *awayJob) {
	if vfs.IsNoSpace(j.err) {
		m.logger.Debug("a spoilt partition can't be set aside yet", name(j.h), zap.Error(j.err))
		return
	}
	m.tried(j.h.id)
	m.logger.Warn("a spoilt partition can't be set aside to be filled anew", name(j.h),
		zap.Duration("again in", time.Duration(m.refills[j.h.id].wait)), zap.Error(j.err))
}

// isAway notes what was set aside.
func (m *ReplicaManager) isAway(j *awayJob) {
	h := j.h
	last := h.lastOnline.Swap(nil) // the checkpoints are another's from here on
	if j.name != "" {
		h.dir.partitions--
		a := asideDir{dir: h.dir, name: j.name, id: h.id, tp: h.tp, refused: j.disk != nil, half: m.isAside(h.id)}
		if last != nil {
			a.highWatermark = last.HighWatermark
		}
		if j.disk == nil || !j.disk.nameless {
			m.asides = append(m.asides, &a)
		}
		m.logger.Warn("a spoilt partition was set aside and is filled anew", name(h),
			zap.String("dir", h.dir.path), zap.String("is", j.name), zap.Int32("leader", int32(j.leader)))
	}
	m.tried(h.id)
}

// lostJob writes the receipt of a replica that was gone and is filled anew.
type lostJob struct {
	m *ReplicaManager
	h *Hosted // what stood for it
}

// Run implements DiskJob.
func (j *lostJob) Run() {
	if j.h.unmade {
		return // it had never been made
	}
	j.m.keeper().keep(receipt.Subject{
		ID: j.h.id, TP: j.h.tp, Cause: receipt.Refill, Detail: j.h.reason + "; the replica is filled anew from the cluster",
	}, &log.Removal{FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch})
}

// Done implements DiskJob.
func (j *lostJob) Done() {}
