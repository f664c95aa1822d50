package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// metadataTopic is the metadata quorum's own log, which stands among the
// partitions but is not one of them.
const metadataTopic = "__cluster_metadata"

// ErrOldImage reports an image of the metadata that is older than one which the
// log directories have seen.
var ErrOldImage = errors.New("metadata is older than what the log directories have seen")

// foundDir is a partition's directory on the disk.
type foundDir struct {
	dir  *Dir
	name string
	tp   model.TopicPartition
	id   model.TopicIDPartition
	// blank: it has no partition.metadata, which comes before the first append:
	// nothing has been appended.
	blank bool
	// torn: its partition.metadata makes no sense.
	torn bool
	// reason is set when the partition can't be served, err if that is an error.
	reason string
	err    error
	// checkpoints
	recovery, start, highWatermark, cleaned model.Offset
}

// LoadSummary says what Load found.
type LoadSummary struct {
	Loaded  int
	Created int
	Offline int
	Stray   int
}

// Load opens every partition that the image gives this broker and that a
// directory holds. Damage takes that partition offline, with its files as they
// are. A directory of a partition that the image doesn't give to this broker is
// stray: it is set aside under another name, never deleted. Load is called once,
// before Apply, and starts the checkpoints and the watchdog. An image older than
// one that the directories have seen is refused: everything it lacks would look
// stray.
func (m *ReplicaManager) Load(img *metadata.Image) (LoadSummary, error) {
	if applied := m.deps.Dirs.applied(); img.At().Offset < applied {
		return LoadSummary{}, fmt.Errorf("%w: image at %s, log directories have seen %d", ErrOldImage, img.At(), applied)
	}
	m.image = img
	m.imageAt.Store(int64(img.At().Offset))
	found := m.scan()
	var sum LoadSummary
	var open []*foundDir
	var renamed []*Dir
	byID := make(map[model.TopicIDPartition]*foundDir)
	for _, f := range found {
		if !m.belongs(img, f) {
			m.setAside(f)
			sum.Stray++
			if !slices.Contains(renamed, f.dir) {
				renamed = append(renamed, f.dir)
			}
			continue
		}
		if other := byID[f.id]; other != nil {
			other.reason = fmt.Sprintf("the partition is in %s and in %s", other.dir.path, f.dir.path)
			continue
		}
		byID[f.id] = f
		f.dir.partitions++
		open = append(open, f)
	}
	for _, d := range renamed { // one sync for all
		if !d.Online() {
			continue
		}
		if err := d.fs.SyncDir(d.path); err != nil {
			m.dirFailed(d, err)
		}
	}
	hosted := m.openAll(open)
	more := m.absent(img, byID)
	m.change(append(hosted, more...), nil)
	for _, h := range m.All() {
		switch s := h.State(); {
		case s.Role == partition.Offline:
			sum.Offline++
		case byID[h.id] == nil:
			sum.Created++
		default:
			sum.Loaded++
		}
	}
	m.recordInventory()
	m.noteApplied(img)
	m.startTasks()
	m.syncTails()
	return sum, nil
}

// scan lists the partition directories of all log directories in use.
func (m *ReplicaManager) scan() []*foundDir {
	var found []*foundDir
	for _, d := range m.deps.Dirs.All() {
		if !d.Online() {
			continue
		}
		names, err := d.fs.List(d.path)
		if err != nil {
			m.dirFailed(d, err)
			continue
		}
		// A process that died while it made a partition may have left a directory
		// whose name is not durable yet.
		if err := d.fs.SyncDir(d.path); err != nil {
			m.dirFailed(d, err)
			continue
		}
		starts, err := d.readVital(checkpoint.LogStartFile, m.logger, m.keeper())
		if err != nil {
			m.dirFailed(d, err)
			continue
		}
		recovery, err := d.readVital(checkpoint.RecoveryPointFile, m.logger, m.keeper())
		if err != nil {
			m.dirFailed(d, err)
			continue
		}
		highWatermarks := d.readOffsets(checkpoint.HighWatermarkFile, m.logger, m.keeper())
		cleaned := d.readOffsets(checkpoint.CleanerFile, m.logger, m.keeper())
		d.files.recovery, d.files.starts, d.files.highWatermarks, d.files.cleaned = recovery, starts, highWatermarks, cleaned
		for _, name := range names {
			tp, suffix, ok := log.ParseDirName(name)
			if !ok || tp.Topic == metadataTopic {
				continue
			}
			switch suffix {
			case log.DeleteDirSuffix:
				m.retire(d, name, 0)
				continue
			case log.StrayDirSuffix:
				m.findAside(d, name, tp, highWatermarks[tp])
				continue
			case "":
			default:
				continue
			}
			f := &foundDir{
				dir: d, name: name, tp: tp, id: model.TopicIDPartition{Partition: tp.Partition},
				recovery: recovery[tp], start: starts[tp], highWatermark: highWatermarks[tp], cleaned: cleaned[tp],
			}
			f.readMetadata()
			found = append(found, f)
		}
	}
	return found
}

func (f *foundDir) readMetadata() {
	meta, ok, err := checkpoint.ReadPartitionMetadata(f.dir.fs, filepath.Join(f.dir.path, f.name, checkpoint.PartitionMetadataFile))
	switch {
	case err != nil:
		var bad *checkpoint.FormatError
		f.reason, f.err, f.torn = err.Error(), err, errors.As(err, &bad)
	case !ok:
		f.blank = true
	default:
		f.id.TopicID = meta.TopicID
	}
}

// belongs says whether the image gives the directory's partition to this broker,
// and fills in the id of one that has lost its partition.metadata. Such a one is
// taken for the topic of that name only if it holds nothing; it is stray if it
// holds records, since nobody can tell whose they are.
func (m *ReplicaManager) belongs(img *metadata.Image, f *foundDir) bool {
	t := img.Topic(f.tp.Topic)
	if t == nil {
		return false
	}
	reg := t.Partition(f.tp.Partition)
	if reg == nil || !reg.HasReplica(m.deps.Self) {
		return false
	}
	if why := f.reason; f.torn {
		// It became durable before the first append, so that a crash can only have
		// torn that of a partition which holds nothing.
		f.reason = ""
		if f.blank = m.holdsNothing(f); !f.blank || f.reason != "" {
			f.reason, f.blank = why, false
		} else {
			f.keepTorn(m.keeper(), why)
		}
	}
	if f.reason != "" {
		f.id.TopicID = t.ID // unreadable: it stays where it is, offline
		return true
	}
	if f.blank {
		f.id.TopicID = t.ID
		return m.holdsNothing(f)
	}
	return f.id.TopicID == t.ID
}

func (m *ReplicaManager) holdsNothing(f *foundDir) bool {
	names, err := f.dir.fs.List(filepath.Join(f.dir.path, f.name))
	if err != nil {
		f.reason, f.err = err.Error(), err
		return true
	}
	for _, name := range names {
		info, err := f.dir.fs.Stat(filepath.Join(f.dir.path, f.name, name))
		if err != nil || (filepath.Ext(name) == ".log" && info.Size > 0) {
			return false
		}
	}
	return true
}

// openAll opens logs, those of all directories side by side. As many of one are read
// at a time as num.recovery.threads.per.data.dir says; those that are read, and wait
// for the disk to take what was changed, don't count.
func (m *ReplicaManager) openAll(found []*foundDir) []*Hosted {
	hosted := make([]*Hosted, len(found))
	reading := make(map[*Dir]chan struct{})
	for _, f := range found {
		if reading[f.dir] == nil {
			reading[f.dir] = make(chan struct{}, max(1, m.deps.Broker.Storage.RecoveryThreads))
		}
	}
	m.parallelIn(len(found), func(i int) *Dir { return found[i].dir }, func(i int) {
		turn := reading[found[i].dir]
		turn <- struct{}{}
		checked := sync.OnceFunc(func() { <-turn })
		hosted[i] = m.open(found[i], checked)
		checked()
	})
	return hosted
}

// open opens one partition's log; checked is told when what it holds was read. It
// never fails: what can't be opened is hosted offline.
func (m *ReplicaManager) open(f *foundDir, checked func()) *Hosted {
	h := newHosted(m, f.id, f.tp)
	h.dir = f.dir
	h.topic = m.deps.Topic(m.image, f.tp.Topic)
	// Whatever happens to the log, its checkpoints are kept as they are.
	kept := &State{RecoveryPoint: f.recovery}
	kept.LogStart, kept.HighWatermark = f.start, f.highWatermark
	if f.reason != "" {
		h.lastOnline.Store(kept)
		if h.diskError.Store(diskErrorOf(f.err)); h.diskError.Load() != nil {
			h.diskError.Load().nameless = true
		}
		m.hostOffline(h, f.reason)
		return h
	}
	h.keeping = keeping{highWatermark: f.highWatermark}
	now := m.deps.RT.Now()
	doubtful, stop := f.dir.doubts.has(f.id), f.dir.stopOf(f.id, f.tp)
	o := log.Options{
		FS: f.dir.fs, Dir: filepath.Join(f.dir.path, f.name), Partition: f.tp,
		Config: logConfig(h.topic), Rand: m.rand(), Stop: stop, Renew: doubtful,
		Dense:         !h.topic.CleanupPolicy.Compact && f.cleaned == 0,
		RecoveryPoint: f.recovery, LogStart: f.start, CleanedTo: f.cleaned, Now: now, Files: m.deps.Files,
		LowerRecoveryPoint: func(to model.Offset) error { return f.dir.lowerRecoveryPoint(f.tp, to) }, Keep: h.keep,
		Checked: checked,
	}
	plog, report, err := log.Open(o)
	if err != nil {
		var damage *log.CorruptionError
		if errors.As(err, &damage) {
			m.events.damaged(h, damage)
			h.damage.Store(damage)
			h.remnant.Store(m.openRemnant(h, o, damage, nil))
		}
		if doubtful || errors.Is(err, log.ErrPoisoned) || damage == nil && stop == log.StopPower {
			// What power took of it nobody has found out yet: the next start has to,
			// however this process ends.
			m.doubt(f.dir, f.id)
		}
		if damage == nil {
			h.diskError.Store(diskErrorOf(err))
		}
		h.lastOnline.Store(kept)
		m.hostOffline(h, err.Error())
		return h
	}
	m.events.loaded(h, &report)
	if len(report.Removed) > 0 {
		// Nobody reads yet: what was cut off leaves the files at once. Else each
		// start after a kill would find it again, and so would another broker on
		// this directory, for which it is no torn end once other segments follow.
		if _, err := plog.Reclaim(); err != nil {
			m.logger.Warn("bytes that were cut from a log are still in its files", name(h), zap.Error(err))
		}
	}
	m.hostOnline(h, plog, partition.Loaded{HighWatermark: f.highWatermark, DurableStart: f.start}, now)
	if f.blank {
		h.established.Store(false)
	}
	return h
}

// hostOnline hosts a partition with its log; found has what the checkpoints say.
func (m *ReplicaManager) hostOnline(h *Hosted, plog *log.Log, found partition.Loaded, now model.Now) {
	h.plog = plog
	h.established.Store(plog.LogEnd() > 0)
	found.LogStart, found.LogEnd = plog.LogStart(), plog.LogEnd()
	found.Durable, found.AppendTime = plog.RecoveryPoint(), model.NoTimestamp
	if stampsItself(h.topic) {
		// Of all segments, whatever of them can still be read: a newest record that
		// was deleted must not let the times begin anew.
		for _, s := range plog.View().Segments() {
			found.AppendTime = max(found.AppendTime, s.MaxTimestamp)
		}
	}
	h.core = partition.New(m.deps.Self, plog, m.coreConfig(h.topic), found, now)
	h.publish(nil) // nobody reads yet
}

func (m *ReplicaManager) hostOffline(h *Hosted, reason string) {
	h.reason = reason
	h.core = partition.NewOffline(m.deps.Self, partition.CodeStorageError)
	m.events.offline(h, reason)
	h.publish(nil) // nobody reads yet
	if h.dir == nil || h.spoilt() {
		m.without.Add(1)
	}
	m.trouble()
}

// absent hosts the partitions that the image gives this broker and no directory
// holds. One that is new is created. One on which the cluster counts, and which
// is not new, has been lost: made anew it would be an empty member of the ISR.
func (m *ReplicaManager) absent(img *metadata.Image, byID map[model.TopicIDPartition]*foundDir) []*Hosted {
	var create []*Hosted
	var all []*Hosted
	for t := range img.Topics() {
		for n, reg := range t.Partitions {
			id := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			if !reg.HasReplica(m.deps.Self) || byID[id] != nil {
				continue
			}
			h := newHosted(m, id, model.TopicPartition{Topic: t.Name, Partition: int32(n)})
			h.topic = m.deps.Topic(img, t.Name)
			if why := m.lost(id, reg); why != "" {
				m.hostOffline(h, why)
				all = append(all, h)
				continue
			}
			create = append(create, h)
		}
	}
	return append(all, m.create(create)...)
}

// lost says why an absent replica may not be made anew, "" if it may.
func (m *ReplicaManager) lost(id model.TopicIDPartition, reg *metadata.PartitionRegistration) string {
	counted := reg.InISR(m.deps.Self) || reg.InELR(m.deps.Self) || slices.Contains(reg.LastKnown, m.deps.Self)
	if !counted || mutant.On("host-lost-made-anew") {
		return ""
	}
	for _, d := range m.deps.Dirs.All() {
		switch {
		case !d.Online():
			return fmt.Sprintf("no log directory in use holds the partition, and %s is offline", d.path)
		case !d.inventory.isKnown():
			return fmt.Sprintf("no log directory holds the partition, and %s doesn't say what was created in it", d.path)
		case d.inventory.lists(id):
			return fmt.Sprintf("the partition was created in %s and is gone", d.path)
		}
	}
	return ""
}

// recordInventory makes the lists say what the directories hold and what they
// should hold and don't. Nothing is dropped here: only a removal seen in the
// committed log does that.
func (m *ReplicaManager) recordInventory() {
	first := true
	for _, d := range m.deps.Dirs.All() {
		if !d.Online() || !d.hasMeta {
			continue
		}
		var add []model.TopicIDPartition
		for _, h := range m.All() {
			if h.dir == d || (first && h.dir == nil && !h.unmade && !m.listed(h.id)) {
				add = append(add, h.id)
			}
		}
		first = false
		if err := d.inventory.change(d, add, nil); err != nil {
			m.logger.Warn("inventory not written", zap.String("dir", d.path), zap.Error(err))
		}
	}
}

// listed says whether any directory says that the partition was created in it.
func (m *ReplicaManager) listed(id model.TopicIDPartition) bool {
	for _, d := range m.deps.Dirs.All() {
		if d.inventory.lists(id) {
			return true
		}
	}
	return false
}
