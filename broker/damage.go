package broker

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// damageReporter tells the controller which replicas of this running broker were
// quarantined, so that they leave the in-sync sets and others lead, and for which
// of those that it leads the disk does not answer, so that others lead until it
// does. It belongs to membership's loop, but for trouble.
type damageReporter struct {
	b *Broker
	// told is what was accepted under epoch: quarantined replicas with the partition's
	// epoch, since one that was taken out may be filled anew, come back, and fail again;
	// and stalled ones with the leader epoch that was to be given up.
	told    map[model.TopicIDPartition]model.PartitionEpoch
	stalled map[model.TopicIDPartition]model.LeaderEpoch
	epoch   model.BrokerEpoch
	pending atomic.Bool // trouble has told of itself and was not looked at yet
}

// damageTold is a report, and the partition epochs that its replicas were told of in:
// by the time of the answer the metadata may have gone on.
type damageTold struct {
	controller.DamageReport
	at []model.PartitionEpoch
}

// trouble is told that a partition went offline or does not get on: the controller
// hears of it with a heartbeat that is sent at once. It may be called from
// anywhere but a loop.
func (m *membership) trouble() {
	if m.damage.pending.CompareAndSwap(false, true) {
		m.box.Post(memberMsg{hurry: true})
	}
}

// due returns the report that is due under a registration, nil if there is none.
// A replica that the metadata counts on is reported until the controller has
// taken it out, or has begun a leader epoch in which nothing that it has asked for is
// heard, a stalled one in each epoch that it leads.
func (d *damageReporter) due(epoch model.BrokerEpoch) *damageTold {
	d.pending.Store(false)
	if d.epoch != epoch {
		d.epoch, d.told, d.stalled = epoch, nil, nil
	}
	img := d.b.quorum.Image()
	if len(img.Brokers()) < 2 {
		return nil // nobody else has a replica
	}
	self, r := d.b.config.NodeID, &damageTold{DamageReport: controller.DamageReport{Broker: d.b.config.NodeID, Epoch: epoch}}
	for _, f := range d.b.replicas.FailedReplicas() {
		p := img.PartitionByID(f.ID)
		if p == nil || len(p.Replicas) < 2 || !p.HasReplica(self) {
			continue
		}
		// One that nobody counts on waits for a later epoch to be filled anew.
		waits := p.Leader != model.NoLeader && p.Leader != self && f.Heard >= p.LeaderEpoch
		if !p.InISR(self) && !p.InELR(self) && !waits {
			continue
		}
		if at, ok := d.told[f.ID]; !ok || at != p.PartitionEpoch {
			r.Replicas, r.at = append(r.Replicas, f.ID), append(r.at, p.PartitionEpoch)
			if f.Readable != model.NoOffset {
				r.Remnants = append(r.Remnants, controller.ReplicaEnd{TopicIDPartition: f.ID, End: metadata.RemnantEnd(f.Readable)})
			}
		}
	}
	for _, h := range d.b.replicas.Stalled() {
		if p := img.PartitionByID(h.ID()); p != nil && d.givesUp(h.ID(), p) {
			r.Stalled = append(r.Stalled, h.ID())
		}
	}
	if len(r.Replicas)+len(r.Stalled) == 0 {
		return nil
	}
	return r
}

// givesUp says whether a stalled partition is led here though another could, in an
// epoch of which the controller has not been told.
func (d *damageReporter) givesUp(id model.TopicIDPartition, p *metadata.PartitionRegistration) bool {
	told, ok := d.stalled[id]
	return p.Leader == d.b.config.NodeID && len(p.ISR) > 1 && (!ok || told != p.LeaderEpoch)
}

// accepted notes what a report held.
func (d *damageReporter) accepted(r *damageTold) {
	if d.epoch != r.Epoch {
		return
	}
	if d.told == nil {
		d.told = make(map[model.TopicIDPartition]model.PartitionEpoch)
		d.stalled = make(map[model.TopicIDPartition]model.LeaderEpoch)
	}
	for i, id := range r.Replicas {
		d.told[id] = r.at[i]
	}
	for _, id := range r.Stalled {
		if p := d.b.quorum.Image().PartitionByID(id); p != nil && p.Leader == d.b.config.NodeID {
			d.stalled[id] = p.LeaderEpoch
		}
	}
}

// damageRequest sends a report after the loop was released.
type damageRequest struct {
	m *membership
	r *damageTold
}

// Deliver implements loop.Delivery.
func (d *damageRequest) Deliver(model.Now) {
	d.m.b.logger.Warn("partitions that can't be served are reported to the controller",
		zap.Int("quarantined", len(d.r.Replicas)), zap.Int("stalled", len(d.r.Stalled)))
	patience := time.Duration(d.m.interval)
	d.m.b.controller.submit(controller.Command{Damage: &d.r.DamageReport}, patience, completion(func(_ kmsg.Response, _ model.OffsetAndEpoch, err error) {
		if err == nil {
			d.m.box.Post(memberMsg{reported: d.r})
		}
	}))
}
