package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// create makes the logs of new partitions and returns what is to be found of them.
// When it returns, the names of their directories and the inventory are durable: one
// sync and one file for all that come at a time. What is in a directory becomes
// durable before the partition's first append (see Hosted.establish): of one to which
// nothing was ever appended a power failure may leave an empty directory, and Load
// makes the rest anew. Partitions that are hosted offline already are left alone.
func (m *ReplicaManager) create(parts []*Hosted) []*Hosted {
	made := make(map[*Dir][]*Hosted)
	found := make([]*Hosted, 0, len(parts))
	for _, h := range parts {
		if h.core != nil {
			found = append(found, h)
			continue
		}
		d := m.place(made)
		if d == nil {
			m.notMade(h, "no log directory is usable")
			found = append(found, h)
			continue
		}
		made[d] = append(made[d], h)
	}
	jobs, done := m.makeLogs(made, false)
	for _, mk := range jobs {
		if slices.Contains(done, mk.dir) {
			m.host(mk)
			found = append(found, mk.parts...)
			continue
		}
		for _, h := range mk.parts { // until its disk answers
			p := newHosted(m, h.id, h.tp)
			p.topic, p.beingMade = h.topic, true
			m.notMade(p, fmt.Sprintf("the disk of %s does not answer", mk.dir.path))
			mk.instead = append(mk.instead, p)
		}
		found = append(found, mk.instead...)
	}
	return found
}

// making are new logs of one directory. Until the errand is done it has all but the
// last field.
type making struct {
	dir   *Dir
	parts []*Hosted
	// again: they could not be made before, and are tried one after another.
	again bool
	plogs []*log.Log
	errs  []error
	err   error // of what is theirs together
	// instead are what stands in the index for parts meanwhile, in the same order;
	// nil: nothing.
	instead []*Hosted
}

// makeLogs has logs made in several directories, and returns which of them are done.
// The others keep theirs until they have caught up.
func (m *ReplicaManager) makeLogs(parts map[*Dir][]*Hosted, again bool) (jobs []*making, done []*Dir) {
	var dirs []*Dir
	of := make(map[*Dir]*making)
	for _, d := range m.deps.Dirs.All() {
		if len(parts[d]) > 0 {
			n := len(parts[d])
			of[d] = &making{dir: d, parts: parts[d], again: again, plogs: make([]*log.Log, n), errs: make([]error, n)}
			jobs, dirs = append(jobs, of[d]), append(dirs, d)
		}
	}
	done = m.onDisks(dirs, func(d *Dir) { m.createIn(of[d]) })
	for _, d := range dirs {
		if !slices.Contains(done, d) {
			d.making = of[d]
		}
	}
	return jobs, done
}

// host serves the logs that were made.
func (m *ReplicaManager) host(mk *making) {
	for i, h := range mk.parts {
		switch {
		case mk.errs[i] != nil:
			m.notMade(h, mk.errs[i].Error())
		case mk.err != nil:
			m.notMade(h, mk.err.Error())
		default:
			h.dir = mk.dir
			mk.dir.partitions++
			m.hostOnline(h, mk.plogs[i], partition.Loaded{}, m.deps.RT.Now())
		}
	}
}

// settle puts the logs that a directory has made late in the place of what stands
// for them, but for those of partitions that have left meanwhile.
func (m *ReplicaManager) settle(mk *making) {
	m.host(mk)
	var add, drop []*Hosted
	for i, h := range mk.parts {
		if was := mk.instead[i]; m.GetByID(was.id) == was {
			add, drop = append(add, h), append(drop, was)
		} else if h.dir != nil {
			mk.dir.leaving = append(mk.dir.leaving, leaving{h, false})
		}
	}
	m.change(add, drop)
}

// place chooses the directory in use that holds the fewest partitions, as Kafka
// does, but none whose disk hangs.
func (m *ReplicaManager) place(made map[*Dir][]*Hosted) *Dir {
	var best *Dir
	least := 0
	for _, d := range m.deps.Dirs.All() {
		if !d.Online() || d.behind {
			continue
		}
		n := len(made[d]) + d.partitions
		if best == nil || n < least {
			best, least = d, n
		}
	}
	return best
}

// createIn makes the logs. It belongs to the directory's errand.
func (m *ReplicaManager) createIn(mk *making) {
	d := mk.dir
	if mk.again {
		m.createAgain(mk)
	} else {
		// One directory of each topic says at once whose it is: the others get their
		// partition.metadata before their first append, and are told by their names
		// until then.
		named := make([]bool, len(mk.parts))
		topics := make(map[model.TopicID]bool)
		for i, h := range mk.parts {
			named[i] = !topics[h.id.TopicID]
			topics[h.id.TopicID] = true
		}
		m.parallel(createWorkers, len(mk.parts), func(i int) { mk.plogs[i], mk.errs[i] = m.createLog(d, mk.parts[i], named[i]) })
	}
	var ids []model.TopicIDPartition
	for i, h := range mk.parts {
		if mk.errs[i] == nil {
			ids = append(ids, h.id)
		}
	}
	if len(ids) == 0 && mk.again {
		return
	}
	mk.err = d.fs.SyncDir(d.path)
	unlisted := true
	if mk.err == nil {
		unlisted, mk.err = d.inventory.enter(d, ids)
	}
	if mk.err == nil {
		return
	}
	if !unlisted || !mk.again && !vfs.IsNoSpace(mk.err) {
		m.dirFailed(d, mk.err)
	}
	for i, h := range mk.parts {
		if mk.errs[i] != nil {
			continue
		}
		_ = mk.plogs[i].Close(false)
		if unlisted {
			m.unmake(d, h)
		}
	}
}

// createAgain tries to make logs until there is no room for one: nor is there for the
// others then.
func (m *ReplicaManager) createAgain(mk *making) {
	for i, h := range mk.parts {
		if i > 0 && vfs.IsNoSpace(mk.errs[i-1]) {
			mk.errs[i] = mk.errs[i-1]
			continue
		}
		mk.plogs[i], mk.errs[i] = m.createLog(mk.dir, h, true)
	}
}

// createWorkers is how many new partitions' directories are synced at a time.
const createWorkers = 8

// notMade hosts a new partition offline until revive has made its log.
func (m *ReplicaManager) notMade(h *Hosted, reason string) {
	h.dir, h.unmade = nil, true
	m.hostOffline(h, reason)
}

// unmake takes away what was made of a log that could not be made whole: nothing
// has been appended to it.
func (m *ReplicaManager) unmake(d *Dir, h *Hosted) {
	if err := d.fs.RemoveAll(filepath.Join(d.path, log.DirName(h.tp))); err != nil {
		m.logger.Warn("what was made of a new partition's directory is left", name(h), zap.Error(err))
	}
}

// createLog makes one partition's directory and opens its empty log. Nothing is
// left of one that it can't make.
func (m *ReplicaManager) createLog(d *Dir, h *Hosted, named bool) (plog *log.Log, err error) {
	dir := filepath.Join(d.path, log.DirName(h.tp))
	if err := d.forget(h.tp); err != nil {
		return nil, fmt.Errorf("checkpoints of an earlier %s: %w", h.tp, err)
	}
	err = d.fs.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		// A directory of that name that Load didn't take is another topic's; its
		// bytes are not ours to open.
		if _, err := m.rename(d, log.DirName(h.tp), h.tp, log.StrayDirSuffix); err != nil {
			return nil, fmt.Errorf("set aside %s: %w", dir, err)
		}
		if err := d.fs.SyncDir(d.path); err != nil {
			return nil, err
		}
		err = d.fs.Mkdir(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.unmake(d, h)
		}
	}()
	if named {
		path := filepath.Join(dir, checkpoint.PartitionMetadataFile)
		if err := checkpoint.PutPartitionMetadata(d.fs, path, checkpoint.PartitionMetadata{TopicID: h.id.TopicID}); err != nil {
			return nil, err
		}
	}
	plog, _, err = log.Open(log.Options{
		FS: d.fs, Dir: dir, Fresh: true, Partition: h.tp, Config: logConfig(h.topic), Rand: m.rand(),
		Stop: log.StopPower, Now: m.deps.RT.Now(), Files: m.deps.Files,
		LowerRecoveryPoint: func(to model.Offset) error { return d.lowerRecoveryPoint(h.tp, to) }, Keep: h.keep,
	})
	return plog, err
}

// setAside renames the directory of a partition that this broker should not
// have; the caller makes the name durable. It is never deleted: what the metadata
// lacks was not necessarily removed.
func (m *ReplicaManager) setAside(f *foundDir) {
	suffix := log.StrayDirSuffix
	if mutant.On("host-stray-deleted") {
		suffix = log.DeleteDirSuffix
	}
	name, err := m.rename(f.dir, f.name, f.tp, suffix)
	if err != nil {
		m.dirFailed(f.dir, err)
		return
	}
	m.logger.Warn("partition directory is stray and was set aside",
		zap.String("dir", f.dir.path), zap.String("was", f.name), zap.String("is", name),
		zap.Stringer("topic id", f.id.TopicID))
}

// rename gives a partition's directory a name that says it is out of use. The
// name is durable once the log directory is synced.
func (m *ReplicaManager) rename(d *Dir, name string, tp model.TopicPartition, suffix string) (string, error) {
	m.drawsMu.Lock()
	unique := fmt.Sprintf("%016x%016x", m.draws.Uint64(), m.draws.Uint64())
	m.drawsMu.Unlock()
	to := log.RetiredDirName(tp, unique, suffix)
	if err := d.fs.Rename(filepath.Join(d.path, name), filepath.Join(d.path, to)); err != nil {
		return "", err
	}
	return to, nil
}

// dirFailed takes a whole directory out of use: its own files can't be trusted.
func (m *ReplicaManager) dirFailed(d *Dir, err error) {
	if d.Failure() != nil {
		return
	}
	d.fail(err)
	m.logger.Error("log directory is offline", zap.String("dir", d.path), zap.Error(err))
	for _, h := range m.All() {
		if h.dir == d {
			h.box.Post(&offlineMsg{code: partition.CodeStorageError, reason: "log directory failed: " + err.Error()})
		}
	}
}
