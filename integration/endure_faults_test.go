package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ailment is what is wrong with a disk during one life of a broker, by what the
// kernel answers to some of its calls.
type ailment struct {
	name, calls string
	injection   func(e *endurance) string
}

func ailments() []ailment {
	once := func(what string, most int) func(e *endurance) string {
		return func(e *endurance) string { return fmt.Sprintf("%s:when=%d", what, 1+e.rng.IntN(most)) }
	}
	on := func(what string, most int) func(e *endurance) string {
		return func(e *endurance) string { return fmt.Sprintf("%s:when=%d+", what, 1+e.rng.IntN(most)) }
	}
	slow := func(e *endurance) string {
		// A start after a kill has some fifty of them, one after another.
		return fmt.Sprintf("delay_enter=%d:when=1+%d", 100_000+e.rng.IntN(1_200_000), 2+e.rng.IntN(9))
	}
	const writes, flushes, reads = "pwrite64", "fdatasync,fsync", "pread64,sendfile"
	return []ailment{
		{"a write fails", writes, once("error=EIO", 30)},
		{"writes fail", writes, on("error=EIO", 30)},
		{"a write finds no room", writes, once("error=ENOSPC", 30)},
		{"a flush fails", flushes, once("error=EIO", 6)},
		{"flushes fail", flushes, on("error=EIO", 6)},
		{"a read fails", reads, once("error=EIO", 30)},
		{"reads fail", reads, on("error=EIO", 30)},
		{"slow flushes", flushes, slow},
		{"slow writes", writes, func(e *endurance) string {
			return fmt.Sprintf("delay_enter=%d:when=1+%d", 10_000+e.rng.IntN(300_000), 5+e.rng.IntN(50))
		}},
	}
}

// ail has a node's next process run with an ailment, of one partition's newest
// segment or of all files. It returns what it is.
func (e *endurance) ail(m *member) string {
	e.c.t.Helper()
	all := ailments()
	a := all[e.rng.IntN(len(all))]
	where, paths := "anywhere", []string(nil)
	if e.rng.IntN(5) > 0 {
		p := e.trails[e.rng.IntN(len(e.trails))].p
		if e.rng.IntN(6) == 0 {
			p = tp{"__consumer_offsets", int32(e.rng.IntN(2))}
		}
		if dir, err := m.replicaDir(p); err == nil {
			where, paths = fmt.Sprint("at ", p), []string{"-P", lastSegment(e.c.t, dir)}
		}
	}
	how := a.injection(e)
	m.wrap = append([]string{"strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", filepath.Join(e.c.t.TempDir(), "strace")}, paths...)
	m.wrap = append(m.wrap, "-e", "trace="+a.calls, "-e", "inject="+a.calls+":"+how)
	return fmt.Sprintf("%s %s (%s)", a.name, where, how)
}

// aching is one life of a broker with an ailment and perhaps a pause, and its end.
// It may end by itself, with a reason, if its metadata log is what fails.
func (e *endurance) aching(y *tally, m *member) {
	t := e.c.t
	t.Helper()
	what := e.ail(m)
	m.launch()
	var took time.Duration
	began := time.Now()
	eventuallyOr(t, 90*time.Second, func() string { return what + ": it is ready or gone" }, func() bool { return m.ready() || m.p.Ended() })
	took = time.Since(began)
	e.moment(3 * time.Second)
	end := "killed"
	if !m.p.Ended() && e.rng.IntN(4) == 0 {
		m.signal(syscall.SIGSTOP)
		e.moment(3 * time.Second)
		if e.rng.IntN(2) == 0 {
			m.signal(syscall.SIGCONT)
			e.moment(time.Second)
		}
		end = "paused and killed"
	}
	switch {
	case m.p.Ended():
		code, _ := m.p.Wait(time.Second)
		end = fmt.Sprintf("ended with %d", code)
		if code != 1 || !strings.Contains(m.p.Stderr.String(), "error") && !strings.Contains(m.p.Stderr.String(), "no space") {
			t.Errorf("%s: exit code %d\n%s", what, code, m.p.Stderr.String())
		}
		m.halt(true)
	case end == "killed" && e.rng.IntN(3) == 0:
		m.signal(syscall.SIGTERM)
		if _, err := m.p.Wait(30 * time.Second); err != nil {
			y.lateStops++
		}
		end = "stopped"
		m.halt(true)
	default:
		y.kills++
		m.kill()
	}
	y.words(t, m)
	t.Logf("%s; ready after %s, %s", what, took.Round(time.Millisecond), end)
	m.wrap = nil
}

// TestEndureFaults: a broker whose disk fails or hangs in one of its lives, at one
// partition or anywhere, and one that stands still, serve after the next start all that
// was acknowledged, and records flow again everywhere.
func TestEndureFaults(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, tt := range []struct {
		name  string
		three bool
		runs  int
	}{{"one", false, rounds(2, 40)}, {"three", true, rounds(1, 25)}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := enduring(t, enduranceSpec{three: tt.three, set: []string{"tidemark.io.stall.timeout.ms=1000"}})
			e.flows()
			var y tally
			for i := range tt.runs {
				m := e.victims()[0]
				if e.rng.IntN(5) == 0 {
					m.signal(syscall.SIGSTOP)
					e.moment(5 * time.Second)
					m.signal(syscall.SIGCONT)
					e.moment(time.Second)
					y.pauses++
				}
				e.kill(&y, []*member{m})
				e.aching(&y, m)
				m.start()
				e.flows()
				if tt.three {
					for _, x := range e.trails {
						e.c.awaitISR(x.p, 3)
					}
				}
				e.check(i%10 == 9)
			}
			e.finish()
			t.Logf("%d runs: %+v", tt.runs, y)
		})
	}
}
