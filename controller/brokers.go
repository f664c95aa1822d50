package controller

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
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
	if old != nil || assigned(view, reg.ID) {
		r.Units = c.unseat(view, reg, stopFacts(old, req, facts))
	}
	r.Units = append(r.Units, []metadata.Record{reg})
	return r
}

// assigned reports whether b has replicas. A broker that was unregistered keeps
// them, and seats that its next registration must account for.
func assigned(view *metadata.Image, b model.BrokerID) bool {
	for t := range view.Topics() {
		for _, p := range t.Partitions {
			if p.HasReplica(b) {
				return true
			}
		}
	}
	return false
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
	case old != nil && req.PreviousBrokerEpoch == int64(old.Epoch):
		return RegistrationFacts{Stop: metadata.StopClean}
	}
	return RegistrationFacts{Stop: metadata.StopPower}
}

// unseat returns the units that end the old incarnation: what it loses, what the
// new one found on its disk, and who leads in its place. Uncleanly nobody is
// elected yet: the broker itself is about to be back.
func (c *Controller) unseat(view *metadata.Image, reg *metadata.RegisterBroker, facts RegistrationFacts) [][]metadata.Record {
	bump := []metadata.Record{&metadata.BrokerEpochBump{ID: reg.ID, Stop: facts.Stop, Damaged: facts.Damaged}}
	units := [][]metadata.Record{bump}
	after, _, err := metadata.Apply(view, view.At(), bump)
	if err != nil {
		return units // Replay will say so; nothing is elected on a state that is not known
	}
	found := ends(view, after, reg, facts)
	if len(found) > 0 {
		units = append(units, chunked(found)...)
		if after, _, err = metadata.Apply(after, after.At(), found); err != nil {
			return units
		}
	}
	passed := c.passed(view, reg.ID)
	return append(units, chunked(c.changes(after, func(p *metadata.PartitionRegistration) bool {
		return p.HasReplica(reg.ID) && (p.Leader == model.NoLeader || moved(p, reg) != nil || c.leftBehind(view, p, reg.ID))
	}, func(ch *change, p *metadata.PartitionRegistration) {
		ch.election, ch.directories = ElectOnline, moved(p, reg)
		old := view.PartitionByID(ch.partition())
		switch {
		case p.Lost() && (old.InISR(reg.ID) || old.InELR(reg.ID)):
			ch.passed = passed
		case c.leftBehind(view, old, reg.ID):
			ch.passed = []model.BrokerID{reg.ID}
		}
	}))...)
}

// leftBehind reports whether b lost its seat in an earlier life, and the leader
// went on after that.
func (c *Controller) leftBehind(view *metadata.Image, p *metadata.PartitionRegistration, b model.BrokerID) bool {
	if p.Leader == model.NoLeader || !slices.Contains(p.LastKnown, b) || p.InISR(b) || p.InELR(b) {
		return false
	}
	leader, old, s := view.Broker(p.Leader), view.Broker(b), c.sessions[p.Leader]
	return leader != nil && old != nil && s != nil && s.epoch == leader.Epoch && s.offset >= model.Offset(old.Epoch)
}

// passed returns the brokers whose present life b's last one knew of: b, having a
// seat, went on after they had lost theirs. Only those who fell together with b
// may lead while b is away.
func (c *Controller) passed(view *metadata.Image, b model.BrokerID) (ids []model.BrokerID) {
	old, s := view.Broker(b), c.sessions[b]
	if old == nil || s == nil || s.epoch != old.Epoch {
		return nil
	}
	for _, other := range view.Brokers() {
		if other.ID != b && model.Offset(other.Epoch) <= s.offset {
			ids = append(ids, other.ID)
		}
	}
	return ids
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
// the target. It walks over all partitions once.
func (c *Controller) changes(view *metadata.Image, want func(*metadata.PartitionRegistration) bool, edit func(*change, *metadata.PartitionRegistration)) (recs []metadata.Record) {
	s := c.settings(view)
	for t := range view.Topics() {
		recs = append(recs, c.changesOf(s, t, want, edit)...)
	}
	return recs
}

// changesOf is changes for one topic.
func (c *Controller) changesOf(s *settings, t *metadata.Topic, want func(*metadata.PartitionRegistration) bool, edit func(*change, *metadata.PartitionRegistration)) (recs []metadata.Record) {
	for n, p := range t.Partitions {
		if !want(p) {
			continue
		}
		ch := c.change(s, t, int32(n))
		if edit != nil {
			edit(ch, p)
		}
		if r := ch.build(); r != nil {
			recs = append(recs, r)
		}
	}
	return recs
}

// settings reads what elections depend on, the cluster's defaults only once.
type settings struct {
	rules    ConfigRules
	view     *metadata.Image
	defaults *TopicSettings
	topic    *metadata.Topic // whose settings last holds
	last     TopicSettings
}

func (c *Controller) settings(view *metadata.Image) *settings {
	return &settings{rules: c.config.Rules, view: view}
}

// of returns the settings of a topic.
func (s *settings) of(t *metadata.Topic) TopicSettings {
	if s.topic == t {
		return s.last
	}
	s.topic = t
	switch {
	case s.view.Config(metadata.TopicResource, t.Name) != nil:
		s.last = s.rules.Topic(s.view, t.Name)
	default:
		if s.defaults == nil {
			d := s.rules.Topic(s.view, t.Name)
			s.defaults = &d
		}
		s.last = *s.defaults
	}
	return s.last
}

// change begins the change of one partition under the settings of its topic.
func (c *Controller) change(s *settings, t *metadata.Topic, n int32) *change {
	ch := newChange(s.view, t, n)
	cfg := s.of(t)
	ch.minISR = max(1, cfg.MinISR)
	if cfg.Unclean {
		ch.election = ElectUnclean
	}
	ch.settled = c.awaited.settled(ch.partition())
	return ch
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

// fence returns the units that take brokers out of every ISR and leadership
// and, last, fence them: as long as only part of it is committed the brokers are
// merely less in use. Those that went together are fenced together, so that none
// of them is made a leader in place of another.
func (c *Controller) fence(view *metadata.Image, gone ...*metadata.BrokerRegistration) [][]metadata.Record {
	var last []metadata.Record
	var leaving []*metadata.BrokerRegistration
	for _, b := range gone {
		if b.Fenced {
			continue
		}
		leaving = append(leaving, b)
		r := &metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Set}
		if b.InShutdown {
			r.InShutdown = metadata.Clear
		}
		last = append(last, r)
	}
	if len(last) == 0 {
		return nil
	}
	return append(c.leave(view, leaving...), last)
}

// leave returns the units that take the leaderships and ISR seats of brokers.
func (c *Controller) leave(view *metadata.Image, gone ...*metadata.BrokerRegistration) [][]metadata.Record {
	ids := make([]model.BrokerID, len(gone))
	for i, b := range gone {
		ids[i] = b.ID
	}
	return chunked(c.changes(view, func(p *metadata.PartitionRegistration) bool {
		return slices.Contains(ids, p.Leader) || slices.ContainsFunc(ids, p.InISR)
	}, func(ch *change, p *metadata.PartitionRegistration) {
		ch.without, ch.isr = ids, minus(p.ISR, ids)
	}))
}

// unfence returns the units that let a broker take part again: first the
// broker, then leaders for the partitions that waited for it.
func (c *Controller) unfence(view *metadata.Image, b *metadata.BrokerRegistration) [][]metadata.Record {
	units := [][]metadata.Record{{&metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, Fenced: metadata.Clear}}}
	if view.Offline() == 0 {
		return units
	}
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

// clusterCommand handles what the cluster tells itself. There is no answer.
func (c *Controller) clusterCommand(view *metadata.Image, cmd Command) Result {
	switch {
	case cmd.Hints != nil:
		return Result{Units: c.fence(view, c.refusing(view, cmd.Hints)...)}
	case cmd.Damage != nil:
		return Result{Units: c.damage(view, cmd.Damage)}
	}
	return Result{}
}

// refusing returns the brokers of hints that have not been heard since.
func (c *Controller) refusing(view *metadata.Image, hints []FenceHint) (gone []*metadata.BrokerRegistration) {
	for _, h := range hints {
		b := view.Broker(h.Broker)
		if b == nil || b.Fenced || slices.Contains(gone, b) {
			continue
		}
		if s := c.sessions[b.ID]; s != nil && s.epoch == b.Epoch && s.heard > h.Since {
			continue // it lives
		}
		gone = append(gone, b)
	}
	return gone
}

// damage returns the units that take quarantined replicas out of leadership,
// ISR and ELR, and note that there is nothing to be had from them. Each costs a
// leader epoch: the broker lives on and may fill the replica anew, and what the old
// log has asked its leader for, if it arrives only then, would pass for the new one's
// progress. In the new epoch the leader waits for the members alone.
func (c *Controller) damage(view *metadata.Image, d *DamageReport) [][]metadata.Record {
	b := view.Broker(d.Broker)
	if b == nil || b.Epoch != d.Epoch {
		return nil
	}
	s := c.settings(view)
	units := c.giveUp(s, view, b.ID, minusReplicas(d.Stalled, d.Replicas))
	for _, tp := range d.Replicas {
		t, p := view.TopicByID(tp.TopicID), view.PartitionByID(tp)
		if p == nil || len(p.Replicas) == 1 || !p.HasReplica(b.ID) {
			continue // a sole replica still serves what it can
		}
		end := &metadata.ReplicaEnd{Broker: b.ID, TopicID: tp.TopicID, Partition: tp.Partition, End: d.end(tp)}
		if !p.InISR(b.ID) && !p.InELR(b.ID) {
			// The leader's wish to take it in may be under way: it is for an older epoch now.
			r := metadata.NewPartitionChange(tp.TopicID, tp.Partition)
			r.ISR = p.ISR
			if p.Leader != model.NoLeader && !mutant.On("ctl-damage-keeps-epoch") {
				r.Leader = p.Leader
			}
			units = append(units, []metadata.Record{r, end})
			continue
		}
		ch := c.change(s, t, tp.Partition)
		ch.lost, ch.failed, ch.isr = b.ID, true, metadata.Without(p.ISR, b.ID)
		if len(p.ISR)+len(p.ELR) == 1 {
			ch.passed = p.LastKnown // it lives
		}
		switch r := ch.build(); {
		case r != nil && r.Leader == model.NoLeader && p.Leader == b.ID && len(p.ISR)+len(p.ELR) == 1 && metadata.IsRemnant(end.End):
			// Nobody has a better copy: it goes on, to serve what can be read.
			units = append(units, []metadata.Record{end})
		case r != nil:
			units = append(units, []metadata.Record{r, end})
		}
	}
	return units
}

// end is what a report says of a quarantined replica.
func (d *DamageReport) end(tp model.TopicIDPartition) model.OffsetAndEpoch {
	for _, e := range d.Remnants {
		if e.TopicIDPartition == tp {
			return e.End
		}
	}
	return metadata.ReplicaDamaged
}

// giveUp returns the units that take the leadership and the seat from replicas
// whose disk does not answer. They take part again as followers once it does, so
// that nothing is given up where nobody else can lead.
func (c *Controller) giveUp(s *settings, view *metadata.Image, b model.BrokerID, stalled []model.TopicIDPartition) [][]metadata.Record {
	var recs []metadata.Record
	for _, tp := range stalled {
		t, p := view.TopicByID(tp.TopicID), view.PartitionByID(tp)
		if p == nil || p.Leader != b || len(metadata.Without(p.ISR, b)) == 0 {
			continue
		}
		ch := c.change(s, t, tp.Partition)
		ch.election = ElectOnline
		ch.without, ch.isr = []model.BrokerID{b}, metadata.Without(p.ISR, b)
		if r := ch.build(); r != nil && r.Leader >= 0 {
			recs = append(recs, r)
		}
	}
	return chunked(recs)
}

// minusReplicas returns the replicas that are not in other.
func minusReplicas(all, other []model.TopicIDPartition) (out []model.TopicIDPartition) {
	for _, tp := range all {
		if !slices.Contains(other, tp) && !slices.Contains(out, tp) {
			out = append(out, tp)
		}
	}
	return out
}
