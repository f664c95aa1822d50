package host

import (
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// Apply carries out what a new image changes for this broker: partitions to
// create, to delete, to lead or follow, and settings. It is called with every
// image after the one of Load, in order. When it returns, new partitions are
// durable on the disk and every loop has its message, but for those in a directory
// that is behind (errand.go).
func (m *ReplicaManager) Apply(img *metadata.Image, d *metadata.Delta) {
	m.image = img
	var gone, fresh []*Hosted
	var changed []model.TopicIDPartition
	for i := range d.Topics {
		g, f, c := m.applyTopic(&d.Topics[i], d.Snapshot)
		gone, fresh, changed = append(gone, g...), append(fresh, f...), append(changed, c...)
	}
	var stray []*Hosted
	if d.Snapshot {
		stray, fresh = m.reconcile(img, gone, fresh)
	}
	m.remove(gone, stray)
	m.change(nil, append(slices.Clone(gone), stray...)) // before a checkpoint could write their numbers under a new topic's name
	m.change(m.create(fresh), nil)
	if len(gone)+len(stray)+len(fresh) > 0 {
		m.noteApplied(img)
	}
	m.applyConfigs(img, d)
	m.feed(img, d, changed)
	m.imageAt.Store(int64(img.At().Offset))
}

// applyTopic sorts the partitions of one changed topic into those that leave
// this broker, those that are new to it, and those that changed.
func (m *ReplicaManager) applyTopic(d *metadata.TopicDelta, snapshot bool) (gone, fresh []*Hosted, changed []model.TopicIDPartition) {
	if d.New == nil {
		if snapshot {
			return nil, nil, nil // absence from a snapshot removes nothing
		}
		for n := range d.Old.Partitions {
			if h := m.GetByID(model.TopicIDPartition{TopicID: d.Old.ID, Partition: int32(n)}); h != nil {
				gone = append(gone, h)
			}
		}
		return gone, nil, nil
	}
	for _, n := range d.Partitions {
		id := model.TopicIDPartition{TopicID: d.New.ID, Partition: n}
		reg, h := d.New.Partition(n), m.GetByID(id)
		switch mine := reg.HasReplica(m.deps.Self); {
		case mine && h == nil:
			h = newHosted(m, id, model.TopicPartition{Topic: d.New.Name, Partition: n})
			h.topic = m.deps.Topic(m.image, d.New.Name)
			if snapshot {
				if why := m.lost(id, reg); why != "" {
					m.hostOffline(h, why)
				}
			}
			fresh = append(fresh, h)
			changed = append(changed, id)
		case mine:
			changed = append(changed, id)
		case h != nil:
			gone = append(gone, h)
		}
	}
	return gone, fresh, changed
}

// reconcile compares all hosted partitions with an image that came as a
// snapshot: what it lacks is stray, what it has and we don't is new or lost.
func (m *ReplicaManager) reconcile(img *metadata.Image, gone, fresh []*Hosted) (stray, all []*Hosted) {
	known := make(map[model.TopicIDPartition]bool)
	for _, h := range append(slices.Clone(gone), fresh...) {
		known[h.id] = true
	}
	for _, h := range m.All() {
		known[h.id] = true
		reg := img.PartitionByID(h.id)
		if (reg == nil || !reg.HasReplica(m.deps.Self)) && !slices.Contains(gone, h) {
			stray = append(stray, h)
		}
	}
	for t := range img.Topics() {
		for n, reg := range t.Partitions {
			id := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			if known[id] || !reg.HasReplica(m.deps.Self) {
				continue
			}
			h := newHosted(m, id, model.TopicPartition{Topic: t.Name, Partition: int32(n)})
			h.topic = m.deps.Topic(img, t.Name)
			if why := m.lost(id, reg); why != "" {
				m.hostOffline(h, why)
			}
			fresh = append(fresh, h)
		}
	}
	return stray, fresh
}

// applyConfigs gives new settings to the partitions they concern.
func (m *ReplicaManager) applyConfigs(img *metadata.Image, d *metadata.Delta) {
	all := d.Snapshot
	names := make(map[string]bool)
	for _, r := range d.Configs {
		all = all || r.Type == metadata.BrokerResource
		names[r.Name] = names[r.Name] || r.Type == metadata.TopicResource
	}
	if !all && len(names) == 0 {
		return
	}
	var concerned []*Hosted
	for _, h := range m.All() {
		if all || names[h.tp.Topic] {
			concerned = append(concerned, h)
		}
	}
	m.tell(concerned, func(h *Hosted) { h.box.Enter(&configMsg{topic: m.deps.Topic(img, h.tp.Topic)}) })
}

// feed gives the partitions what the cluster has agreed on. The first image at
// or after this broker's registration is given to all of them, and again after
// each later registration: what changed between the two was kept from them.
func (m *ReplicaManager) feed(img *metadata.Image, d *metadata.Delta, changed []model.TopicIDPartition) {
	epoch := model.BrokerEpoch(m.registeredAt.Load())
	early := epoch == model.NoBrokerEpoch || img.At().Offset < model.Offset(epoch)
	if early && !mutant.On("host-acts-before-registration") {
		return
	}
	if m.fedUnder != epoch || d.Snapshot {
		m.fedUnder = epoch
		m.tell(m.All(), func(h *Hosted) { m.register(img, h) })
		return
	}
	var concerned []*Hosted
	done := make(map[model.TopicIDPartition]bool, len(changed))
	for _, id := range changed {
		done[id] = true
		if h := m.GetByID(id); h != nil {
			concerned = append(concerned, h)
		}
	}
	if len(d.Brokers) > 0 {
		for _, h := range m.All() {
			reg := img.PartitionByID(h.id)
			if reg != nil && !done[h.id] && slices.ContainsFunc(d.Brokers, reg.HasReplica) {
				concerned = append(concerned, h)
			}
		}
	}
	m.tell(concerned, func(h *Hosted) { m.register(img, h) })
}

// register gives one partition its registration.
func (m *ReplicaManager) register(img *metadata.Image, h *Hosted) {
	reg := img.PartitionByID(h.id)
	if reg == nil {
		return
	}
	msg := &registerMsg{reg: partition.Registration{
		At: img.At(), Leader: reg.Leader, LeaderEpoch: reg.LeaderEpoch,
		PartitionEpoch: reg.PartitionEpoch, ISR: reg.ISR,
	}}
	for _, id := range reg.Replicas {
		peer := partition.Peer{ID: id, Epoch: model.NoBrokerEpoch}
		if b := img.Broker(id); b != nil {
			peer.Epoch, peer.Alive, peer.Eligible = b.Epoch, !b.Fenced, b.Active()
		}
		msg.reg.Replicas = append(msg.reg.Replicas, peer)
	}
	h.box.Enter(msg)
}

// noteApplied makes it durable that the directories have seen the image.
func (m *ReplicaManager) noteApplied(img *metadata.Image) {
	m.deps.Dirs.noteAppliedIn(m, img.At().Offset, m.deps.Dirs.All()...)
}

// remove takes partitions away: those whose removal stands in the committed log
// are deleted, stray ones set aside. Those of a directory that is behind wait.
func (m *ReplicaManager) remove(gone, stray []*Hosted) {
	of := make(map[*Dir][]leaving)
	take := func(h *Hosted, stray bool) {
		switch {
		case h.dir == nil:
			m.takeDown(h, partition.CodeUnknownTopicOrPartition, "the topic was deleted")
		case h.dir.behind:
			h.dir.leaving = append(h.dir.leaving, leaving{h, stray})
		default:
			of[h.dir] = append(of[h.dir], leaving{h, stray})
			h.dir.partitions--
		}
	}
	for _, h := range stray {
		take(h, true)
	}
	for _, h := range gone {
		take(h, false)
	}
	var dirs []*Dir
	for _, d := range m.deps.Dirs.All() {
		if len(of[d]) > 0 {
			dirs = append(dirs, d)
		}
	}
	m.onDisks(dirs, func(d *Dir) { m.removeFrom(d, of[d]) })
}

// removeFrom takes partitions out of one directory: one sync and one list for all,
// so that a topic of a thousand partitions goes at the price of a few.
func (m *ReplicaManager) removeFrom(d *Dir, parts []leaving) {
	var dropped []model.TopicIDPartition
	for _, l := range parts {
		if l.stray {
			m.withdraw(l.h, log.StrayDirSuffix)
			continue
		}
		name, ok := m.withdraw(l.h, log.DeleteDirSuffix)
		if name != "" {
			m.retire(d, name, nanos(l.h.topic.FileDeleteDelayMs))
		}
		if ok {
			dropped = append(dropped, l.h.id)
		}
	}
	if !d.Online() {
		return
	}
	err := d.fs.SyncDir(d.path)
	if err == nil {
		err = d.inventory.change(d, nil, dropped)
	}
	if err != nil && !vfs.IsNoSpace(err) {
		m.dirFailed(d, err)
	}
}

// withdraw takes a partition out of service and gives its directory a name that
// says so; the caller makes the name durable. ok is false if there is no
// directory to speak of. dirName is empty, too, of one that was set aside and could not
// be made anew yet.
func (m *ReplicaManager) withdraw(h *Hosted, suffix string) (dirName string, ok bool) {
	if plog := m.takeDown(h, partition.CodeUnknownTopicOrPartition, "the topic was deleted"); plog != nil {
		if err := plog.Close(false); err != nil {
			m.logger.Warn("deleted partition's log not closed", name(h), zap.Error(err))
		}
	}
	if h.dir == nil || !h.dir.Online() {
		return "", false
	}
	dirName, err := m.rename(h.dir, log.DirName(h.tp), h.tp, suffix)
	if errors.Is(err, fs.ErrNotExist) && h.spoilt() {
		return "", true
	}
	if err != nil {
		m.dirFailed(h.dir, err)
		return "", false
	}
	return dirName, true
}
