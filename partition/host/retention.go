package host

import (
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// Retention has three steps, none of which holds a loop up for the disk. What is
// to go is decided on a State, outside (expire). The partition's loop raises the
// log start; readers don't see the records from then on. When the directory's
// checkpoint holds that start, the loop lets go of the segments and the flusher
// renames their files (drop.go). DeleteRecords and a follower's leader raise the
// start too; the last step is the same.

// retain applies retention to the partitions of one directory.
func (m *ReplicaManager) retain(d *Dir) {
	if !d.Online() {
		return
	}
	now := m.deps.RT.Now()
	steady := m.wall.steady(now)
	var parts []*Hosted
	for _, h := range m.All() {
		if h.dir == d {
			parts = append(parts, h)
			h.expire(now, steady)
		}
	}
	m.dropBelow(d, parts)
}

// expire has the loop raise the log start to where the topic's settings allow.
// While the wall clock is not steady nothing goes for its age.
func (h *Hosted) expire(now model.Now, steady bool) {
	s := h.State()
	if s.View == nil || !s.Config.CleanupPolicy.Delete {
		return
	}
	r := log.Retention{MaxAgeMs: s.Config.RetentionMs, MaxBytes: s.Config.RetentionBytes, Now: now.Wall, Committed: s.HighWatermark}
	if !steady {
		r.MaxAgeMs = -1
	}
	if r.MaxAgeMs < 0 && r.MaxBytes < 0 {
		return
	}
	r.Modified = func(base model.Offset) model.Timestamp {
		at, err := s.View.Modified(base)
		if err != nil {
			return now.Wall // not known: as if it were new
		}
		return at
	}
	e := log.Expire(s.View.Segments(), s.LogStart, r)
	if e.Segments() == 0 {
		return
	}
	h.m.logger.Info("retention lets segments go", name(h), zap.Int64("log start", int64(e.To)),
		zap.Int("too many", e.BySize), zap.Int("too old", e.ByAge))
	h.box.Enter(&retainMsg{to: e.To})
}

// retainMsg gives up what lies below an offset.
type retainMsg struct{ to model.Offset }

func (m *retainMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.in = partition.Input{Kind: partition.KindRetain, Retain: m.to}
	h.step(now, out)
}

// performRetain carries out a WriteRetain: the log begins at to. At the log's
// end the segment that is being written goes as well, so another one is begun.
func (h *Hosted) performRetain(now model.Now, to model.Offset) (rolled bool, err error) {
	if to == h.plog.LogEnd() {
		if err := h.plog.Roll(now); err != nil {
			return false, err
		}
		rolled = true
	}
	return rolled, h.plog.IncrementLogStart(to)
}

// dropBelow has the segments removed that lie below their logs' starts, once the
// checkpoint holds those. On a full disk it can't be written, and room is what is
// wanted most: files go oldest first, so that a start without it begins at the
// first one that is left.
func (m *ReplicaManager) dropBelow(d *Dir, parts []*Hosted) {
	var due []*Hosted
	for _, h := range parts {
		if s := h.State(); s.View != nil && s.View.BelowStart() {
			due = append(due, h)
		}
	}
	if len(due) == 0 {
		return
	}
	starts, err := m.writeLogStarts(d)
	if err != nil && !vfs.IsNoSpace(err) {
		m.dirFailed(d, err)
		return
	}
	for _, h := range due {
		if start, ok := starts[h.tp]; ok {
			h.box.Enter(&dropMsg{durable: start})
		}
	}
}
