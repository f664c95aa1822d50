package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/internal/model"
)

// damageReporter tells the controller which replicas of this running broker were
// quarantined, so that they leave the in-sync sets and others lead. It belongs to
// membership's loop.
type damageReporter struct {
	b     *Broker
	told  map[model.TopicIDPartition]bool // accepted under epoch
	epoch model.BrokerEpoch
}

// due returns the report that is due under a registration, nil if there is none.
// A replica that the metadata counts on is reported until the controller has
// taken it out.
func (d *damageReporter) due(epoch model.BrokerEpoch) *controller.DamageReport {
	if d.epoch != epoch {
		d.epoch, d.told = epoch, nil
	}
	img := d.b.quorum.Image()
	if len(img.Brokers()) < 2 {
		return nil // nobody else has a replica
	}
	var r *controller.DamageReport
	for _, f := range d.b.replicas.FailedReplicas() {
		p := img.PartitionByID(f.ID)
		if d.told[f.ID] || p == nil || len(p.Replicas) < 2 || !p.InISR(d.b.config.NodeID) && !p.InELR(d.b.config.NodeID) {
			continue
		}
		if r == nil {
			r = &controller.DamageReport{Broker: d.b.config.NodeID, Epoch: epoch}
		}
		r.Replicas = append(r.Replicas, f.ID)
	}
	return r
}

// accepted notes what a report held.
func (d *damageReporter) accepted(r *controller.DamageReport) {
	if d.epoch != r.Epoch {
		return
	}
	if d.told == nil {
		d.told = make(map[model.TopicIDPartition]bool)
	}
	for _, id := range r.Replicas {
		d.told[id] = true
	}
}

// damageRequest sends a report after the loop was released.
type damageRequest struct {
	m *membership
	r *controller.DamageReport
}

// Deliver implements loop.Delivery.
func (d *damageRequest) Deliver(model.Now) {
	d.m.b.logger.Warn("quarantined replicas are reported to the controller", zap.Int("replicas", len(d.r.Replicas)))
	patience := time.Duration(d.m.interval)
	d.m.b.controller.submit(controller.Command{Damage: d.r}, patience, completion(func(_ kmsg.Response, _ model.OffsetAndEpoch, err error) {
		if err == nil {
			d.m.box.Post(memberMsg{reported: d.r})
		}
	}))
}
