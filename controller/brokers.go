package controller

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// registerBroker handles BrokerRegistration. A new incarnation wins at once,
// also over one whose session still runs (Kafka refuses it until the session
// is over): the old one is fenced and unseated first, its partitions go to who
// can lead them, and the new broker epoch comes last. The steps are separate
// units, and the image is valid after each.
func (c *Controller) registerBroker(view *metadata.Image, req *kmsg.BrokerRegistrationRequest, facts *RegistrationFacts) Result {
	if req.BrokerID < 0 {
		return Result{reply: ErrorReply(req, codeInvalidRequest, "negative broker id")}
	}
	if req.ClusterID != view.ClusterID() {
		return Result{reply: ErrorReply(req, codeInconsistentClusterID, "other cluster")}
	}
	if !supports(view, req.Features) {
		return Result{reply: ErrorReply(req, codeUnsupportedVersion, "a finalized feature is not supported")}
	}
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	old := view.Broker(model.BrokerID(req.BrokerID))
	if old != nil && old.Incarnation == metadata.Incarnation(req.IncarnationID) {
		resp.BrokerEpoch = int64(old.Epoch) // a retry of what was committed
		return Result{reply: resp}
	}
	reg := registration(req)
	r := Result{reply: resp, register: true, Last: true}
	if old != nil {
		r.Units = c.unseat(view, old, reg, stopFacts(old, req, facts))
	}
	r.Units = append(r.Units, []metadata.Record{reg})
	return r
}

// supports reports whether the ranges cover every finalized feature. A broker
// that names no ranges at all is taken to be of this version.
func supports(view *metadata.Image, ranges []kmsg.BrokerRegistrationRequestFeature) bool {
	for _, r := range ranges {
		level := view.Feature(r.Name)
		if level != 0 && (level < r.MinSupportedVersion || level > r.MaxSupportedVersion) {
			return false
		}
	}
	return true
}

// stopFacts returns what the broker says of its stop, or what the request
// implies: only the epoch of the last registration, kept by an orderly stop,
// proves that the disk is complete. Source: KIP-966.
func stopFacts(old *metadata.BrokerRegistration, req *kmsg.BrokerRegistrationRequest, facts *RegistrationFacts) RegistrationFacts {
	switch {
	case facts != nil:
		return *facts
	case req.PreviousBrokerEpoch == int64(old.Epoch):
		return RegistrationFacts{Stop: metadata.StopClean}
	}
	return RegistrationFacts{Stop: metadata.StopPower}
}

// unseat returns the units that end the old incarnation.
func (c *Controller) unseat(view *metadata.Image, old *metadata.BrokerRegistration, reg *metadata.RegisterBroker, facts RegistrationFacts) [][]metadata.Record {
	bump := []metadata.Record{&metadata.BrokerEpochBump{ID: old.ID, Stop: facts.Stop, Damaged: facts.Damaged}}
	units := [][]metadata.Record{bump}
	after, _, err := metadata.Apply(view, view.At(), bump)
	if err != nil {
		return units // Replay will say so; nothing is elected on a state that is not known
	}
	return append(units, chunked(c.changes(after, func(p *metadata.PartitionRegistration) bool {
		return p.HasReplica(old.ID) && (p.Leader == model.NoLeader || moved(p, reg) != nil)
	}, func(ch *change, p *metadata.PartitionRegistration) {
		ch.directories = moved(p, reg)
	}))...)
}

// moved returns the directories of p when the new incarnation does not have the
// one that its replica was in: the replica is where the broker will find it, so
// it is known only if there is but one directory. Nil if nothing is to change.
func moved(p *metadata.PartitionRegistration, reg *metadata.RegisterBroker) []metadata.DirectoryID {
	dir := p.Directory(reg.ID)
	if dir == metadata.DirectoryUnassigned || slices.Contains(reg.Directories, dir) {
		return nil
	}
	dirs := slices.Clone(p.Directories)
	i := slices.Index(p.Replicas, reg.ID)
	dirs[i] = metadata.DirectoryUnassigned
	if len(reg.Directories) == 1 {
		dirs[i] = reg.Directories[0]
	}
	return dirs
}

// changes builds the change of every partition that want selects; edit adjusts
// the target.
func (c *Controller) changes(view *metadata.Image, want func(*metadata.PartitionRegistration) bool, edit func(*change, *metadata.PartitionRegistration)) (recs []metadata.Record) {
	for t := range view.Topics() {
		minISR := -1
		for n, p := range t.Partitions {
			if !want(p) {
				continue
			}
			if minISR < 0 {
				minISR = c.minISR(view, t.Name)
			}
			ch := newChange(view, t, int32(n))
			ch.minISR = minISR
			if edit != nil {
				edit(ch, p)
			}
			if r := ch.build(); r != nil {
				recs = append(recs, r)
			}
		}
	}
	return recs
}

// minISR returns min.insync.replicas of a topic.
func (c *Controller) minISR(view *metadata.Image, topic string) int {
	return int(max(1, c.config.Rules.TopicInt(view, topic, keyMinISR)))
}

// registration returns the record of req. The epoch stays open: it is the
// offset of the entry, which nobody knows before the commit.
func registration(req *kmsg.BrokerRegistrationRequest) *metadata.RegisterBroker {
	r := &metadata.RegisterBroker{
		ID:          model.BrokerID(req.BrokerID),
		Epoch:       model.NoBrokerEpoch,
		Incarnation: metadata.Incarnation(req.IncarnationID),
		Fenced:      true,
	}
	if req.Rack != nil {
		r.Rack = *req.Rack
	}
	for _, l := range req.Listeners {
		r.Listeners = append(r.Listeners, metadata.Listener{Name: l.Name, Host: l.Host, Port: l.Port, Protocol: l.SecurityProtocol})
	}
	for _, f := range req.Features {
		r.Features = append(r.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	for _, d := range req.LogDirs {
		r.Directories = append(r.Directories, metadata.DirectoryID(d))
	}
	return r
}

// fence returns the units that take a broker out of every ISR and leadership
// and, last, fence it: as long as only part of it is committed the broker is
// merely less in use.
func (c *Controller) fence(view *metadata.Image, b *metadata.BrokerRegistration) [][]metadata.Record {
	if b.Fenced {
		return nil
	}
	last := &metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Set}
	if b.InShutdown {
		last.InShutdown = metadata.Clear
	}
	return append(c.leave(view, b), []metadata.Record{last})
}

// leave returns the units that take b's leaderships and ISR seats.
func (c *Controller) leave(view *metadata.Image, b *metadata.BrokerRegistration) [][]metadata.Record {
	return chunked(c.changes(view, func(p *metadata.PartitionRegistration) bool {
		return p.Leader == b.ID || p.InISR(b.ID)
	}, func(ch *change, p *metadata.PartitionRegistration) {
		ch.without, ch.isr = b.ID, metadata.Without(p.ISR, b.ID)
	}))
}

// unfence returns the units that let a broker take part again: first the
// broker, then leaders for the partitions that waited for it.
func (c *Controller) unfence(view *metadata.Image, b *metadata.BrokerRegistration) [][]metadata.Record {
	units := [][]metadata.Record{{&metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Clear}}}
	return append(units, chunked(c.changes(view, func(p *metadata.PartitionRegistration) bool {
		return p.Leader == model.NoLeader && p.HasReplica(b.ID)
	}, func(ch *change, _ *metadata.PartitionRegistration) {
		ch.with = b.ID
	}))...)
}

// unregisterBroker handles UnregisterBroker: the broker leaves every ISR and
// leadership and is forgotten. Its replicas stay assigned.
func (c *Controller) unregisterBroker(view *metadata.Image, req *kmsg.UnregisterBrokerRequest) Result {
	b := view.Broker(model.BrokerID(req.BrokerID))
	if b == nil {
		return Result{reply: ErrorReply(req, codeBrokerIDNotRegistered, fmt.Sprintf("broker %d is not registered", req.BrokerID))}
	}
	return Result{
		reply: req.ResponseKind(),
		Units: append(c.leave(view, b), []metadata.Record{&metadata.UnregisterBroker{ID: b.ID, Epoch: b.Epoch}}),
	}
}
