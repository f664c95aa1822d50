package realtime_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
)

// inBubble runs a test in virtual time and checks that Stop ends everything.
func inBubble(t *testing.T, fn func(t *testing.T, rt *realtime.Runtime)) {
	synctest.Test(t, func(t *testing.T) {
		var group lifecycle.Group
		rt := realtime.New(&group)
		fn(t, rt)
		rt.Stop()
		group.Wait()
		rt.Spare(&task{func(model.Now) { t.Error("a spare ran after Stop") }})
		rt.SetDeadline(&alarm{fn: func(model.Now) { t.Error("a deadline fired after Stop") }}, 0)
		synctest.Wait()
		if err := group.Leaked(); err != nil {
			t.Error(err)
		}
	})
}

type task struct{ fn func(now model.Now) }

func (d *task) Deliver(now model.Now) { d.fn(now) }

type alarm struct {
	mu    sync.Mutex
	fired []model.Instant
	fn    func(now model.Now)
}

func (a *alarm) TickAt(now model.Now) {
	a.mu.Lock()
	a.fired = append(a.fired, now.Mono)
	a.mu.Unlock()
	if a.fn != nil {
		a.fn(now)
	}
}

func (a *alarm) want(t *testing.T, want ...model.Instant) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.fired, want) {
		t.Errorf("fired at %v, want %v", a.fired, want)
	}
}

const second = model.Instant(time.Second)

func TestNowMovesBothClocks(t *testing.T) {
	inBubble(t, func(t *testing.T, rt *realtime.Runtime) {
		before := rt.Now()
		<-time.After(1500 * time.Millisecond)
		after := rt.Now()
		if after.Mono-before.Mono != second*3/2 || after.Wall-before.Wall != 1500 {
			t.Errorf("from %+v to %+v", before, after)
		}
		if after.Wall != model.Timestamp(time.Now().UnixMilli()) {
			t.Errorf("wall %d", after.Wall)
		}
	})
}

func TestDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T, rt *realtime.Runtime) {
		a, b, c, d := &alarm{}, &alarm{}, &alarm{}, &alarm{}
		rt.SetDeadline(a, 3*second)
		rt.SetDeadline(b, 9*second)
		rt.SetDeadline(b, 2*second) // nearer than the one being waited for
		rt.SetDeadline(c, 1*second)
		synctest.Wait()
		rt.SetDeadline(c, 5*second) // away, while the goroutine waits for it
		rt.SetDeadline(d, 4*second)
		rt.SetDeadline(d, model.Never)
		rt.SetDeadline(d, model.Never)
		<-time.After(10 * time.Second)
		synctest.Wait()
		a.want(t, 3*second)
		b.want(t, 2*second)
		c.want(t, 5*second)
		d.want(t)
		rt.SetDeadline(d, 1*second) // past: at once
		synctest.Wait()
		d.want(t, 10*second)
	})
}

func TestADeadlineMaySetTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, rt *realtime.Runtime) {
		a := &alarm{}
		a.fn = func(now model.Now) {
			if now.Mono < 3*second {
				rt.SetDeadline(a, now.Mono+second)
			}
		}
		rt.SetDeadline(a, second)
		<-time.After(10 * time.Second)
		synctest.Wait()
		a.want(t, second, 2*second, 3*second)
	})
}

func TestSpareIsNeverInline(t *testing.T) {
	inBubble(t, func(t *testing.T, rt *realtime.Runtime) {
		var mu sync.Mutex
		ran := false
		mu.Lock()
		rt.Spare(&task{func(model.Now) {
			mu.Lock()
			ran = true
			mu.Unlock()
		}})
		mu.Unlock()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !ran {
			t.Error("the spare did not run")
		}
	})
}

// However many spares block, the goroutines are bounded, and all are run once
// they go on.
func TestSparesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group lifecycle.Group
		rt := realtime.New(&group)
		release := make(chan struct{})
		var ran atomic.Int32
		for range 1000 {
			rt.Spare(&task{func(model.Now) {
				<-release
				ran.Add(1)
			}})
		}
		synctest.Wait()
		if n := group.Len(); n < 64 || n > 129 {
			t.Errorf("%d goroutines for 1000 blocked spares", n)
		}
		close(release)
		synctest.Wait()
		if ran.Load() != 1000 {
			t.Errorf("ran %d", ran.Load())
		}
		if n := group.Len(); n > 8 {
			t.Errorf("%d goroutines stay idle", n)
		}
		rt.Stop()
		group.Wait()
	})
}

// lateBox is a Handler that wants to be woken every second.
type lateBox struct {
	due   model.Instant
	ticks []model.Instant
}

func (l *lateBox) Handle(model.Now, int, *loop.Outbox) {}
func (l *lateBox) NextDeadline() model.Instant         { return l.due }
func (l *lateBox) Tick(now model.Now, _ *loop.Outbox) {
	l.ticks = append(l.ticks, now.Mono)
	l.due += second
}

func TestABoxTicks(t *testing.T) {
	inBubble(t, func(t *testing.T, rt *realtime.Runtime) {
		l := &lateBox{due: second}
		b := loop.NewBox(l, rt)
		b.Wake()
		<-time.After(3500 * time.Millisecond)
		b.Enter(0)
		synctest.Wait()
		if want := []model.Instant{second, 2 * second, 3 * second}; !slices.Equal(l.ticks, want) {
			t.Errorf("ticks at %v, want %v", l.ticks, want)
		}
	})
}
