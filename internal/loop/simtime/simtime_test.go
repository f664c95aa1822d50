package simtime_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/loop/simtime"
	"github.com/tidemark/tidemark/internal/model"
)

// note is a Delivery and a Ticker that writes down when it ran.
type note struct {
	name string
	did  *[]string
	then func(now model.Now)
}

func (n *note) Deliver(now model.Now) {
	*n.did = append(*n.did, fmt.Sprintf("%s@%d", n.name, now.Mono))
	if n.then != nil {
		n.then(now)
	}
}

func (n *note) TickAt(now model.Now) { n.Deliver(now) }

func TestOrderIsOfTime(t *testing.T) {
	s := simtime.New(1)
	var did []string
	s.At(30, &note{"c", &did, nil})
	s.At(10, &note{"a", &did, func(model.Now) { s.At(5, &note{"late", &did, nil}) }})
	s.At(20, &note{"b", &did, nil})
	if n := s.RunUntil(25); n != 3 || s.Now() != 25 || s.Len() != 1 || s.Next() != 30 {
		t.Errorf("ran %d, now %d, %d left, next %d", n, s.Now(), s.Len(), s.Next())
	}
	for s.Step() {
	}
	if want := []string{"a@10", "late@10", "b@20", "c@30"}; !slices.Equal(did, want) || s.Now() != 30 || s.Ran() != 4 {
		t.Errorf("got %v at %d, want %v", did, s.Now(), want)
	}
	if s.Next() != model.Never || s.Step() {
		t.Error("something is left")
	}
}

func TestTiesAreDrawnFromTheSeed(t *testing.T) {
	order := func(seed uint64) []string {
		s := simtime.New(seed)
		var did []string
		for i := range 8 {
			s.At(10, &note{fmt.Sprint(i), &did, nil})
		}
		s.RunUntil(10)
		return did
	}
	if !slices.Equal(order(1), order(1)) {
		t.Error("one seed, two orders")
	}
	different := 0
	for seed := range uint64(20) {
		if !slices.Equal(order(seed), order(seed+1)) {
			different++
		}
	}
	if different < 18 {
		t.Errorf("only %d of 20 seeds differ from the next", different)
	}
}

func TestDeadlinesAreReplacedAndCleared(t *testing.T) {
	s := simtime.New(1)
	rt := s.Runtime(simtime.Clocks{}, 0)
	var did []string
	a, b, c := &note{"a", &did, nil}, &note{"b", &did, nil}, &note{"c", &did, nil}
	a.then = func(now model.Now) {
		if now.Mono < 100 {
			rt.SetDeadline(a, now.Mono+60)
		}
	}
	rt.SetDeadline(a, 10)
	rt.SetDeadline(a, 40) // later
	rt.SetDeadline(b, 90)
	rt.SetDeadline(b, 20) // earlier
	rt.SetDeadline(c, 30)
	rt.SetDeadline(c, model.Never)
	rt.SetDeadline(c, model.Never)
	s.RunUntil(1000)
	if want := []string{"b@20", "a@40", "a@100"}; !slices.Equal(did, want) {
		t.Errorf("got %v, want %v", did, want)
	}
	rt.SetDeadline(b, 5) // long past: at once, though not inside the call
	if len(did) != 3 || s.Next() != 1000 {
		t.Errorf("got %v, next %d", did, s.Next())
	}
}

func TestClocks(t *testing.T) {
	for _, ppm := range []int64{0, 10_000, -10_000, 7, -333} {
		s := simtime.New(1)
		rt := s.Runtime(simtime.Clocks{Wall: 1_700_000_000_000, DriftPPM: ppm, Started: 5}, 0)
		var did []string
		for _, at := range []model.Instant{6, 999_999, 1_000_003, 86_400_000_000_001} {
			n := &note{"x", &did, func(now model.Now) {
				// The first instant at which this node's clock shows it: its clock
				// can pass over values, by as much as it is fast.
				if late := now.Mono - at; late < 0 || late > 1 {
					t.Errorf("ppm %d: deadline %d fired at %d", ppm, at, now.Mono)
				}
			}}
			rt.SetDeadline(n, at)
			for s.Step() {
			}
		}
		if len(did) != 4 {
			t.Errorf("ppm %d: %v", ppm, did)
		}
		day := s.Now()
		want := model.Timestamp(1_700_000_000_000 + 86_400_000)
		if got := rt.Now().Wall; got < want-1 || got > want+1 {
			t.Errorf("ppm %d: wall %d at world's %d, want about %d", ppm, got, day, want)
		}
		rt.JumpWall(-5000)
		if got := rt.Now().Wall; got < want-5001 || got > want-4999 {
			t.Errorf("wall %d after a jump", got)
		}
	}
}

func TestStopDropsOnlyItsOwn(t *testing.T) {
	s := simtime.New(1)
	var did []string
	a, b := s.Runtime(simtime.Clocks{}, 50), s.Runtime(simtime.Clocks{}, 50)
	for i := range model.Instant(20) {
		a.Spare(&note{"a", &did, nil})
		b.Spare(&note{"b", &did, nil})
		a.SetDeadline(&note{"at", &did, nil}, 10+i)
		b.After(i, &note{"b", &did, nil})
	}
	s.At(30, &note{"world", &did, nil})
	a.Stop()
	a.Spare(&note{"a", &did, nil})
	a.SetDeadline(&note{"at", &did, nil}, 10)
	s.RunUntil(100)
	bs := 0
	for _, l := range did {
		switch l[0] {
		case 'a':
			t.Fatalf("the stopped node ran: %v", did)
		case 'b':
			bs++
		}
	}
	if bs != 40 || len(did) != 41 {
		t.Errorf("%d of the other node's, %d in all, want 40 and 41", bs, len(did))
	}
}

// echo is a Handler that bounces a number between boxes, each time after a
// deadline, and writes down the times.
type echo struct {
	name string
	to   **loop.Box[int]
	held []int
	due  model.Instant
	did  *[]string
}

func (e *echo) Handle(now model.Now, n int, _ *loop.Outbox) {
	e.held = append(e.held, n)
	e.due = now.Mono + 7
}

func (e *echo) NextDeadline() model.Instant { return e.due }

func (e *echo) Tick(now model.Now, out *loop.Outbox) {
	e.due = model.Never
	for _, n := range e.held {
		*e.did = append(*e.did, fmt.Sprintf("%s%d@%d", e.name, n, now.Mono))
		if n > 0 {
			loop.Send(out, *e.to, n-1)
		}
	}
	e.held = nil
}

func TestBoxesRunTheSameForOneSeed(t *testing.T) {
	run := func(seed uint64) []string {
		s := simtime.New(seed)
		rt := s.Runtime(simtime.Clocks{}, 3)
		var did []string
		var a, b *loop.Box[int]
		a = loop.NewBox(&echo{name: "a", to: &b, due: model.Never, did: &did}, rt)
		b = loop.NewBox(&echo{name: "b", to: &a, due: model.Never, did: &did}, rt)
		for range 5 {
			a.Post(6)
			b.Post(5)
		}
		for s.Step() {
		}
		return did
	}
	one := run(1)
	if len(one) != 5*7+5*6 {
		t.Errorf("%d events: %v", len(one), one)
	}
	if !slices.Equal(one, run(1)) {
		t.Error("one seed, two runs")
	}
	if slices.Equal(one, run(2)) && slices.Equal(one, run(3)) {
		t.Error("the seed changes nothing")
	}
}
