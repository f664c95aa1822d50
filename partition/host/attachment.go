package host

import (
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// Attachment is a state machine that rides on a partition: a coordinator whose
// state is the partition's records. Its methods are called in the partition's
// loop, so they may not block, and they may not enter a loop.
type Attachment interface {
	// Led says that this replica leads in epoch, with everything below end in
	// the log: time to load.
	Led(h *Hosted, epoch model.LeaderEpoch, end model.Offset)
	// Applied says that everything below the high watermark is replicated.
	Applied(h *Hosted, highWatermark model.Offset)
	// Unled says that the leadership or the log is gone: time to unload.
	Unled(h *Hosted)
}

// Attach has a ride on the partition from now on; nil ends that. If the replica
// leads already, Led is called at once.
func (h *Hosted) Attach(a Attachment) { h.box.Enter(&attachMsg{a}) }

// attachMsg attaches to a partition; nil detaches.
type attachMsg struct{ to Attachment }

func (m *attachMsg) handle(h *Hosted, _ model.Now, _ *loop.Outbox) {
	if h.attached != nil {
		h.attached.Unled(h)
	}
	h.attached = m.to
	if mark := h.core.Mark(); m.to != nil && mark.Role == partition.Leader {
		m.to.Led(h, mark.LeaderEpoch, mark.LogEnd)
		m.to.Applied(h, mark.HighWatermark)
	}
}
