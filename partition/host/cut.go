package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

// A write that takes something away (partition.WriteKind.Cuts) lowers the
// recovery point and changes names, both durably: it waits for the disk, so the
// directory's flusher does it and not the loop. Until it is done the log is its;
// every message for the partition is parked, in order. Readers go on with the
// State of before.
//
// So does a partition's first append, which has to wait until the partition's
// directory says whose it is and is durable; the append itself is then done in the loop.

// The states of a cutJob.
const (
	cutWaiting int32 = iota
	cutRunning
	cutDone
	cutCancelled
)

// cutJob is such a write on its way to the disk and back.
type cutJob struct {
	h     *Hosted
	plog  *log.Log
	now   model.Now
	write partition.Write
	// lowered is the recovery point that the log has in memory already: the State
	// shows it before the file is written, so that no checkpoint raises it again.
	lowered model.Offset
	// establish: first the directory gets its partition.metadata and is made durable.
	establish bool
	state     atomic.Int32

	// Valid when done.
	err    error
	rolled bool
	ends   [2]model.Offset
}

// startCut gives the log to a job. It is submitted after the release, when the
// lowered recovery point has been published.
func (h *Hosted) startCut(now model.Now, w partition.Write, out *loop.Outbox) {
	h.busySince.Store(int64(now.Mono))
	j := &cutJob{h: h, plog: h.plog, now: now, write: w, lowered: w.Offset, establish: !h.established.Load()}
	if w.Kind.Cuts() {
		if w.Kind != partition.WriteTruncate {
			j.lowered = min(w.Offset, h.plog.View().Segments()[0].Base)
		}
		if !mutant.On("log-rp-after-truncate") {
			h.plog.LowerRecoveryPoint(j.lowered)
		}
	}
	h.keeping = keeping{
		highWatermark: h.core.Mark().HighWatermark, cause: receipt.Divergence,
		detail: fmt.Sprintf("broker %d leads in epoch %d and has another log from %d on", h.core.LeaderID(), h.core.Mark().LeaderEpoch, w.Offset),
	}
	if w.Kind != partition.WriteTruncate {
		h.keeping.cause = receipt.LeaderStart
		h.keeping.detail = fmt.Sprintf("the log of broker %d, which leads in epoch %d, starts at %d", h.core.LeaderID(), h.core.Mark().LeaderEpoch, w.Offset)
	}
	h.cut = j
	out.Add(j)
}

// Deliver hands the job to the directory's flusher.
func (j *cutJob) Deliver(model.Now) {
	if j.write.Kind.Cuts() {
		j.h.dir.willLower(j.h.tp, j.lowered)
	}
	j.h.dir.flusher.Submit(j, true)
}

// Run does the write, unless it was cancelled.
func (j *cutJob) Run() {
	if !j.state.CompareAndSwap(cutWaiting, cutRunning) {
		return
	}
	j.err = j.run()
	j.ends = [2]model.Offset{j.plog.LogStart(), j.plog.LogEnd()}
	j.state.Store(cutDone)
}

func (j *cutJob) run() error {
	if j.establish && !mutant.On("host-first-append-early") {
		path := filepath.Join(j.plog.Dir(), checkpoint.PartitionMetadataFile)
		id := checkpoint.PartitionMetadata{TopicID: j.h.id.TopicID}
		if err := checkpoint.WritePartitionMetadata(j.h.dir.fs, path, id); err != nil {
			return fmt.Errorf("make %s durable: %w", j.plog.Dir(), err)
		}
	}
	if !j.write.Kind.Cuts() {
		return nil
	}
	if !mutant.On("log-rp-after-truncate") {
		if err := j.h.dir.lowerRecoveryPoint(j.h.tp, j.lowered); err != nil {
			return err
		}
	}
	if err := j.h.dir.lowerCleaned(j.h.tp, j.write.Offset); err != nil {
		return err
	}
	var err error
	var removed log.Removal
	switch w := &j.write; w.Kind {
	case partition.WriteTruncate:
		removed, err = j.plog.Truncate(w.Offset)
	case partition.WriteRestart:
		removed, err = j.plog.TruncateFullyAndStartAt(w.Offset)
	case partition.WriteRefill:
		removed, err = j.refill()
	default:
		assert.Unreachable("write %d cuts nothing", w.Kind)
	}
	if err != nil {
		return err
	}
	j.h.m.counters.cut(&removed)
	return nil
}

func (j *cutJob) refill() (log.Removal, error) {
	removed, err := j.plog.TruncateFullyAndStartAt(j.write.Offset)
	if err != nil {
		return removed, err
	}
	info, err := j.plog.Append(j.now, j.write.Set)
	if err != nil {
		// It stays empty, and begins where it began: below, records were deleted.
		_, back := j.plog.TruncateFullyAndStartAt(j.write.Start)
		return removed, errors.Join(err, back)
	}
	j.rolled = info.Rolled
	return removed, j.plog.IncrementLogStart(j.write.Start)
}

// Done has the partition look.
func (j *cutJob) Done() { j.h.box.Post(&cutDoneMsg{}) }

// cutDoneMsg has a partition look for a job that is done.
type cutDoneMsg struct{}

func (*cutDoneMsg) handle(*Hosted, model.Now, *loop.Outbox) {}

// blocked says whether msg has to wait for the running cut. One that is done is
// taken into account first. Taking the log away waits for none that has not begun, which
// is not done then, nor behind others, each of which may begin another.
func (h *Hosted) blocked(now model.Now, msg message, out *loop.Outbox) bool {
	if h.cut == nil {
		return false
	}
	if j := h.cut; j.state.Load() == cutDone {
		h.cut = nil
		h.busySince.Store(0)
		h.resumed()
		h.in = partition.Input{Kind: partition.KindWritten, Written: h.completed(now, j)}
		h.step(now, out)
		h.serveRide()
		h.publish(out)
		h.reclaim()
	}
	switch msg.(type) {
	case *takeDownMsg, *offlineMsg:
		if h.cut != nil && h.cut.state.CompareAndSwap(cutWaiting, cutCancelled) {
			h.cut = nil
			h.busySince.Store(0)
		}
		return h.cut != nil
	}
	return len(h.parked) > 0 || h.cut != nil
}

// completed is what a job has written; what had to wait for it is written now.
func (h *Hosted) completed(now model.Now, j *cutJob) partition.Written {
	if j.err == nil {
		h.established.Store(true)
	}
	if j.err == nil && !j.write.Kind.Cuts() {
		return h.execute(now, j.write)
	}
	return partition.Written{
		Fault: h.faultOf(j.err), LogStart: j.ends[0], LogEnd: j.ends[1], Rolled: j.rolled, MaxTimestamp: model.NoTimestamp,
	}
}

// reclaim gives up the bytes that were cut off, now that the State shows them no
// more. Readers may still be in them; a later cut or the stop tries again.
func (h *Hosted) reclaim() {
	if h.plog == nil || h.cut != nil {
		return
	}
	if _, err := h.plog.Reclaim(); err != nil {
		h.m.logger.Warn("bytes that were cut from a log are still in its files", name(h), zap.Error(err))
	}
}

// Writing says whether a write to the log is under way, so that the files may be
// ahead of the State. For those who check files while a broker runs.
func (h *Hosted) Writing() bool { return h.busySince.Load() != 0 }

// unpark handles what waited for a cut, in order.
func (h *Hosted) unpark(now model.Now, out *loop.Outbox) {
	for h.cut == nil && len(h.parked) > 0 {
		msg := h.parked[0]
		h.parked[0] = nil
		h.parked = h.parked[1:]
		h.handleOne(now, msg, out)
	}
	if len(h.parked) == 0 {
		h.parked = nil
	}
}
