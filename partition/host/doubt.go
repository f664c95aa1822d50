package host

import (
	"errors"
	"io/fs"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
)

// doubtFile lists, in each log directory, the partitions of which an fsync has
// failed. What the kernel still shows of their logs need not be on the disk, and a
// later fsync that succeeds says nothing of it, also in another process. So the
// next start treats these logs, and their seats in ISR and ELR, as if power had
// been lost. See docs/formats/log-directory.md.
const doubtFile = ".tidemark_doubt"

// doubts is the list of one directory.
type doubts struct {
	mu sync.Mutex
	// inherited are those of earlier processes, until the controller has been told.
	inherited replicaSet
	// own are those of this process, and those of earlier ones that it could not
	// open either.
	own replicaSet
	// unwritten: the file lacks some of them, and nothing else that the next start
	// will see tells of it.
	unwritten bool
}

// read returns false if the file is there and can't be read: then every partition
// of the directory is in doubt.
func (v *doubts) read(d *Dir) bool {
	v.inherited, v.own = make(replicaSet), make(replicaSet)
	text, err := vfs.ReadFile(d.fs, d.file(doubtFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	set, ok := parseReplicas(text)
	if ok {
		v.inherited = set
	}
	return ok
}

// has says whether an earlier process left the partition in doubt.
func (v *doubts) has(id model.TopicIDPartition) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inherited[id]
}

// change replaces the file if change says that it has to.
func (v *doubts) change(d *Dir, change func() bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !change() && !v.unwritten {
		return nil
	}
	all := make(replicaSet)
	for _, set := range []replicaSet{v.inherited, v.own} {
		for id := range set { // order-free: a set
			all[id] = true
		}
	}
	err := all.write(d.fs, d.file(doubtFile))
	v.unwritten = err != nil
	return err
}

// add notes a partition durably.
func (v *doubts) add(d *Dir, id model.TopicIDPartition) error {
	return v.change(d, func() bool {
		old := v.own[id] || v.inherited[id]
		v.own[id] = true
		return !old
	})
}

// told forgets what the controller knows now.
func (v *doubts) told(d *Dir) error {
	return v.change(d, func() bool {
		n := len(v.inherited)
		for id := range v.own { // order-free: a set
			if v.inherited[id] {
				n--
			}
		}
		clear(v.inherited)
		return n > 0
	})
}

// forget takes partitions off the list whose files have left their names for good:
// what is made under those is new.
func (v *doubts) forget(d *Dir, ids []model.TopicIDPartition) error {
	return v.change(d, func() (some bool) {
		for _, id := range ids {
			some = some || v.own[id] || v.inherited[id]
			delete(v.own, id)
			delete(v.inherited, id)
		}
		return some
	})
}

// doubt notes durably that an fsync of a partition's log has failed. It waits for
// the disk. Where the list can't be written the directory's next start is to be
// one after a loss of power as a whole; where that can't be noted either, all
// directories'. If none takes even that, each checkpoint tries again.
func (m *ReplicaManager) doubt(d *Dir, id model.TopicIDPartition) {
	if err := d.doubts.add(d, id); err != nil {
		m.doubtAll(d, err)
	}
}

// doubtAgain tries what doubt could not do.
func (m *ReplicaManager) doubtAgain(d *Dir) {
	d.doubts.mu.Lock()
	unwritten := d.doubts.unwritten
	d.doubts.mu.Unlock()
	if !unwritten {
		return
	}
	if err := d.doubts.change(d, func() bool { return true }); err != nil {
		m.doubtAll(d, err)
	}
}

func (m *ReplicaManager) doubtAll(d *Dir, err error) {
	noted := d.distrust()
	for _, other := range m.deps.Dirs.All() {
		if noted {
			break
		}
		noted = other != d && other.distrust()
	}
	if noted {
		d.doubts.mu.Lock()
		d.doubts.unwritten = false
		d.doubts.mu.Unlock()
	}
	m.logger.Error("a failed fsync could not be noted", zap.String("dir", d.path),
		zap.Bool("next start is after a power failure", noted), zap.Error(err))
	if !vfs.IsNoSpace(err) {
		m.dirFailed(d, err)
	}
}

// distrust has the next start of the directory be one after a loss of power,
// whatever else it finds. It reports whether that is on the disk.
func (d *Dir) distrust() bool {
	d.runMu.Lock()
	defer d.runMu.Unlock()
	d.distrusted = true
	d.amend()
	if writeRun(d.fs, d.file(runFile), d.run) == nil {
		return true
	}
	// No record proves nothing either.
	return d.fs.Remove(d.file(runFile)) == nil
}

// amend has the record say what the next start must hear. The lock is held.
func (d *Dir) amend() {
	if d.distrusted {
		d.run.Stop, d.run.Told = log.StopPower, false
	}
}

// Doubtful returns the replicas whose logs are there, but may have lost what the
// cluster counts on: for the registration.
func (m *ReplicaManager) Doubtful() (ids []model.TopicIDPartition) {
	for _, h := range m.All() {
		if h.dir != nil && h.State().View != nil && (h.dir.doubts.has(h.id) || h.dir.stopOf(h.id, h.tp) > h.dir.stop && h.dir.uncleanStop == log.StopPower) {
			ids = append(ids, h.id)
		}
	}
	return ids
}
