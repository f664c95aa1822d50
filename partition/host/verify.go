package host

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/partition"
)

// A log is not read to be checked while it is in use. Somebody who reads it for
// another reason may come upon damage: a fetch whose batches can't be told apart,
// or a follower to which the same came damaged over two connections. Then the
// segment is verified, beside the loop. If it is damaged the partition is
// quarantined, as if the damage had been found at start: the files stay as they
// are, the controller hears of it and another replica leads. Source: rule 3.6 of
// the project.
//
// It may also turn out that the segment is what was written, and the epoch file that
// it contradicts is not. Then a receipt is made of that file, and the loop has the log
// mend its epochs.

// vouched says which offset was verified last.
type vouched struct {
	running bool
	at      model.Offset
	until   model.Instant // when that is forgotten; 0: nothing was verified
}

// vouchedTime is how long a verification counts: the same report costs reading a
// segment no more often than that.
const vouchedTime = model.Instant(30 * time.Second)

// vouchedFor says whether what stands at an offset was verified of late; if not,
// that is begun.
func (h *Hosted) vouchedFor(now model.Now, at model.Offset) bool {
	if v := &h.vouched; v.until > now.Mono && v.at == at {
		return true
	}
	h.verify(at, false)
	return false
}

// Verify has the segment with an offset read and checked, because reading it
// failed.
func (h *Hosted) Verify(at model.Offset) { h.box.Post(&verifyMsg{at: at}) }

// verifyMsg asks for it. scrubbed: because a scrub has found damage.
type verifyMsg struct {
	at       model.Offset
	scrubbed bool
}

func (m *verifyMsg) handle(h *Hosted, now model.Now, _ *loop.Outbox) {
	if m.scrubbed {
		h.verify(m.at, true)
		return
	}
	h.vouchedFor(now, m.at)
}

// verify begins the verification of a segment, one at a time.
func (h *Hosted) verify(at model.Offset, scrubbed bool) {
	v := &verification{h: h, at: at, newest: h.State().LeaderEpoch, scrubbed: scrubbed}
	switch r := h.remnant.Load(); {
	case h.vouched.running:
		return
	case h.plog != nil:
		v.view, v.epochs, v.inUse = h.plog.View(), h.plog.Epochs().Clone(), true
	case r != nil:
		v.view, v.epochs = r.View, r.Epochs()
	default:
		return
	}
	h.vouched.running = true
	h.dir.flusher.Submit(v, false)
}

// verification is one on its way to the disk and back.
type verification struct {
	h      *Hosted
	at     model.Offset
	view   *log.View
	epochs *epoch.Cache
	newest model.LeaderEpoch // in which it is led
	err    error
	// wrong is set if it is the epochs of a log in use that are wrong.
	wrong *log.WrongEpochs
	// inUse: the log is; what is left of a damaged one is not mended.
	inUse bool
	// scrubbed: damage below the log's start counts for nothing, since no reader has
	// met it.
	scrubbed bool
}

// Run reads the segment. Damage is noted beside it, so that the next start, which
// doesn't read all, finds it again.
func (v *verification) Run() {
	v.err = v.view.VerifySegment(v.at, v.epochs, v.newest)
	if v.inUse && errors.As(v.err, &v.wrong) {
		v.h.keepEpochs(v.wrong) // the file is replaced by the flush after the mending
		return
	}
	var damage *log.CorruptionError
	if !errors.As(v.err, &damage) {
		return
	}
	if v.scrubbed && damage.Offset < v.view.Start() {
		v.err = nil
		return
	}
	damage.BelowRecoveryPoint = damage.Offset < v.h.State().RecoveryPoint
	(&noting{v.h, damage}).Run()
}

// noting notes damage beside its segment.
type noting struct {
	h      *Hosted
	damage *log.CorruptionError
}

// Run implements DiskJob.
func (j *noting) Run() {
	if err := log.NoteDamage(j.h.m.deps.FS, j.damage); err != nil {
		j.h.m.logger.Warn("damage could not be noted beside the segment", name(j.h), zap.Error(err))
	}
}

// Done implements DiskJob.
func (j *noting) Done() {}

// Done hands the result to the partition.
func (v *verification) Done() { v.h.box.Post(&verifiedMsg{v}) }

// verifiedMsg ends a verification.
type verifiedMsg struct{ v *verification }

func (m *verifiedMsg) handle(h *Hosted, now model.Now, out *loop.Outbox) {
	h.vouched.running = false
	var damage *log.CorruptionError
	if r := h.remnant.Load(); h.plog == nil && r != nil && m.v.view == r.View && errors.As(m.v.err, &damage) {
		h.lower(damage, out)
		return
	}
	if h.plog == nil {
		return
	}
	if m.v.wrong != nil {
		h.mendEpochs(now, m.v.wrong, out)
		return
	}
	switch err := m.v.err; {
	case errors.As(err, &damage):
		h.m.events.damaged(h, damage)
		h.damage.Store(damage)
	case err == nil:
		h.m.events.sound(h, m.v.at)
		h.vouched.at, h.vouched.until = m.v.at, now.Mono+vouchedTime
		return
	case errors.Is(err, log.ErrStaleView), errors.Is(err, log.ErrOffsetOutOfRange):
		return // it was cut off or deleted meanwhile
	}
	h.fault = m.v.err
	h.goOffline(now, partition.CodeStorageError, h.fault.Error(), out)
}

// mendEpochs puts the epochs right, and has them stored. What has changed since the
// segment was read is looked at again when somebody comes upon it.
func (h *Hosted) mendEpochs(now model.Now, wrong *log.WrongEpochs, out *loop.Outbox) {
	before := h.plog.Epochs().Entries()
	if err := h.plog.MendEpochs(wrong); err != nil {
		h.m.logger.Info("the leader epochs are not mended", name(h), zap.Error(err))
		return
	}
	h.m.events.epochsMended(h, wrong, before)
	mendMsg{}.handle(h, now, out)
}

// newerThan finds batches of a leader epoch that is still to come: nobody has written
// them so. That is seen where nothing else on the disk contradicts, of the last batch
// of a log, and only until that epoch comes; led on, the log would hold falling epochs, and be damaged at a later start.
// epoch is the one that the partition is about to be led or followed in.
func (h *Hosted) newerThan(epoch model.LeaderEpoch) *log.CorruptionError {
	if h.plog == nil || epoch < h.core.Mark().LeaderEpoch {
		return nil // an image of before
	}
	latest, ok := h.plog.Epochs().Latest()
	if !ok || latest.Epoch <= epoch || latest.Start >= h.plog.LogEnd() {
		return nil
	}
	segments := h.plog.View().Segments()
	at := segments[0].Base
	for _, s := range segments {
		if s.Base <= latest.Start {
			at = s.Base
		}
	}
	return &log.CorruptionError{
		Dir: h.plog.Dir(), Segment: at, Offset: latest.Start, BelowRecoveryPoint: latest.Start < h.plog.RecoveryPoint(),
		Err: fmt.Errorf("batches from %d on are of epoch %d, the partition is in epoch %d", latest.Start, latest.Epoch, epoch),
	}
}
