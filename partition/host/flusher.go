package host

import (
	"errors"
	"sync"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// DiskJob is work that waits for the disk, and so must not run in a loop.
type DiskJob interface {
	// Run waits for the disk. It is called once, on any goroutine.
	Run()
	// Done is called after Run and hands the result to its loop.
	Done()
}

// Flusher runs DiskJobs of one log directory. Production has goroutines; the
// simulator runs them at a later virtual time, or never.
type Flusher interface {
	// Submit queues a job and returns at once. Jobs that somebody waits for go
	// before the others; otherwise in order.
	Submit(j DiskJob, urgent bool)
	// Stop runs what is queued, and returns when all is done.
	Stop()
}

// flushWorkers is how many fsyncs of one directory run at a time: a journal
// commits them together.
const flushWorkers = 4

// diskFlusher is the production Flusher: a few goroutines that exist only while
// there is work, and then end.
type diskFlusher struct {
	name  string
	group *lifecycle.Group

	mu         sync.Mutex
	urgent     []DiskJob
	background []DiskJob
	workers    int
	// backgrounds counts workers on background jobs; one at a time, so that the
	// others are free for those that are waited for.
	backgrounds int
	idle        *sync.Cond
}

// NewFlusher returns a Flusher that starts its goroutines in group, named after
// the directory.
func NewFlusher(dir string, group *lifecycle.Group) Flusher {
	f := &diskFlusher{name: "flusher " + dir, group: group}
	f.idle = sync.NewCond(&f.mu)
	return f
}

// Submit queues a job and sees to a worker.
func (f *diskFlusher) Submit(j DiskJob, urgent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if urgent {
		f.urgent = append(f.urgent, j)
	} else {
		f.background = append(f.background, j)
	}
	if f.workers < flushWorkers {
		f.workers++
		f.group.Go(f.name, f.work)
	}
}

// Stop waits until nothing is queued or running.
func (f *diskFlusher) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.workers > 0 {
		f.idle.Wait()
	}
}

// Len returns how many jobs wait for a worker.
func (f *diskFlusher) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.urgent) + len(f.background)
}

// work is the life of one worker.
func (f *diskFlusher) work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		j, background := f.take()
		if j == nil {
			f.workers--
			if f.workers == 0 {
				f.idle.Broadcast()
			}
			return
		}
		f.mu.Unlock()
		j.Run()
		j.Done()
		f.mu.Lock()
		if background {
			f.backgrounds--
		}
	}
}

// take returns the next job, nil if this worker has nothing to do. Called with
// mu held.
func (f *diskFlusher) take() (j DiskJob, background bool) {
	if len(f.urgent) > 0 {
		j = f.urgent[0]
		f.urgent[0] = nil
		f.urgent = f.urgent[1:]
		return j, false
	}
	if len(f.background) > 0 && f.backgrounds == 0 {
		j = f.background[0]
		f.background[0] = nil
		f.background = f.background[1:]
		f.backgrounds++
		return j, true
	}
	return nil, false
}

// flush is one flush of one partition on its way to the disk and back.
type flush struct {
	h   *Hosted
	job *log.FlushJob
	err error
	msg flushedMsg
	// tail: the directory's next tail waits for it.
	tail bool
	// bytes are those that it makes durable.
	bytes int64
}

// Run waits for the disk.
func (f *flush) Run() {
	if f.err = f.timed(); f.err != nil && !errors.Is(f.err, log.ErrClosed) {
		f.h.m.doubt(f.h.dir, f.h.id)
	}
}

// Done hands the result to the partition. The flusher's goroutine doesn't enter
// the loop itself: delivering the acknowledgements there would hold up the next
// fsync.
func (f *flush) Done() { f.h.box.Post(&f.msg) }

// startFlush captures what is unsynced and sends it to the directory's flusher.
func (h *Hosted) startFlush(now model.Now, urgent bool, out *loop.Outbox) {
	job := h.plog.StartFlush()
	bytes := h.unsyncedBytes
	h.unsyncedBytes = 0
	if job == nil {
		h.tailDone(out)
		h.in = partition.Input{Kind: partition.KindFlushed, Flushed: h.plog.RecoveryPoint()}
		h.step(now, out)
		return
	}
	f := &flush{h: h, job: job, bytes: bytes}
	f.msg.f = f
	f.tail, h.tail = h.tail, false
	if urgent {
		h.flushSince.Store(int64(now.Mono))
	}
	h.dir.flusher.Submit(f, urgent)
}

// flushed completes a flush. The log decides what it is worth: one that a
// truncation overtook moves nothing.
func (h *Hosted) flushed(now model.Now, f *flush, out *loop.Outbox) {
	h.flushSince.Store(0)
	h.resumed()
	h.tail = h.tail || f.tail
	h.tailDone(out)
	if h.plog == nil {
		return
	}
	if err := h.plog.FinishFlush(f.job, f.err); err != nil {
		h.fault = err
		h.goOffline(now, partition.CodeStorageError, err.Error(), out)
		return
	}
	h.in = partition.Input{Kind: partition.KindFlushed, Flushed: h.plog.RecoveryPoint()}
	h.step(now, out)
	h.dir.points.advance(h, f.bytes, out)
}
