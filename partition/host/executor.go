package host

import (
	"errors"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// Executor decides when a partition's writes to its log happen. Production does
// them at once, in the loop: an append is a copy to the page cache. The
// simulator puts them off.
type Executor interface {
	// Start is called in the partition's loop for each write. It returns true to
	// have the write done at once; or it keeps w, calls w.Proceed later (or
	// never, if the process has died), and returns false.
	Start(w *Work) bool
}

// Inline is the production Executor.
type Inline struct{}

// Start has the write done at once.
func (Inline) Start(*Work) bool { return true }

// Work is the one write of a partition that may be outstanding.
type Work struct {
	h       *Hosted
	write   partition.Write
	serial  uint64
	pending bool
}

// Partition returns whose write it is, for traces.
func (w *Work) Partition() model.TopicPartition { return w.h.tp }

// Kind returns what is to be written, for traces.
func (w *Work) Kind() partition.WriteKind { return w.write.Kind }

// Proceed enters the partition's loop and does the write there. A write that was
// overtaken by the loss of the log is dropped.
func (w *Work) Proceed() { w.h.box.Enter(&proceedMsg{serial: w.serial}) }

// begin starts a write and returns its completion if it was done at once.
func (h *Hosted) begin(now model.Now, write partition.Write, out *loop.Outbox) (partition.Written, bool) {
	h.work.serial++
	h.work.write = write
	if !h.m.deps.Executor.Start(&h.work) {
		h.work.pending = true
		return partition.Written{}, false
	}
	return h.perform(now, write, out)
}

// perform does a write here, or has the disk's own goroutine do it.
func (h *Hosted) perform(now model.Now, w partition.Write, out *loop.Outbox) (partition.Written, bool) {
	first := w.Kind == partition.WriteAppend && !h.established.Load()
	if w.Kind.Cuts() || first {
		h.startCut(now, w, out)
		return partition.Written{}, false
	}
	return h.execute(now, w), true
}

// execute does one write. While it runs the watchdog sees the partition as busy.
func (h *Hosted) execute(now model.Now, w partition.Write) partition.Written {
	h.busySince.Store(int64(now.Mono))
	var err error
	var rolled bool
	newest := model.NoTimestamp
	switch w.Kind {
	case partition.WriteAppend:
		var info log.AppendInfo
		info, err = h.plog.Append(now, w.Set)
		rolled, newest = info.Rolled, info.MaxTimestamp
		if err == nil {
			h.unsyncedBytes += int64(info.Bytes)
			h.appended(&info)
			rolled = rolled || h.unsyncedBytes >= flushEvery
		}
	case partition.WriteEpoch:
		err = h.plog.AssignEpoch(w.Epoch, w.Offset)
	case partition.WriteLogStart:
		err = h.plog.IncrementLogStart(w.Offset)
	case partition.WriteRetain:
		rolled, err = h.performRetain(now, w.Offset)
	default:
		assert.Unreachable("write %d", w.Kind)
	}
	h.busySince.Store(0)
	h.resumed()
	return partition.Written{
		Fault: h.faultOf(err), Rolled: rolled, MaxTimestamp: newest,
		LogStart: h.plog.LogStart(), LogEnd: h.plog.LogEnd(),
	}
}

// flushEvery is how many bytes are appended before they are flushed in the
// background: it bounds what a recovery scans, and what a power failure takes.
const flushEvery = 256 << 20

// faultOf says how bad a write's failure is. A full disk, or an append that the
// log itself refused, has been cut back and leaves the log sound. Everything
// else breaks this partition's log, and no other's.
func (h *Hosted) faultOf(err error) partition.Fault {
	switch {
	case err == nil:
		return partition.FaultNone
	case errors.Is(err, log.ErrPoisoned), errors.Is(err, log.ErrClosed):
		h.fault = err
		return partition.FaultBroken
	case vfs.IsNoSpace(err), errors.Is(err, log.ErrOrder):
		h.refusals.note(h, err)
		return partition.FaultRefused
	}
	h.fault = err
	return partition.FaultBroken
}
