package host

import (
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// A partition is offline without a log if the disk was full, or refused, when it
// was to be made, or if its log is lost and the cluster still counts on it. Both
// pass: space is freed, others are elected. Then the log is made and the partition
// served, in another Hosted: the old one's waiters have their answers.

// lookAfterLost has the logs made that can be made now.
func (m *ReplicaManager) lookAfterLost() {
	if m.without.Load() == 0 {
		return
	}
	if m.deps.Serial == nil {
		m.revive()
		return
	}
	if m.reviving.CompareAndSwap(false, true) {
		m.deps.Serial(func() {
			m.reviving.Store(false)
			m.revive()
		})
	}
}

// reviveAtOnce bounds how many logs are made at a time: images wait meanwhile.
const reviveAtOnce = 200

// revive is lookAfterLost in line with Apply.
func (m *ReplicaManager) revive() {
	left := int64(0)
	made := make(map[*Dir][]*Hosted)
	old := make(map[*Hosted]*Hosted)
	for _, h := range m.All() {
		if h.dir != nil || h.State().Role != partition.Offline {
			continue
		}
		left++
		reg := m.image.PartitionByID(h.id)
		if len(old) == reviveAtOnce || reg == nil || !reg.HasReplica(m.deps.Self) || m.lost(h.id, reg) != "" {
			continue
		}
		if d := m.place(made); d != nil {
			next := newHosted(m, h.id, h.tp)
			next.topic = m.deps.Topic(m.image, h.tp.Topic)
			made[d], old[next] = append(made[d], next), h
		}
	}
	var add, drop []*Hosted
	for _, d := range m.deps.Dirs.All() {
		for _, next := range m.reviveIn(d, made[d]) {
			add, drop = append(add, next), append(drop, old[next])
		}
	}
	m.without.Store(left - int64(len(add)))
	if len(add) == 0 {
		return
	}
	m.change(add, drop)
	for _, next := range add {
		m.logger.Warn("a partition that was offline without a log has one now", name(next), zap.String("dir", next.dir.path))
		if m.fedUnder == model.BrokerEpoch(m.registeredAt.Load()) && m.fedUnder != model.NoBrokerEpoch {
			m.register(m.image, next)
		}
	}
}

// reviveIn makes logs in one directory and returns whose were made.
func (m *ReplicaManager) reviveIn(d *Dir, parts []*Hosted) (ready []*Hosted) {
	var plogs []*log.Log
	var ids []model.TopicIDPartition
	for _, next := range parts {
		plog, err := m.createLog(d, next)
		if err != nil {
			m.logger.Debug("a partition's log still can't be made", name(next), zap.Error(err))
			break // nor can the others'
		}
		plogs, ready, ids = append(plogs, plog), append(ready, next), append(ids, next.id)
	}
	if len(ready) == 0 {
		return nil
	}
	err := d.fs.SyncDir(d.path)
	unlisted := true
	if err == nil {
		unlisted, err = d.inventory.enter(d, ids)
	}
	if err != nil && !unlisted {
		m.dirFailed(d, err)
	}
	for i, next := range ready {
		if err != nil {
			_ = plogs[i].Close(false)
			if unlisted {
				m.unmake(d, next)
			}
			continue
		}
		next.dir = d
		d.partitions++
		m.hostOnline(next, plogs[i], 0, m.deps.RT.Now())
	}
	if err != nil {
		m.logger.Debug("logs still can't be made", zap.String("dir", d.path), zap.Error(err))
		return nil
	}
	return ready
}
