package sim

import (
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
	w := n.world
	n.hosted = n.broker.Replicas().All()
	for _, hosted := range n.hosted {
		if n.seen[hosted] == nil {
			p := w.h.part(hosted)
			n.seen[hosted], p.host, p.state, p.online = p, hosted, nil, false
		}
		w.look(hosted)
	}
	if n.up {
		img := n.broker.Image()
		for _, p := range w.h.order {
			if !p.gone && img.TopicByID(p.id.TopicID) == nil {
				p.gone = true
			}
		}
	}
}

// cheapCheck runs after every event.
func (w *World) cheapCheck() {
	n := w.node
	if n == nil || n.broker.Replicas() == nil {
		return
	}
	select {
	case <-n.broker.Failed():
		n.failed(n.broker.Failure())
		return
	default:
	}
	if w.h.asserted != "" {
		w.fail(0, "%s", w.h.asserted)
	}
	at := n.broker.Image().At().Offset
	if at < w.h.imageAt && n.up {
		w.fail(12, "metadata is at %d, it was at %d", at, w.h.imageAt)
	}
	w.h.imageAt = max(w.h.imageAt, at)
	if w.sim.Ran()%noticeEvery == 0 {
		n.notice()
		return
	}
	for _, hosted := range n.hosted {
		w.look(hosted)
	}
	for _, c := range n.conns {
		if n := c.local.Unanswered(); n > inFlightMax {
			w.fail(17, "%d requests of one connection are unanswered", n)
		}
		c.look()
	}
}

// inFlightMax is tidemark.in.flight.per.connection.
const inFlightMax = 64

// look compares a partition's published state with the one before.
func (w *World) look(hosted *host.Hosted) *part {
	s := hosted.State()
	p := w.node.seen[hosted]
	if p == nil {
		p = w.h.part(hosted)
		w.node.seen[hosted], p.host, p.state, p.online = p, hosted, nil, false
	}
	if s == p.state {
		return p
	}
	old := p.state
	p.state = s
	if old == nil || old.Role != s.Role || old.LeaderEpoch != s.LeaderEpoch || old.LogStart != s.LogStart {
		w.trace.state("partition", p.tp.String(), s)
		w.hash.add(uint64(s.Role), uint64(s.LeaderEpoch), uint64(s.LogEnd))
	}
	if s.Role == partition.Offline {
		if s.Code == protocol.CodeKafkaStorageError && !w.excused(p) {
			w.fail(0, "%v went offline on a sound disk: %s", p.tp, s.Reason)
		}
		return p
	}
	w.checkNumbers(p, old, s)
	p.online = true
	if n := hosted.Backlog(); n > 8192 {
		w.fail(17, "%d messages wait for %v", n, p.tp)
	}
	if w.node.up {
		p.end = max(p.end, int64(s.LogEnd))
	}
	if p.frozen == w.lives && int64(s.Durable) > p.floor {
		w.fail(13, "%v: durable up to %d after a failed fsync, before it was %d", p.tp, s.Durable, p.floor)
	}
	p.floor = max(p.floor, int64(s.Durable))
	p.maxStart = max(p.maxStart, int64(s.LogStart))
	return p
}

// excused reports whether the world did something to a partition that explains
// why it is offline.
func (w *World) excused(p *part) bool {
	return p.hit || p.drop || p.hurt || w.h.dirHit == w.lives ||
		w.fullLife == w.lives && p.host != nil && !p.online // loaded or made on a full disk
}

func (w *World) checkNumbers(p *part, old, s *host.State) {
	if s.LogStart > s.LastStable || s.LastStable > s.HighWatermark || s.HighWatermark > s.LogEnd {
		w.fail(10, "%v: start %d, last stable %d, high watermark %d, end %d", p.tp, s.LogStart, s.LastStable, s.HighWatermark, s.LogEnd)
	}
	if s.RecoveryPoint > s.LogEnd || s.Durable > s.LogEnd {
		w.fail(13, "%v: recovery point %d, durable %d, end %d", p.tp, s.RecoveryPoint, s.Durable, s.LogEnd)
	}
	if len(s.ISR) > 1 || s.Role == partition.Leader && s.Leader != 1 {
		w.fail(6, "%v: leader %d, ISR %v on a cluster of one", p.tp, s.Leader, s.ISR)
	}
	if old == nil || old.Role == partition.Offline {
		return
	}
	if s.LeaderEpoch < old.LeaderEpoch {
		w.fail(6, "%v: leader epoch %d after %d", p.tp, s.LeaderEpoch, old.LeaderEpoch)
	}
	if s.HighWatermark < old.HighWatermark {
		w.fail(5, "%v: high watermark fell from %d to %d", p.tp, old.HighWatermark, s.HighWatermark)
	}
	if s.LogEnd < old.LogEnd {
		w.fail(4, "%v: log end fell from %d to %d", p.tp, old.LogEnd, s.LogEnd)
	}
	if s.LogStart < old.LogStart {
		w.fail(16, "%v: log start fell from %d to %d", p.tp, old.LogStart, s.LogStart)
	}
}

// booted compares what a new incarnation has loaded with what must be there.
func (h *history) booted() {
	w := h.world
	n := w.node
	if at := n.broker.Image().At().Offset; at < h.imageAt {
		w.fail(12, "metadata is at %d after the start, it was at %d before", at, h.imageAt)
	}
	w.admin.checkImage()
	for _, p := range h.order {
		if p.gone || p.holed {
			continue
		}
		hosted := n.broker.Replicas().GetByID(p.id)
		if hosted == nil {
			w.fail(12, "%v (%v) is not hosted after the start", p.tp, p.id)
		}
		s := hosted.State()
		if s.Role == partition.Offline {
			if !w.excused(p) {
				w.fail(4, "%v is offline after the start: %s", p.tp, s.Reason)
			}
			p.hurt = p.hurt || p.drop
			continue
		}
		w.loaded(p, s)
	}
}

// loaded checks a log that a new incarnation has opened.
func (w *World) loaded(p *part, s *host.State) {
	end := int64(s.LogEnd)
	if end < p.floor {
		w.fail(4, "%v ends at %d after the start, everything below %d was durable", p.tp, end, p.floor)
	}
	if end < p.end {
		if !p.lossy {
			w.fail(4, "%v ends at %d after the start, it ended at %d and the power was on", p.tp, end, p.end)
		}
		w.trace.line("lost       %v %d to %d", p.tp, end, p.end)
		w.h.cut(p, end)
	}
	if start := w.checkpointOf(w.disk, logStartFile, p.tp); int64(s.LogStart) < min(start, end) {
		w.fail(16, "%v starts at %d, the checkpoint says %d", p.tp, s.LogStart, start)
	}
	p.loadedPoint = int64(s.RecoveryPoint)
	p.end, p.lossy, p.hurt, p.hit = end, false, false, false
	w.compare(p, s, "after the start")
	p.drop = false
}

// partOf finds a partition by name or id as the broker has it now; nil if it
// has none.
func (w *World) partOf(topic string, id model.TopicID, n int32) *part {
	var hosted *host.Hosted
	if id != model.NoTopicID {
		hosted = w.node.broker.Replicas().GetByID(model.TopicIDPartition{TopicID: id, Partition: n})
	} else {
		hosted = w.node.broker.Replicas().Get(topic, n)
	}
	if hosted == nil {
		return nil
	}
	return w.look(hosted)
}
