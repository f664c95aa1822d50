package sim

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
)

// noticeEvery is how many events may pass before the checkers notice that
// partitions came or went.
const noticeEvery = 8

// notice takes over which partitions the node has.
func (n *node) notice() {
	n.hosted = n.broker.Replicas().All()
	n.looked = n.looked[:0]
	for _, hosted := range n.hosted {
		n.looked = append(n.looked, n.look(hosted))
	}
}

// cheapCheck runs after every event.
func (w *World) cheapCheck() {
	if w.noted != nil {
		panic(w.noted)
	}
	if w.h.asserted != "" {
		w.fail(0, "%s", w.h.asserted)
	}
	for _, m := range w.machines {
		if m.node != nil && m.node.broker.Replicas() != nil {
			m.node.takeImages()
			m.node.cheapCheck()
		}
	}
	for _, p := range w.h.order {
		if p.stale {
			p.stale = false
			w.checkSeats(p)
		}
	}
}

func (n *node) cheapCheck() {
	w, m := n.world, n.m
	select {
	case <-n.broker.Failed():
		n.failed(n.broker.Failure())
		return
	default:
	}
	at := n.broker.Image().At().Offset
	if at < m.imageAt && n.up {
		w.fail(12, "metadata of broker %d is at %d, it was at %d", m.id, at, m.imageAt)
	}
	m.imageAt = max(m.imageAt, at)
	n.checkQuorum()
	if w.sim.Ran()%noticeEvery == 0 || !n.up {
		n.notice()
		return
	}
	for i, hosted := range n.hosted {
		r := n.looked[i]
		if hosted.State() != r.state {
			n.look(hosted)
		}
		if r.unheard != nil {
			r.listen()
		}
	}
	for _, c := range n.conns {
		if open := c.local.Unanswered(); open > inFlightMax {
			w.fail(17, "%d requests of one connection are unanswered", open)
		}
		c.look()
	}
}

// inFlightMax is tidemark.in.flight.per.connection.
const inFlightMax = 64

// replica returns what is known of a hosted partition.
func (n *node) replica(hosted *host.Hosted) *replica {
	r := n.seen[hosted]
	if r == nil {
		n.m.replicas = slices.DeleteFunc(n.m.replicas, func(r *replica) bool {
			return r.left && r.part.id == hosted.ID() && r.host != hosted
		})
		r = n.m.replica(n.world.h.part(hosted.ID(), hosted.TopicPartition()))
		if r.hurt && r.host != nil && r.host != hosted {
			r.m.line("refill     %v", r.tp)
			r.refilled()
		}
		n.seen[hosted], r.host, r.state, r.online = r, hosted, nil, false
		r.rider = &counter{r: r, n: n}
		if n.world.o.riders && hosted.TopicPartition().Topic != groupsTopic {
			n.world.at(0, func() {
				if n.alive() {
					hosted.Attach(r.rider)
				}
			})
		}
	}
	return r
}

// leads reports whether the replica led when it was last looked at.
func (r *replica) leads() bool { return r.state.Role == partition.Leader }

// look compares a partition's published state with the one before.
func (n *node) look(hosted *host.Hosted) *replica {
	w, m := n.world, n.m
	s := hosted.State()
	r := n.replica(hosted)
	if s == r.state {
		return r
	}
	old := r.state
	r.state = s
	r.part.stale = true
	if old == nil || old.Role != s.Role || old.LeaderEpoch != s.LeaderEpoch || old.LogStart != s.LogStart {
		m.state("partition", r.tp.String(), s)
		w.hash.add(uint64(m.id), uint64(s.Role), uint64(s.LeaderEpoch), uint64(s.LogEnd))
	}
	if s.Role == partition.Offline {
		if s.Code == protocol.CodeKafkaStorageError && !r.excused() && !r.unmade() {
			w.fail(0, "%v went offline on broker %d, whose disk is sound: %s", r.tp, m.id, s.Reason)
		}
		if (len(w.machines) > 1 || r.rotten) && s.Code == protocol.CodeKafkaStorageError {
			r.hurt, r.part.maimed = true, true // until a start finds it whole, or it is filled anew
		}
		return r
	}
	r.checkNumbers(old, s)
	r.keepsDeleted()
	if !r.online && s.View != nil && r.life != m.lives {
		if r.hurt && s.LogEnd == 0 && r.isAside() {
			m.line("refill     %v, begun by the process before", r.tp)
			r.refilled()
		}
		r.loaded(s)
	}
	r.online = true
	if n := hosted.Backlog(); n > 8192 {
		w.fail(17, "%d messages wait for %v", n, r.tp)
	}
	if r.frozen == m.lives && int64(s.Durable) > r.floor {
		w.fail(13, "%v: durable up to %d on broker %d after a failed fsync, before it was %d", r.tp, s.Durable, m.id, r.floor)
	}
	r.end = max(r.end, int64(s.LogEnd))
	if old != nil && s.RecoveryPoint < old.RecoveryPoint {
		// A cut is on its way to the disk: what lies above may go from now on.
		r.floor = min(r.floor, int64(s.RecoveryPoint))
	} else {
		r.floor = max(r.floor, int64(s.Durable))
	}
	r.part.began(int64(s.LogStart))
	r.had.note(s)
	r.checkHolders(old, s)
	r.rider.follow()
	if r.leads() && (old == nil || old.Role != s.Role || old.LeaderEpoch != s.LeaderEpoch) {
		r.reigns()
	}
	return r
}

// excused reports whether the world did something to a replica that explains
// why it is offline.
func (r *replica) excused() bool {
	m := r.m
	return r.hit || r.drop || r.hurt || r.wiped || r.rotten || m.dirHit == m.lives ||
		m.fullLife == m.lives && r.host != nil && !r.online // loaded or made on a full disk
}

// unmade reports whether a replica never had a log and an unclean election has
// chosen it all the same: what its broker's list of directories names is one from
// before, which was set aside. None is made anew for who has a seat.
func (r *replica) unmade() bool {
	p := r.part
	return r.life == 0 && r.had.end == 0 && p.pending && p.uncleanLeader == r.m.id
}

func (r *replica) checkNumbers(old, s *host.State) {
	w, id := r.m.world, r.m.id
	if s.LogStart > s.LastStable || s.LastStable > s.HighWatermark || s.HighWatermark > s.LogEnd {
		w.fail(10, "%v: on broker %d start %d, last stable %d, high watermark %d, end %d", r.tp, id, s.LogStart, s.LastStable, s.HighWatermark, s.LogEnd)
	}
	if s.RecoveryPoint > s.LogEnd || s.Durable > s.LogEnd {
		w.fail(13, "%v: on broker %d recovery point %d, durable %d, end %d", r.tp, id, s.RecoveryPoint, s.Durable, s.LogEnd)
	}
	if s.Role == partition.Leader && s.Leader != id {
		w.fail(6, "%v: broker %d leads, and names broker %d as the leader", r.tp, id, s.Leader)
	}
	if old == nil || old.Role == partition.Offline {
		return
	}
	if s.LeaderEpoch < old.LeaderEpoch {
		w.fail(6, "%v: leader epoch %d after %d on broker %d", r.tp, s.LeaderEpoch, old.LeaderEpoch, id)
	}
	reigning := s.Role == partition.Leader && old.Role == partition.Leader && s.LeaderEpoch == old.LeaderEpoch
	if s.HighWatermark < old.HighWatermark && (reigning || len(w.machines) == 1) {
		w.fail(5, "%v: high watermark fell from %d to %d on broker %d", r.tp, old.HighWatermark, s.HighWatermark, id)
	}
	if s.LogStart < old.LogStart && !r.part.lost {
		w.fail(16, "%v: log start fell from %d to %d on broker %d", r.tp, old.LogStart, s.LogStart, id)
	}
	if s.LogEnd < old.LogEnd && (reigning || len(w.machines) == 1) {
		w.fail(4, "%v: log end fell from %d to %d on broker %d, which leads", r.tp, old.LogEnd, s.LogEnd, id)
	}
	if s.LeaderEpoch == old.LeaderEpoch && s.LogEnd >= old.LogEnd {
		return
	}
	epochOf := func(o int64) int32 { return int32(s.EpochFor(model.Offset(o))) }
	if to := r.partedAt(int64(s.LogStart), int64(s.LogEnd), epochOf); to < int64(old.LogEnd) {
		r.truncated(to)
	}
}

// truncated is told that a follower has cut its log: it may not cut what was
// acknowledged, unless an election has lost that.
func (r *replica) truncated(to int64) {
	w, p := r.m.world, r.part
	r.m.line("truncated  %v from %d to %d", r.tp, r.end, to)
	if !p.pending && to < p.acked {
		for o := max(to, p.maxStart); o < min(p.acked, int64(len(r.recs)), int64(len(p.recs))); o++ {
			if p.recs[o].id != 0 && p.recs[o].id == r.recs[o].id && p.recs[o].epoch == r.recs[o].epoch && p.recs[o].epoch >= 0 {
				w.fail(4, "%v: broker %d has cut its log at %d, and with it record %d at %d, which was acknowledged", p.tp, r.m.id, to, p.recs[o].id, o)
			}
		}
	}
	r.receipted(to, r.end)
	r.cut(to)
	r.had.truncated(to)
	r.seams = append(r.seams, to)
}

// seam reports whether a file that begins at an offset may follow another that
// ends below: the log was cut there, within a batch.
func (r *replica) seam(end, base int64) bool {
	return end < base && base-end < int64(r.m.world.o.batchMax) && slices.Contains(r.seams, base)
}

// noteCuts notes, at the end of a process, which logs may be shorter than what
// was last seen of them.
func (n *node) noteCuts() {
	for _, hosted := range n.hosted {
		if r := n.seen[hosted]; r != nil && r.host == hosted && r.state != nil {
			r.cutShort = r.cutShort || hosted.Writing() || hosted.State().LogEnd < r.state.LogEnd
		}
	}
}

// reigns is told that a replica leads in an epoch from now on.
func (r *replica) reigns() {
	w, p, epoch := r.m.world, r.part, int32(r.state.LeaderEpoch)
	by := reign{r.m.id, r.m.lives}
	if other, known := p.reigns[epoch]; known && other != by {
		w.fail(1, "%v: epoch %d is led by broker %d life %d and by broker %d life %d", p.tp, epoch, other.m, other.life, by.m, by.life)
	}
	p.reigns[epoch] = by
	if !p.pending || epoch < p.uncleanEpoch {
		end, must := int64(r.state.LogEnd), p.ackedBefore(epoch)
		if epoch >= p.uncleanEpoch && end < must && !r.hit && !r.drop {
			w.fail(4, "%v: broker %d leads epoch %d with a log that ends at %d, everything below %d was acknowledged", p.tp, r.m.id, epoch, end, must)
		}
		return
	}
	// An election that may have lost records: what is left is what its leader has.
	p.pending = false
	end := int64(r.state.LogEnd)
	first := end
	_, _ = r.scan(r.m.disk, int64(r.state.LogStart), func(b *fileBatch) error {
		return b.each(func(g gotRecord) error {
			if g.offset < min(first, int64(len(p.recs))) && p.recs[g.offset].differs(g.id, b.epoch) {
				first = g.offset
			}
			return nil
		})
	})
	w.h.cut(p, first)
}

// reignedAfter reports whether someone led a later epoch.
func (p *part) reignedAfter(epoch int32) bool {
	for e := range p.reigns { // order-free: any
		if e > epoch {
			return true
		}
	}
	return false
}

// ackedBefore is below what offset who begins to lead an epoch must have
// everything: what is acknowledged by now, unless the next has led and it has not
// heard of that; then what was acknowledged when it was elected.
func (p *part) ackedBefore(epoch int32) int64 {
	if p.reignedAfter(epoch) {
		return min(p.acked, p.ackedAt[epoch])
	}
	return p.acked
}

// booted compares what a new incarnation has loaded with what must be there.
func (m *machine) booted() {
	w := m.world
	n := m.node
	if at := n.broker.Image().At().Offset; at < m.imageAt {
		w.fail(12, "metadata of broker %d is at %d after the start, it was at %d before", m.id, at, m.imageAt)
	}
	w.admin.checkImage()
	for _, r := range m.replicas {
		if r.part.gone || r.holed || !n.assigned(r.part) || len(w.machines) > 1 {
			continue
		}
		hosted := n.broker.Replicas().GetByID(r.part.id)
		if hosted == nil {
			w.fail(12, "%v (%v) is not hosted by broker %d after the start", r.tp, r.part.id, m.id)
		}
		s := hosted.State()
		if s.Role == partition.Offline {
			if s.Code == protocol.CodeKafkaStorageError && !r.excused() {
				w.fail(4, "%v is offline on broker %d after the start: %s", r.tp, m.id, s.Reason)
			}
			r.hurt = r.hurt || r.drop
		}
	}
}

// assigned reports whether the node's own metadata gives it a replica.
func (n *node) assigned(p *part) bool {
	reg := n.broker.Image().PartitionByID(p.id)
	return reg != nil && reg.HasReplica(n.m.id)
}

// loaded checks a log that a new incarnation has opened, or made.
func (r *replica) loaded(s *host.State) {
	w, id := r.m.world, r.m.id
	fresh := r.life == 0
	r.life = r.m.lives
	end := int64(s.LogEnd)
	if r.cutShort && end < r.end {
		r.truncated(end)
	}
	r.cutShort = false
	if end < r.floor {
		w.fail(4, "%v ends at %d on broker %d after the start, everything below %d was durable", r.tp, end, id, r.floor)
	}
	if end < r.end {
		if !r.lossy {
			w.fail(4, "%v ends at %d on broker %d after the start, it ended at %d and the power was on", r.tp, end, id, r.end)
		}
		r.m.line("lost       %v %d to %d", r.tp, end, r.end)
		r.cut(end)
	}
	if start := checkpointOf(r.m.disk, logStartFile, r.tp); !fresh && int64(s.LogStart) < min(start, end) {
		w.fail(16, "%v starts at %d on broker %d, the checkpoint says %d", r.tp, s.LogStart, id, start)
	}
	r.loadedPoint = int64(s.RecoveryPoint)
	r.end, r.lossy, r.hurt, r.hit = end, false, false, r.hit && fresh
	if !fresh && !r.rotten {
		r.compare(s, "after the start")
	}
	r.drop, r.wiped = false, false
}

// partOf finds a replica by name or id as the node has it now; nil if it has
// none.
func (n *node) partOf(topic string, id model.TopicID, p int32) *replica {
	var hosted *host.Hosted
	if id != model.NoTopicID {
		hosted = n.broker.Replicas().GetByID(model.TopicIDPartition{TopicID: id, Partition: p})
	} else {
		hosted = n.broker.Replicas().Get(topic, p)
	}
	if hosted == nil {
		return nil
	}
	return n.look(hosted)
}
