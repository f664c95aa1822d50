package host

import (
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

// A damaged replica is filled anew while the broker runs, once the cluster does not
// count on it any more and another leads: its directory is set aside under the name
// of a stray one, its files as they were found, and a new log beside it follows the
// leader. When the new one is in sync, the old files go to the kept bytes, with a
// receipt. A lost replica goes the same way, without files. Source: rule 2.8 of the
// project.
//
// A crash anywhere leaves either the damaged directory under its own name, which
// is found damaged again, or none, or the new one; and what was set aside is found
// by the note of damage in it.

// asideDir is a damaged partition directory that was set aside.
type asideDir struct {
	dir  *Dir
	name string
	id   model.TopicIDPartition
	tp   model.TopicPartition
	// highWatermark is what the damaged replica knew last.
	highWatermark model.Offset
	// leaving: it is on its way to the kept bytes.
	leaving bool
}

// refillTry is when a partition was filled anew last, and how long to wait before
// that is done again: a disk that spoils what it is given is not given it for ever.
type refillTry struct {
	at   model.Instant
	wait model.Instant
}

const (
	refillWait    = model.Instant(60e9)
	refillWaitMax = model.Instant(3600e9)
)

// given says whether the cluster does not count on this broker's replica, and has
// another to fill it from.
func (m *ReplicaManager) given(reg *metadata.PartitionRegistration) bool {
	self := m.deps.Self
	return reg.Leader != model.NoLeader && reg.Leader != self && !reg.InISR(self) && !reg.InELR(self)
}

// mayRefill says whether it is time for a damaged replica to be filled anew.
func (m *ReplicaManager) mayRefill(h *Hosted, reg *metadata.PartitionRegistration) bool {
	try := m.refills[h.id]
	return m.given(reg) && h.dir.Online() && !h.dir.behind && (try.wait == 0 || m.deps.RT.Now().Mono-try.at >= try.wait)
}

// awayJob sets a damaged partition's directory aside, so that a new log can be made
// in its place.
type awayJob struct {
	h      *Hosted
	damage *log.CorruptionError
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
	if _, err := d.fs.Stat(filepath.Join(d.path, dirName)); err != nil {
		return
	}
	// Who finds it later knows by the note what it is.
	if j.err = log.NoteDamage(d.fs, j.damage); j.err == nil {
		j.name, j.err = m.rename(d, dirName, j.h.tp, log.StrayDirSuffix)
	}
}

// setAway sets directories of damaged partitions aside and returns in whose place a
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
		failed[slices.Index(dirs, d)] = d.fs.SyncDir(d.path)
	})
	for _, d := range done {
		if err := failed[slices.Index(dirs, d)]; err != nil {
			m.dirFailed(d, err)
			continue
		}
		for _, j := range of[d] {
			if j.err != nil {
				m.logger.Debug("a damaged partition can't be set aside yet", name(j.h), zap.Error(j.err))
				continue
			}
			m.isAway(j)
			ready = append(ready, j.h)
		}
	}
	return ready
}

// isAway notes what was set aside.
func (m *ReplicaManager) isAway(j *awayJob) {
	h := j.h
	if j.name != "" {
		h.dir.partitions--
		a := asideDir{dir: h.dir, name: j.name, id: h.id, tp: h.tp}
		if s := h.lastOnline.Load(); s != nil {
			a.highWatermark = s.HighWatermark
		}
		m.asides = append(m.asides, &a)
		m.logger.Warn("a damaged partition was set aside and is filled anew", name(h),
			zap.String("dir", h.dir.path), zap.String("is", j.name), zap.Int32("leader", int32(j.leader)))
	}
	if m.refills == nil {
		m.refills = make(map[model.TopicIDPartition]refillTry)
	}
	wait := min(max(2*m.refills[h.id].wait, refillWait), refillWaitMax)
	m.refills[h.id] = refillTry{at: m.deps.RT.Now().Mono, wait: wait}
}

// findAside takes over a directory that an earlier process has set aside.
func (m *ReplicaManager) findAside(d *Dir, dirName string, tp model.TopicPartition, highWatermark model.Offset) {
	names, err := d.fs.List(filepath.Join(d.path, dirName))
	if err != nil {
		return
	}
	for _, n := range names {
		if strings.HasSuffix(n, log.DamagedSuffix) {
			f := &foundDir{dir: d, name: dirName, tp: tp, id: model.TopicIDPartition{Partition: tp.Partition}}
			f.readMetadata()
			if f.reason == "" && !f.blank {
				m.asides = append(m.asides, &asideDir{dir: d, name: dirName, id: f.id, tp: tp, highWatermark: highWatermark})
				m.without.Add(1)
			}
			return
		}
	}
}

// partAsides gives up what was set aside of the replicas that are in sync again.
func (m *ReplicaManager) partAsides() {
	left := m.asides[:0]
	for _, a := range m.asides {
		reg := m.image.PartitionByID(a.id)
		if reg == nil || !reg.HasReplica(m.deps.Self) || !a.dir.Online() {
			continue // the topic is gone, or the replica: it stays as any stray one does
		}
		left = append(left, a)
		h := m.GetByID(a.id)
		if a.leaving || h == nil || !reg.InISR(m.deps.Self) || h.State().Role == partition.Offline {
			continue
		}
		a.leaving = true
		a.dir.flusher.Submit(&partJob{m: m, a: a, leader: reg.Leader}, false)
	}
	clear(m.asides[len(left):])
	m.asides = left
}

// partJob takes a directory that was set aside to the kept bytes.
type partJob struct {
	m      *ReplicaManager
	a      *asideDir
	leader model.BrokerID
	err    error
}

// Run keeps the files and then removes them.
func (j *partJob) Run() {
	dir := filepath.Join(j.a.dir.path, j.a.name)
	r, err := log.DescribeDir(j.a.dir.fs, dir)
	if err != nil {
		j.err = err
		return
	}
	j.m.keeper().keep(receipt.Subject{
		ID: j.a.id, TP: j.a.tp, Dir: j.a.dir.path, Cause: receipt.Refill, HighWatermark: j.a.highWatermark,
		Detail: "the replica was damaged, and was filled anew from the cluster: it is in sync again",
	}, &r)
	if err := j.a.dir.fs.RemoveAll(dir); err != nil {
		j.err = err
	}
}

// Done has the list forget it, or try again.
func (j *partJob) Done() {
	forget := func() {
		j.a.leaving = false
		if j.err != nil {
			j.m.logger.Warn("a damaged partition's files are left", zap.Stringer("partition", j.a.tp), zap.Error(j.err))
			return
		}
		for i, a := range j.m.asides {
			if a == j.a {
				j.m.asides = append(j.m.asides[:i:i], j.m.asides[i+1:]...)
				break
			}
		}
	}
	if j.m.deps.Serial == nil {
		forget()
		return
	}
	j.m.deps.Serial(forget)
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
