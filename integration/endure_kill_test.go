package integration

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark/tidemark/compat/proc"
)

// verifyOffline has the program check a stopped node's directory.
func (e *endurance) verifyOffline(m *member) {
	t := e.c.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dirs, err := filepath.Glob(filepath.Join(m.dir, "d*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the directories of node %d: %v, %v", m.id, dirs, err)
	}
	r, err := proc.Run(ctx, nil, append([]string{program, "log", "verify", "--deep", "--quiet"}, dirs...)...)
	if err != nil || r.Exit != 0 {
		t.Errorf("log verify of node %d: exit %d, %v\n%s", m.id, r.Exit, err, proc.Tail(r.All(), 30))
	}
}

// trim has DeleteRecords take a part of what the topic "trims" holds.
func (e *endurance) trim() {
	e.c.t.Helper()
	for _, t := range e.trails {
		if t.policy != trims {
			continue
		}
		was := t.pledged()
		if was.top <= was.start {
			continue
		}
		to := was.start + e.rng.Int64N(was.top-was.start+1)
		t.mu.Lock()
		t.wanted = max(t.wanted, to)
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		offsets := kadm.Offsets{}
		offsets.AddOffset(t.p.topic, t.p.n, to, -1)
		resp, err := kadm.NewClient(e.asker).DeleteRecords(ctx, offsets)
		cancel()
		if err == nil && resp.Error() == nil {
			t.mu.Lock()
			t.trimmed = max(t.trimmed, to)
			t.mu.Unlock()
		}
	}
}

// tally counts what was done and what brokers said of it.
type tally struct{ kills, amidStart, amidStop, stops, lateStops, pauses, cuts, errors, warnings int }

// words counts what a process said that ended.
func (y *tally) words(t *testing.T, m *member) {
	for line := range strings.Lines(m.p.Stderr.String()) {
		switch {
		case strings.Contains(line, "panic"), strings.Contains(line, "assert"):
			t.Errorf("node %d said: %s", m.id, line)
		case strings.Contains(line, "bytes were cut from a log"):
			y.cuts++
		case strings.Contains(line, "ERROR"):
			if y.errors++; y.errors < 10 {
				t.Logf("node %d said: %s", m.id, line)
			}
		case strings.Contains(line, "WARN"):
			if y.warnings++; y.warnings < 10 {
				t.Logf("node %d said: %s", m.id, line)
			}
		}
	}
}

// moment lets some time pass.
func (e *endurance) moment(most time.Duration) { pause(time.Duration(e.rng.Int64N(int64(most)))) }

// kill ends processes at once.
func (e *endurance) kill(y *tally, who []*member) {
	for _, m := range who {
		_ = m.p.Signal(syscall.SIGKILL)
	}
	for _, m := range who {
		m.kill()
		y.kills++
		y.words(e.c.t, m)
	}
}

func launchAll(who []*member) {
	for _, m := range who {
		m.launch()
	}
}

func awaitAll(who []*member) {
	for _, m := range who {
		m.awaitReady()
	}
}

// bout ends some brokers in one of the ways there are, and starts them again.
func (e *endurance) bout(y *tally, who []*member) {
	t := e.c.t
	t.Helper()
	switch n := e.rng.IntN(20); {
	case n < 11:
		e.kill(y, who)
	case n < 15: // and again while they recover
		e.kill(y, who)
		for range 1 + e.rng.IntN(3) {
			launchAll(who)
			e.moment(120 * time.Millisecond)
			y.amidStart += len(who)
			e.kill(y, who)
		}
	case n < 17: // and at the ready line
		e.kill(y, who)
		launchAll(who)
		awaitAll(who)
		y.amidStart += len(who)
		e.kill(y, who)
	case n < 19:
		for _, m := range who {
			m.signal(syscall.SIGTERM)
		}
		for _, m := range who {
			// On a full disk a stop can't write what spares the next start its work.
			if code := m.exit(60 * time.Second); code != 0 && !(e.full && code == 1) {
				t.Errorf("node %d: exit code %d after SIGTERM\n%s", m.id, code, proc.Tail(m.p.Stderr.String(), 30))
			}
			m.halt(true) // for the proxy, if any
			y.stops++
			y.words(t, m)
		}
	default:
		for _, m := range who {
			m.signal(syscall.SIGTERM)
		}
		e.moment(50 * time.Millisecond)
		y.amidStop += len(who)
		e.kill(y, who)
	}
	launchAll(who)
	awaitAll(who)
}

// victims are one of the brokers mostly, else two or all.
func (e *endurance) victims() []*member {
	all := slices.Clone(e.c.members)
	e.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	switch n := e.rng.IntN(10); {
	case n < 7:
		return all[:1]
	case n < 8:
		return all[:min(2, len(all))]
	}
	return all
}

// TestEndureKills: whatever instant brokers are killed at, under load, amid a start,
// at the ready line or amid a stop, while logs roll, are compacted and expire: every
// acknowledged record is there, at its offset and in order, an idempotent one once; a
// compacted topic has the newest of each key; nothing young has gone; what
// DeleteRecords took stays away, and committed offsets do not go back. A seed in
// TIDEMARK_ENDURE_SEED does the same again, as far as clocks let it.
func TestEndureKills(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		three bool
		kills int
	}{{"one", false, rounds(10, 200)}, {"three", true, rounds(5, 100)}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := enduring(t, enduranceSpec{three: tt.three, keep: time.Duration(rounds(2, 5)) * time.Second})
			e.goes = true
			e.flows()
			var y tally
			for i := 0; y.kills < tt.kills; i++ {
				e.moment(1500 * time.Millisecond)
				if e.rng.IntN(3) == 0 {
					e.trim()
				}
				e.bout(&y, e.victims())
				e.check(i%20 == 19)
			}
			e.flows()
			e.finish()
			for _, m := range e.c.members {
				y.words(t, m)
			}
			t.Logf("%+v", y)
		})
	}
}
