package host

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
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
	fresh := make(map[*Dir][]*Hosted)
	old := make(map[*Hosted]*Hosted)
	for _, h := range m.All() {
		if h.dir != nil || h.State().Role != partition.Offline {
			continue
		}
		left++
		if h.beingMade {
			continue
		}
		reg := m.image.PartitionByID(h.id)
		if len(old) == reviveAtOnce || reg == nil || !reg.HasReplica(m.deps.Self) || m.lost(h.id, reg) != "" {
			continue
		}
		if d := m.place(fresh); d != nil {
			next := newHosted(m, h.id, h.tp)
			next.topic = m.deps.Topic(m.image, h.tp.Topic)
			fresh[d], old[next] = append(fresh[d], next), h
		}
	}
	var add, drop []*Hosted
	jobs, done := m.makeLogs(fresh, true)
	for _, mk := range jobs {
		if !slices.Contains(done, mk.dir) {
			for _, next := range mk.parts {
				old[next].beingMade = true
				mk.instead = append(mk.instead, old[next])
			}
			continue
		}
		for i, next := range mk.parts {
			if err := errors.Join(mk.errs[i], mk.err); err != nil {
				m.logger.Debug("a partition's log still can't be made", name(next), zap.Error(err))
				continue
			}
			next.dir = mk.dir
			mk.dir.partitions++
			m.hostOnline(next, mk.plogs[i], 0, m.deps.RT.Now())
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
