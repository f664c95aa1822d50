package host

import (
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/compaction"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// cleaning is the compaction of one partition: read the dirty section, then write
// what is left of the log group by group, each of which is swapped in before the
// next one is begun. It is worked on by one goroutine at a time, and waits for
// the partition's loop twice: for the producers, and for each swap.
type cleaning struct {
	c        *cleaner
	h        *Hosted
	view     *log.View // of the log as it was when the cleaning began
	topic    *config.Topic
	now      model.Now // when that was
	segments []compaction.Segment
	dirt     compaction.Dirt

	offsets *compaction.OffsetMap
	pass    *compaction.Pass
	groups  [][]compaction.Segment
	next    int // the group that comes next
	buf     []byte
	indexed int64 // bytes that the first pass has read
	spent   int   // bytes that the pacer doesn't know of
	err     error

	mu   sync.Mutex
	idle *sync.Cond
	// answered: the loop has done what it was asked for, with the outcome; due: a
	// pause is over.
	answered, due, aborted bool
	outcome                error
	producers              []producer.Last
	refused                *log.Rewrite
}

// errLeft ends the cleaning of a partition that is no longer there, or of a
// broker that stops.
var errLeft = errors.New("the partition was left")

// work does all of it on a goroutine that may wait. What it doesn't wait for any
// more, because the cleaning is to end, does no harm.
func (cl *cleaning) work() {
	for cl.advance() {
		cl.mu.Lock()
		for !cl.answered && !cl.aborted {
			cl.idle.Wait()
		}
		cl.mu.Unlock()
	}
	cl.c.done(cl)
}

// Deliver does what can be done now, where nobody may wait; the loop's answer
// calls it again.
func (cl *cleaning) Deliver(model.Now) {
	if !cl.advance() {
		cl.c.done(cl)
	}
}

// advance works until the loop has to do something, and reports that it has.
func (cl *cleaning) advance() (waits bool) {
	done := false
	done, cl.err = cl.step()
	return !done && cl.err == nil
}

// step does the next part, and asks the loop for what comes then.
func (cl *cleaning) step() (done bool, err error) {
	if cl.offsets == nil {
		cl.buf = make([]byte, cl.c.bufferBytes())
		cfg := cl.c.settings()
		cl.offsets = compaction.NewOffsetMap(cfg.DedupeBytes/int64(max(cfg.Threads, 1)), cfg.LoadFactor, cl.c.secret)
		cl.ask(&producersBelowMsg{cl: cl, below: cl.dirt.To})
		return false, nil
	}
	if err := cl.answer(); err != nil {
		return false, err
	}
	if cl.pass == nil {
		if err := cl.index(); err != nil {
			return false, err
		}
	}
	if cl.next == len(cl.groups) {
		return true, cl.finish()
	}
	if cl.next == 0 {
		err := cl.h.dir.settle(cl.h, cl.dirt.To)
		if err != nil && !errors.Is(err, log.ErrStaleView) && !vfs.IsNoSpace(err) {
			cl.c.m.dirFailed(cl.h.dir, err)
		}
		if err != nil {
			return false, err
		}
	}
	w, err := cl.write(cl.groups[cl.next])
	if err != nil {
		return false, err
	}
	cl.next++
	cl.ask(&swapMsg{cl: cl, rewrite: w})
	return false, nil
}

// ask has the loop do something.
func (cl *cleaning) ask(msg message) {
	cl.mu.Lock()
	cl.answered = false
	cl.mu.Unlock()
	cl.h.box.Enter(msg)
}

// answer returns the outcome of what the loop was asked for.
func (cl *cleaning) answer() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.refused != nil {
		cl.refused.Abandon()
		cl.refused = nil
	}
	if cl.aborted {
		return errLeft
	}
	return cl.outcome
}

// answerWith tells the outcome and has the cleaning go on. It is called after the
// loop was released. refused is what the log didn't take, for the cleaning to
// remove.
func (cl *cleaning) answerWith(err error, refused *log.Rewrite) {
	cl.mu.Lock()
	cl.outcome, cl.refused, cl.answered = err, refused, true
	cl.idle.Broadcast()
	cl.mu.Unlock()
	if cl.c.m.deps.Group == nil {
		cl.c.m.deps.RT.Spare(cl)
	}
}

// abort has the cleaning end soon.
func (cl *cleaning) abort() {
	cl.mu.Lock()
	cl.aborted = true
	cl.idle.Broadcast()
	cl.mu.Unlock()
}

// spendAtOnce is how many bytes are noted together.
const spendAtOnce = 64 << 10

// spend notes bytes that were read or written, pauses if that was too fast, and
// fails if the cleaning is to end.
func (cl *cleaning) spend(n int) error {
	if cl.spent += n; cl.spent < spendAtOnce {
		return nil
	}
	n, cl.spent = cl.spent, 0
	until := cl.c.pace.after(cl.c.m.deps.RT.Now().Mono, n)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if until > 0 && cl.c.m.deps.Group != nil {
		cl.due = false
		cl.c.m.deps.RT.SetDeadline(cl, until)
		for !cl.due && !cl.aborted {
			cl.idle.Wait()
		}
	}
	if cl.aborted {
		return errLeft
	}
	return nil
}

// TickAt ends a pause.
func (cl *cleaning) TickAt(model.Now) {
	cl.mu.Lock()
	cl.due = true
	cl.idle.Broadcast()
	cl.mu.Unlock()
}

var _ loop.Ticker = (*cleaning)(nil)

// index is the first pass. It settles how far the cleaning goes, and the groups.
func (cl *cleaning) index() error {
	from, to := cl.dirt.From, cl.dirt.To
	x := compaction.NewIndex(cl.offsets, from, cl.view.Aborted(from, to))
	full := false
	err := cl.view.CheckedBatches(from, to, cl.buf,
		func(next model.Offset) { cl.offsets.Reached(next - 1) },
		func(b record.Batch) error {
			if err := cl.spend(len(b)); err != nil {
				return err
			}
			cl.indexed += int64(len(b))
			more, err := x.Batch(b)
			if err == nil && !more {
				full = true
				return errFullMap
			}
			return err
		})
	if err != nil && !full {
		return cl.damaged(err)
	}
	n := 0
	for n < len(cl.segments)-1 && cl.segments[n].Base <= cl.offsets.Latest() {
		n++
	}
	cl.view.MeasureIndexes(cl.segments[:n])
	cl.groups = compaction.Group(cl.segments[:n], compaction.Limits{
		SegmentBytes: int64(cl.topic.SegmentBytes), IndexBytes: int64(cl.topic.SegmentIndexBytes),
	})
	producers := make(map[model.ProducerID]compaction.LastRecord, len(cl.producers))
	for _, p := range cl.producers {
		producers[p.ProducerID] = compaction.LastRecord{Data: p.Offset, Epoch: p.Epoch}
	}
	cl.pass = compaction.NewPass(cl.offsets, compaction.Rules{
		Now: cl.now.Wall, DeleteRetentionMs: cl.topic.DeleteRetentionMs, End: to, Producers: producers,
	}, cl.view.Aborted(cl.segments[0].Base, to))
	return nil
}

var errFullMap = errors.New("the map is full")

// damaged tells records that can't be decoded from a disk that can't be read.
func (cl *cleaning) damaged(err error) error {
	var corrupt *record.CorruptError
	var known *log.CorruptionError
	if !errors.As(err, &corrupt) || errors.As(err, &known) {
		return err
	}
	return &log.CorruptionError{Dir: cl.h.Dir(), Offset: model.NoOffset, BelowRecoveryPoint: true, Err: err}
}

// write is the second pass for one group.
func (cl *cleaning) write(group []compaction.Segment) (*log.Rewrite, error) {
	w, err := cl.view.StartRewrite(group[0].Base, len(group), len(cl.buf))
	if err != nil {
		return nil, err
	}
	err = w.Batches(cl.buf, func(b record.Batch) error {
		written := 0
		err := w.Append(func(dst []byte) ([]byte, error) {
			out, err := cl.pass.Append(dst, b)
			written = len(out) - len(dst)
			return out, err
		})
		if err != nil {
			return err
		}
		return cl.spend(len(b) + written)
	})
	if err == nil {
		err = w.Finish(cl.pass.TakeAborted())
	}
	if err != nil {
		w.Abandon()
		return nil, cl.damaged(err)
	}
	return w, nil
}

// finish notes how far the log is clean now.
func (cl *cleaning) finish() error {
	end := cl.offsets.Latest().Next()
	s := cl.pass.Stats()
	c := &cl.c.counts
	c.runs.Add(1)
	c.read.Add(cl.indexed + s.Bytes)
	c.written.Add(s.BytesKept)
	c.dropped.Add(s.Records - s.RecordsKept)
	c.utilization.Store(int64(100 * cl.offsets.Utilization()))
	c.lastTook.Store(int64(cl.c.m.deps.RT.Now().Mono - cl.now.Mono))
	cl.c.m.logger.Info("compacted", name(cl.h), zap.Int64("from", int64(cl.dirt.From)), zap.Int64("to", int64(end)),
		zap.Int("segments were", len(cl.segments)-1), zap.Int("groups", len(cl.groups)),
		zap.Int64("records", s.Records), zap.Int64("kept", s.RecordsKept), zap.Int64("bytes", s.Bytes), zap.Int64("bytes kept", s.BytesKept),
		zap.Int64("tombstones", s.Tombstones), zap.Int64("without key", s.Keyless), zap.Int("keys", cl.offsets.Len()),
		zap.Duration("took", time.Duration(c.lastTook.Load())))
	return cl.c.m.noteCleaned(cl.h, end)
}

// bufferBytes is the size of a buffer of one thread.
func (c *cleaner) bufferBytes() int {
	cfg := c.settings()
	return max(int(cfg.IOBufferBytes)/int(max(cfg.Threads, 1))/2, 4096)
}
