package inspect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
)

// voter is a member whose loop answers when a test lets it.
type voter struct{ waiting []func() }

func (v *voter) Touch(done func())        { v.waiting = append(v.waiting, done) }
func (v *voter) Flushes() metrics.Reading { return metrics.Reading{} }

// clock is a Runtime of which only the time is used.
type clock struct {
	loop.Runtime
	start time.Time
}

func (c clock) Now() model.Now { return model.Now{Mono: model.Instant(time.Since(c.start))} }

// A loop that is late is no reason to restart a node; one that is silent for as
// long as a disk may be is. However often it is asked, one question waits.
func TestASilentQuorumIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &voter{}
		n := New("v", func() error { return nil })
		p := &Parts{RT: clock{start: time.Now().Add(-time.Hour)}, Voter: v, Stall: 10 * time.Second}
		look := func(ok bool, detail string) {
			t.Helper()
			if c := n.quorumPulse(p); c.OK != ok || c.Detail != detail {
				t.Errorf("ok %v: %s; want %v: %s", c.OK, c.Detail, ok, detail)
			}
		}
		look(true, "the quorum's loop has not answered for 1s")
		<-time.After(8 * time.Second)
		look(true, "the quorum's loop has not answered for 9s")
		<-time.After(time.Second)
		look(false, "the quorum's loop has not answered for 10s")
		if len(v.waiting) != 1 {
			t.Errorf("%d questions wait", len(v.waiting))
		}
		v.waiting[0]()
		v.waiting = nil
		look(true, "the quorum's loop has not answered for 1s")
		v.waiting[0]()
		<-time.After(time.Hour)
		go func() {
			synctest.Wait()
			v.waiting[1]()
		}()
		look(true, "the quorum's loop answers")
	})
}
