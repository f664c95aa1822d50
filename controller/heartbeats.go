package controller

import (
	"math"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is what the active controller knows of a broker beside the image.
type session struct {
	epoch model.BrokerEpoch
	// heard is when the broker last reported, moved on by the controller's own
	// pauses.
	heard model.Instant
	// offset is the metadata offset it last reported.
	offset model.Offset
	// leaving is the offset of the record that put it in controlled shutdown.
	leaving model.Offset
}

// session returns the session of b's incarnation, new if need be.
func (c *Controller) session(now model.Now, b *metadata.BrokerRegistration) *session {
	s := c.sessions[b.ID]
	if s == nil || s.epoch != b.Epoch {
		s = &session{epoch: b.Epoch, heard: now.Mono, offset: model.NoOffset, leaving: model.Offset(math.MaxInt64)}
		if b.InShutdown {
			// The record that put it there is not known any more, but it is not
			// above what this controller has applied.
			s.leaving = c.image.At().Offset
		}
		c.sessions[b.ID] = s
	}
	return s
}

// replaySessions follows a committed entry with the soft state.
func (c *Controller) replaySessions(now model.Now, at model.OffsetAndEpoch, delta *metadata.Delta) {
	for _, id := range delta.Brokers {
		b := c.image.Broker(id)
		if b == nil {
			delete(c.sessions, id)
			continue
		}
		if s := c.session(now, b); b.InShutdown && s.leaving > at.Offset {
			s.leaving = at.Offset
		}
	}
}

// heartbeat handles BrokerHeartbeat: it keeps the session and moves the broker
// between fenced, unfenced and controlled shutdown.
func (c *Controller) heartbeat(now model.Now, view *metadata.Image, req *kmsg.BrokerHeartbeatRequest) Result {
	b := view.Broker(model.BrokerID(req.BrokerID))
	switch {
	case b == nil:
		return Result{reply: ErrorReply(req, codeBrokerIDNotRegistered, "")}
	case b.Epoch != model.BrokerEpoch(req.BrokerEpoch):
		return Result{reply: ErrorReply(req, codeStaleBrokerEpoch, "")}
	}
	s := c.session(now, b)
	s.heard, s.offset = now.Mono, model.Offset(req.CurrentMetadataOffset)
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.IsCaughtUp, resp.IsFenced = s.offset >= model.Offset(b.Epoch), b.Fenced
	r := Result{reply: resp}
	var dirs [][]metadata.Record
	if offline := offlineDirectories(b, req.OfflineLogDirs); offline != nil {
		dirs = c.loseDirectories(view, b, offline)
	}
	switch {
	case b.Fenced:
		resp.ShouldShutdown = req.WantShutdown
		if !req.WantShutdown && !req.WantFence && resp.IsCaughtUp {
			resp.IsFenced = false
			r.Units = c.unfence(view, b)
		}
	case b.InShutdown && view.Leads(b.ID) > 0:
		r.Units = c.leave(view, b)
	case b.InShutdown:
		if c.lowestActiveOffset(view) >= s.leaving {
			resp.IsFenced, resp.ShouldShutdown = true, true
			r.Units = c.fence(view, b)
		}
	case req.WantFence:
		resp.IsFenced = true
		r.Units = c.fence(view, b)
	case req.WantShutdown && view.Leads(b.ID) > 0:
		r.Units = append(c.leave(view, b), []metadata.Record{
			&metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, InShutdown: metadata.Set},
		})
	case req.WantShutdown:
		resp.IsFenced, resp.ShouldShutdown = true, true
		r.Units = c.fence(view, b)
	}
	if len(r.Units) == 0 {
		r.Units = dirs // else the next heartbeat, which repeats the list, brings it
	}
	return r
}

// lowestActiveOffset returns the metadata offset that every active broker has
// reached.
func (c *Controller) lowestActiveOffset(view *metadata.Image) model.Offset {
	lowest := model.Offset(math.MaxInt64)
	for _, b := range view.Brokers() {
		if !b.Active() {
			continue
		}
		offset := model.NoOffset
		if s := c.sessions[b.ID]; s != nil && s.epoch == b.Epoch {
			offset = s.offset
		}
		lowest = min(lowest, offset)
	}
	return lowest
}

// offlineDirectories returns those registered directories that the broker
// reports as failed; nil if none.
func offlineDirectories(b *metadata.BrokerRegistration, reported [][16]byte) map[metadata.DirectoryID]bool {
	var offline map[metadata.DirectoryID]bool
	for _, d := range b.Directories {
		for _, r := range reported {
			if d == metadata.DirectoryID(r) {
				if offline == nil {
					offline = map[metadata.DirectoryID]bool{}
				}
				offline[d] = true
			}
		}
	}
	return offline
}

// loseDirectories takes the replicas in failed directories out of ISRs and
// leaderships and then the directories out of the registration. Source: KIP-858.
func (c *Controller) loseDirectories(view *metadata.Image, b *metadata.BrokerRegistration, offline map[metadata.DirectoryID]bool) [][]metadata.Record {
	online := []metadata.DirectoryID{}
	for _, d := range b.Directories {
		if !offline[d] {
			online = append(online, d)
		}
	}
	units := chunked(c.changes(view, func(p *metadata.PartitionRegistration) bool {
		return offline[p.Directory(b.ID)] && (p.Leader == b.ID || p.InISR(b.ID))
	}, func(ch *change, p *metadata.PartitionRegistration) {
		ch.without, ch.isr, ch.failed = []model.BrokerID{b.ID}, metadata.Without(p.ISR, b.ID), true
	}))
	return append(units, []metadata.Record{&metadata.BrokerChange{ID: b.ID, Epoch: b.Epoch, Directories: online}})
}

// Wake notes that the controller runs at now. If it did not run for longer than
// a heartbeat interval, the brokers may have reported without being heard: every
// session is extended by the pause. Call it before anything else of a turn.
func (c *Controller) Wake(now model.Now) {
	if !c.active {
		return
	}
	if gap := now.Mono - c.lastRun; gap > model.Instant(c.config.HeartbeatInterval) {
		for _, s := range c.sessions { // order-free: each moves by the same amount
			s.heard += gap
		}
	}
	c.lastRun = now.Mono
}
