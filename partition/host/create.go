package host

import (
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// create makes the logs of new partitions. When it returns, the names of their
// directories and the inventory are durable: one sync and one file for all that
// come at a time. What is in a directory becomes durable before the partition's
// first append (see Hosted.establish): of one to which nothing was ever appended
// a power failure may leave an empty directory, and Load makes the rest anew.
// Partitions that are hosted offline already are left alone.
func (m *ReplicaManager) create(parts []*Hosted) {
	made := make(map[*Dir][]*Hosted)
	for _, h := range parts {
		if h.core != nil {
			continue
		}
		d := m.place(made)
		if d == nil {
			m.notMade(h, "no log directory is usable")
			continue
		}
		h.dir = d
		made[d] = append(made[d], h)
	}
	for _, d := range m.deps.Dirs.All() {
		if len(made[d]) > 0 {
			m.createIn(d, made[d])
		}
	}
}

// place chooses the directory in use that holds the fewest partitions, as Kafka
// does.
func (m *ReplicaManager) place(made map[*Dir][]*Hosted) *Dir {
	var best *Dir
	least := 0
	for _, d := range m.deps.Dirs.All() {
		if !d.Online() {
			continue
		}
		n := len(made[d]) + d.partitions
		if best == nil || n < least {
			best, least = d, n
		}
	}
	return best
}

func (m *ReplicaManager) createIn(d *Dir, parts []*Hosted) {
	plogs := make([]*log.Log, len(parts))
	errs := make([]error, len(parts))
	m.parallel(createWorkers, len(parts), func(i int) { plogs[i], errs[i] = m.createLog(d, parts[i]) })
	var ids []model.TopicIDPartition
	for i, h := range parts {
		if errs[i] == nil {
			ids = append(ids, h.id)
		}
	}
	err := d.fs.SyncDir(d.path)
	unlisted := true
	if err == nil {
		unlisted, err = d.inventory.enter(d, ids)
	}
	if err != nil && (!unlisted || !vfs.IsNoSpace(err)) {
		m.dirFailed(d, err)
	}
	for i, h := range parts {
		switch {
		case errs[i] != nil:
			m.notMade(h, errs[i].Error())
		case err != nil:
			_ = plogs[i].Close(false)
			if unlisted {
				m.unmake(d, h)
			}
			m.notMade(h, err.Error())
		default:
			d.partitions++
			m.hostOnline(h, plogs[i], 0, m.deps.RT.Now())
		}
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
func (m *ReplicaManager) createLog(d *Dir, h *Hosted) (plog *log.Log, err error) {
	name := log.DirName(h.tp)
	dir := filepath.Join(d.path, name)
	if _, err := d.fs.Stat(dir); err == nil {
		// A directory of that name that Load didn't take is another topic's; its
		// bytes are not ours to open.
		if _, err := m.rename(d, name, h.tp, log.StrayDirSuffix); err != nil {
			return nil, fmt.Errorf("set aside %s: %w", dir, err)
		}
		if err := d.fs.SyncDir(d.path); err != nil {
			return nil, err
		}
	}
	if err := d.forget(h.tp); err != nil {
		return nil, fmt.Errorf("checkpoints of an earlier %s: %w", h.tp, err)
	}
	defer func() {
		if err != nil {
			m.unmake(d, h)
		}
	}()
	if err := d.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, checkpoint.PartitionMetadataFile)
	if err := checkpoint.PutPartitionMetadata(d.fs, path, checkpoint.PartitionMetadata{TopicID: h.id.TopicID}); err != nil {
		return nil, err
	}
	plog, _, err = log.Open(log.Options{
		FS: d.fs, Dir: dir, Fresh: true, Partition: h.tp, Config: logConfig(h.topic), Rand: m.rand(),
		Stop: log.StopPower, Now: m.deps.RT.Now(), Files: m.deps.Files,
		LowerRecoveryPoint: func(to model.Offset) error { return d.lowerRecoveryPoint(h.tp, to) }, Keep: h.keep,
	})
	return plog, err
}

// writeMetadata makes a partition directory's own identity durable.
func (m *ReplicaManager) writeMetadata(d *Dir, name string, id model.TopicIDPartition) error {
	path := filepath.Join(d.path, name, checkpoint.PartitionMetadataFile)
	return checkpoint.WritePartitionMetadata(d.fs, path, checkpoint.PartitionMetadata{TopicID: id.TopicID})
}

// setAside renames the directory of a partition that this broker should not
// have. It is never deleted: what the metadata lacks was not necessarily removed.
func (m *ReplicaManager) setAside(f *foundDir) {
	name, err := m.rename(f.dir, f.name, f.tp, log.StrayDirSuffix)
	if err == nil {
		err = f.dir.fs.SyncDir(f.dir.path)
	}
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
