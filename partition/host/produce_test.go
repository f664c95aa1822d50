package host

import (
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

func TestProduceAndRead(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, -1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.send(h, 1, batchOf(2, -1, 0)).want(t, 0, 3)
	n.send(h, 0, batchOf(1, -1, 0)).want(t, 0, 5)
	s := h.State()
	if s.LogEnd != 6 || s.HighWatermark != 6 || s.LastStable != 6 || s.LogStart != 0 {
		t.Errorf("state %+v, want everything at 6", s.Mark)
	}
	if got := values(t, s); got != 6 {
		t.Errorf("%d records read, want 6", got)
	}
}

// frame counts how often it is held.
type frame struct{ held, released int }

func (f *frame) Retain()  { f.held++ }
func (f *frame) Release() { f.released++ }

func TestFrameIsReleasedAtAppendNotAtTheAnswer(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	f := &frame{}
	a := &answers{}
	h.Produce(ProduceMsg{Prepared: prepare(t, n, batchOf(1, -1, 0)), Acks: -1, Waiter: a, Frame: f, Deadline: model.Never})
	if len(a.produced) != 0 {
		t.Fatal("acknowledged before the disk")
	}
	if f.held != 1 || f.released != 1 {
		t.Errorf("held %d times, released %d times, want 1 and 1 while the answer waits", f.held, f.released)
	}
	n.flushAll()
	a.want(t, 0, 0)
	if f.released != 1 {
		t.Errorf("released %d times, want 1", f.released)
	}
}

func TestFlushBeforeAck(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	a := n.send(h, 1, batchOf(1, -1, 0))
	b := n.send(h, -1, batchOf(1, -1, 0))
	c := n.send(h, 1, batchOf(1, -1, 0))
	if got := len(n.flush["/data"].jobs); got != 1 {
		t.Fatalf("%d flushes queued, want 1: what comes while one runs waits for the next", got)
	}
	if len(a.produced)+len(b.produced)+len(c.produced) != 0 || h.State().HighWatermark != 0 {
		t.Fatal("acknowledged or exposed before the disk")
	}
	n.flush["/data"].run()
	n.rt.idle()
	a.want(t, 0, 0)
	if len(b.produced) != 0 {
		t.Fatal("the second was acknowledged by a flush that began before it")
	}
	n.flushAll()
	b.want(t, 0, 1)
	c.want(t, 0, 2)
	// Everything that was acknowledged survives a power failure.
	n.power()
	n.start()
	if s := n.m.Get("t", 0).State(); s.LogEnd != 3 || values(t, s) != 3 {
		t.Errorf("log end %d after the power failure, want 3: %+v", s.LogEnd, *s.Standing)
	}
}

func TestRequestTimesOut(t *testing.T) {
	n, h := leading(t, map[string]string{"flush.messages": "1"})
	n.cfg.Own.IOStallTimeout = time.Minute // else the disk is given up before
	a := n.send(h, -1, batchOf(1, -1, 0))
	n.rt.advance(29_000)
	if len(a.produced) != 0 {
		t.Fatal("timed out early")
	}
	n.rt.advance(2_000)
	a.want(t, partition.CodeRequestTimedOut, 0)
	n.flushAll()
	a.want(t, partition.CodeRequestTimedOut, 0) // and once only
}

func TestLogAppendTimeSurvivesARestart(t *testing.T) {
	n, h := leading(t, map[string]string{"message.timestamp.type": "LogAppendTime"})
	n.rt.now.Wall = 2_000_000_000_000
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	n.kill()
	n.start()
	n.register()
	h = n.m.Get("t", 0)
	n.rt.now.Wall = 1_900_000_000_000 // the clock was set back
	a := n.send(h, 1, batchOf(1, -1, 0))
	a.want(t, 0, 1)
	if got := a.produced[0].AppendTime; got != 2_000_000_000_000 {
		t.Errorf("append time %d, want the last one again", got)
	}
}

// The newest record may be deleted; the times don't begin anew for that.
func TestLogAppendTimeSurvivesDeleteRecords(t *testing.T) {
	n, h := leading(t, map[string]string{"message.timestamp.type": "LogAppendTime"})
	n.rt.now.Wall = 2_000_000_000_000
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	a := &answers{}
	h.DeleteRecords(1, model.Never, a, 0)
	n.stop()
	n.start()
	n.register()
	if h = n.m.Get("t", 0); h.State().LogStart != 1 {
		t.Fatalf("the log starts at %d", h.State().LogStart)
	}
	n.rt.now.Wall = 1_900_000_000_000 // the clock was set back
	a = n.send(h, 1, batchOf(1, -1, 0))
	a.want(t, 0, 1)
	if got := a.produced[0].AppendTime; got != 2_000_000_000_000 {
		t.Errorf("append time %d, want the last one again", got)
	}
}

func TestFetchWaiters(t *testing.T) {
	n, h := leading(t, nil)
	a := &answers{}
	w := &FetchWait{Waiter: a, Slot: 4, From: 0, Bound: partition.BoundHighWatermark, Seen: h.State()}
	h.Wait(w)
	if len(a.ready) != 0 {
		t.Fatal("woken with nothing to read")
	}
	n.send(h, 1, batchOf(1, -1, 0))
	if len(a.ready) != 1 || a.ready[0] != 4 {
		t.Fatalf("woken %v, want once with slot 4", a.ready)
	}
	n.send(h, 1, batchOf(1, -1, 0))
	if len(a.ready) != 1 {
		t.Fatal("woken twice for one Wait")
	}
	// What moved between the look and the wait wakes at once: Seen is old.
	h.Wait(w)
	if len(a.ready) != 2 {
		t.Fatal("a stale Wait was not woken")
	}
	w.Seen = h.State()
	h.Wait(w)
	h.Cancel(w)
	n.send(h, 1, batchOf(1, -1, 0))
	if len(a.ready) != 2 {
		t.Fatal("a cancelled Wait was woken")
	}
	w2 := &FetchWait{Waiter: a, From: 3, Bound: partition.BoundLogEnd, Seen: h.State()}
	h.Wait(w2)
	n.apply(deposed("t"))
	if len(a.ready) != 3 {
		t.Fatal("not woken when the leadership was lost")
	}
}

func TestWriteTakesItsTime(t *testing.T) {
	n := newNode(t)
	slow := &slowExecutor{}
	n.exec = slow
	n.start()
	n.register()
	n.create("t", 1)
	slow.proceed() // the epoch's start
	h := n.m.Get("t", 0)
	f := &frame{}
	a, b := &answers{}, &answers{}
	h.Produce(ProduceMsg{Prepared: prepare(t, n, batchOf(1, -1, 0)), Acks: 1, Waiter: a, Frame: f, Deadline: model.Never})
	h.Produce(ProduceMsg{Prepared: prepare(t, n, batchOf(1, -1, 0)), Acks: 1, Waiter: b, Frame: f, Deadline: model.Never})
	if len(a.produced) != 0 || f.released != 0 {
		t.Fatal("answered or released before the write")
	}
	slow.proceed()
	a.want(t, 0, 0)
	if len(b.produced) != 0 {
		t.Fatal("the second was answered with the first's write")
	}
	slow.proceed()
	b.want(t, 0, 1)
	if f.released != 2 {
		t.Errorf("%d frames released, want 2", f.released)
	}
}

// slowExecutor does writes when a test says so.
type slowExecutor struct{ works []*Work }

func (e *slowExecutor) Start(w *Work) bool {
	e.works = append(e.works, w)
	return false
}

func (e *slowExecutor) proceed() {
	w := e.works[0]
	e.works = e.works[1:]
	w.Proceed()
}

// TestSettingsDuringAWrite: settings that come while a write is outstanding are
// shown as soon as they are in force.
func TestSettingsDuringAWrite(t *testing.T) {
	slow := &slowExecutor{}
	n := newNode(t)
	n.exec = slow
	n.start()
	n.register()
	recs := topicRecords("t", 1)
	recs[1].(*metadata.PartitionRecord).Replicas = []model.BrokerID{1, 2}
	n.apply(recs...)
	slow.proceed()
	h := n.m.Get("t", 0)
	if got := h.State().MinISR; got != 1 {
		t.Fatalf("min ISR %d at first", got)
	}
	n.send(h, 1, batchOf(1, -1, 0))
	two := "2"
	n.topic["t"] = map[string]string{"min.insync.replicas": two} // what n.settings says
	n.apply(&metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "min.insync.replicas", Value: &two})
	slow.proceed()
	if got := h.State().MinISR; got != 2 {
		t.Errorf("min ISR %d is shown, 2 is in force", got)
	}
}
