package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// A DeleteRecords that is acknowledged binds its leader, and every other replica
// whose broker was live then: they begin no lower ever after, and so does whoever
// joins the in-sync set through such a leader. Who was fenced is not bound: as an
// eligible leader it may lead without having heard of it.

// knownFor is how long a leader must have known a broker as live before the request
// came: its partition hears of images a little later than the node does.
const knownFor = second

// deletion is a DeleteRecords on its way to a leader.
type deletion struct {
	to    *node
	asked model.Instant
	at    int64 // -1: all that is committed
	live  []model.BrokerID
}

func (n *node) deletion(at int64) *deletion {
	d := &deletion{to: n, asked: n.world.sim.Now(), at: at}
	if img := n.broker.Image(); img != nil {
		for _, b := range img.Brokers() {
			if !b.Fenced {
				d.live = append(d.live, b.ID)
			}
		}
	}
	return d
}

// noteFenced notes who is not live by an image that the node takes over, or has
// registered anew in it: it was fenced in between.
func (n *node) noteFenced(img *metadata.Image) {
	for _, m := range n.world.machines {
		b := img.Broker(m.id)
		was, known := n.incarnations[m.id]
		if b == nil || b.Fenced || known && b.Incarnation != was {
			n.fenced[m.id] = n.world.sim.Now()
		}
		if b != nil {
			n.incarnations[m.id] = b.Incarnation
		}
	}
}

// answered looks at an answer that the leader gives away.
func (d *deletion) answered(q *kmsg.DeleteRecordsResponseTopicPartition, r *replica) {
	w, n := d.to.world, d.to
	if q.ErrorCode != protocol.CodeNone || r == nil || r.part.lost || r.part.pending {
		return
	}
	if q.LowWatermark < d.at {
		w.fail(16, "%v: records below %d deleted up to %d", r.tp, d.at, q.LowWatermark)
	}
	r.bind(q.LowWatermark)
	reg := n.broker.Image().PartitionByID(r.part.id)
	if reg == nil {
		return
	}
	for _, b := range d.live {
		o := w.replicaOf(r.part, b)
		if at, was := n.fenced[b]; o == nil || !reg.HasReplica(b) || was && at > d.asked-knownFor {
			continue
		}
		if is := n.broker.Image().Broker(b); is != nil && !is.Fenced && !o.m.wipedSince(is.Incarnation) {
			o.bind(q.LowWatermark)
		}
	}
}

// wipedSince reports whether a replica of a machine was taken away after some
// incarnation's time: a leader that has heard of no later one goes by what it was.
func (m *machine) wipedSince(i metadata.Incarnation) bool { return m.lifeOf[i] <= m.wipedLife }

// bind has a replica begin at an offset or above from now on.
func (r *replica) bind(at int64) {
	if r.removed || r.left {
		return
	}
	r.deleted = max(r.deleted, at)
	r.keepsDeleted()
}

// joins is told that a replica was taken into the in-sync set by a leader.
func (r *replica) joins(leader *replica) {
	if leader != nil {
		r.bind(leader.deleted)
	}
}

// keepsDeleted checks that a replica shows nothing that was deleted. Who was filled
// anew, or is not what it was by a fault of its disk, is bound no more, nor is
// anybody after an election that has lost records.
func (r *replica) keepsDeleted() {
	s, p := r.state, r.part
	if p.lost || p.pending || r.wiped || r.rotten || r.hurt || r.removed || r.left {
		r.deleted = 0
	}
	if s == nil || s.View == nil || int64(s.LogStart) >= r.deleted {
		return
	}
	r.m.world.fail(16, "%v: broker %d begins at %d, an acknowledged DeleteRecords had all below %d deleted", r.tp, r.m.id, s.LogStart, r.deleted)
}
