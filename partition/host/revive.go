package host

import (
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// A partition is offline without a log if the disk was full, or refused, when it
// was to be made, or if its log is lost, damaged, or refused by the disk, and the
// cluster still counts on it. That passes: space is freed, others are elected. Then the
// log is made and the partition served, in another Hosted: the old one's waiters have
// their answers.

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
	m.without.Store(0) // what goes offline from here on counts anew
	m.partAsides()
	maps.DeleteFunc(m.refills, func(id model.TopicIDPartition, _ refillTry) bool { return m.GetByID(id) == nil })
	left := int64(0)
	fresh := make(map[*Dir][]*Hosted)
	old := make(map[*Hosted]*Hosted)
	var away []*awayJob
	for _, h := range m.All() {
		if h.dir != nil && !h.spoilt() || h.State().Role != partition.Offline {
			continue
		}
		left++
		if h.beingMade {
			continue
		}
		reg := m.image.PartitionByID(h.id)
		if len(old)+len(away) == reviveAtOnce || reg == nil || !reg.HasReplica(m.deps.Self) {
			continue
		}
		d := h.dir
		switch {
		case d != nil && m.mayRefill(h, reg):
			away = append(away, &awayJob{h: h, damage: h.damage.Load(), disk: h.diskError.Load(), leader: reg.Leader})
			continue
		case d == nil && (m.lost(h.id, reg) == "" || m.given(reg)):
			d = m.place(fresh)
		default:
			continue
		}
		if d != nil {
			next := newHosted(m, h.id, h.tp)
			next.topic = m.deps.Topic(m.image, h.tp.Topic)
			fresh[d], old[next] = append(fresh[d], next), h
		}
	}
	for _, h := range m.setAway(away) {
		next := newHosted(m, h.id, h.tp)
		next.topic = m.deps.Topic(m.image, h.tp.Topic)
		fresh[h.dir], old[next] = append(fresh[h.dir], next), h
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
			m.hostOnline(next, mk.plogs[i], partition.Loaded{}, m.deps.RT.Now())
			add, drop = append(add, next), append(drop, old[next])
		}
	}
	m.without.Add(left - int64(len(add)) + int64(len(m.asides)))
	if len(add) == 0 {
		return
	}
	m.change(add, drop)
	for i, next := range add {
		if drop[i].dir == nil {
			next.dir.flusher.Submit(&lostJob{m, drop[i]}, false)
		}
		m.logger.Warn("a partition that was offline without a log has one now", name(next), zap.String("dir", next.dir.path))
		if m.fedUnder == model.BrokerEpoch(m.registeredAt.Load()) && m.fedUnder != model.NoBrokerEpoch {
			m.register(m.image, next)
		}
	}
}
