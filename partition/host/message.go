package host

import (
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// message is what a Hosted's mailbox holds: a pointer to a plain struct.
type message interface {
	// handle is called by the owner of the loop.
	handle(h *Hosted, now model.Now, out *loop.Outbox)
}

// Frame holds a request's buffer. *server.Request is one.
type Frame interface {
	// Retain keeps the buffer from being reused until Release.
	Retain()
	Release()
}

// registerMsg brings what the cluster agreed on.
type registerMsg struct{ reg partition.Registration }

func (m *registerMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.standingStale = true
	h.replicas = h.replicas[:0:0]
	for _, p := range m.reg.Replicas {
		h.replicas = append(h.replicas, p.ID)
	}
	self := h.m.deps.Self
	h.alone.Store(m.reg.Leader == self && len(m.reg.ISR) == 1 && m.reg.ISR[0] == self)
	if damage := h.newerThan(m.reg.LeaderEpoch); damage != nil {
		h.m.events.damaged(h, damage)
		h.damage.Store(damage)
		h.dir.flusher.Submit(&noting{h, damage}, false)
		h.fault = damage
		h.goOffline(now, partition.CodeStorageError, damage.Error(), out)
	}
	h.in = partition.Input{Kind: partition.KindRegistration, Registration: &m.reg}
	h.step(now, out)
}

// configMsg brings new settings.
type configMsg struct{ topic *config.Topic }

func (m *configMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.standingStale = true
	h.topic = m.topic
	if h.plog != nil {
		h.plog.SetConfig(logConfig(m.topic))
	}
	cfg := h.m.coreConfig(m.topic)
	h.in = partition.Input{Kind: partition.KindConfig, Config: &cfg}
	h.step(now, out)
}

// alterMsg brings the controller's answer to an AlterPartition.
type alterMsg struct{ answer partition.AlterAnswer }

func (m *alterMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindAlterAnswered, Alter: m.answer}
	h.step(now, out)
}

// flushedMsg brings the end of a flush.
type flushedMsg struct{ f *flush }

func (m *flushedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) { h.flushed(now, m.f, out) }

// offlineMsg takes the log away. closed is told when nothing of the loop touches
// it any more.
type offlineMsg struct {
	code   Code
	reason string
	closed loop.Delivery
}

func (m *offlineMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.dropRemnant()
	h.goOffline(now, m.code, m.reason, out)
	if m.closed != nil {
		out.Add(m.closed)
	}
}

// proceedMsg does the write that the Executor put off.
type proceedMsg struct{ serial uint64 }

func (m *proceedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	if h.work.serial != m.serial || !h.work.pending {
		return
	}
	h.work.pending = false
	written, done := h.perform(now, h.work.write, out)
	if !done {
		return
	}
	h.in = partition.Input{Kind: partition.KindWritten, Written: written}
	h.step(now, out)
}
