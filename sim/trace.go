package sim

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/tidemark/tidemark/partition/host"
)

// traceHash sums up everything that happened, in order: two runs of one seed
// have the same.
type traceHash uint64

func (h *traceHash) add(vs ...uint64) {
	x := uint64(*h)
	for _, v := range vs {
		x ^= v
		x *= 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	*h = traceHash(x)
}

// trace prints what changes, one line each.
type trace struct {
	world *World
	out   io.Writer
}

// line prints a line about the world.
func (t *trace) line(format string, args ...any) { t.print("-", format, args...) }

// print prints a line with who it is about: a broker and its incarnation.
func (t *trace) print(who, format string, args ...any) {
	if t.out == nil {
		return
	}
	w := t.world
	fmt.Fprintf(t.out, "%10.4f %7d %-5s ", time.Duration(w.sim.Now()).Seconds(), w.sim.Ran(), who)
	fmt.Fprintf(t.out, format+"\n", args...)
}

// state prints a partition's numbers in fixed columns.
func (m *machine) state(event string, name string, s *host.State) {
	if m.world.trace.out == nil {
		return
	}
	m.line("%-10s %-12s %-8v e%-3d %d/%d/%d/%d durable=%d rp=%d isr=%v %s", event, name, s.Role, s.LeaderEpoch,
		s.LogStart, s.LastStable, s.HighWatermark, s.LogEnd, s.Durable, s.RecoveryPoint, s.ISR, s.Reason)
}

// logCore takes the product's log lines: into the trace, and a failed assertion
// ends the run.
type logCore struct {
	m      *machine
	fields []zapcore.Field
}

// Enabled implements zapcore.Core.
func (c *logCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.ErrorLevel || c.m.world.trace.out != nil && l >= zapcore.InfoLevel
}

// With implements zapcore.Core.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{c.m, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c *logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	const quarantined = "an assertion failed; the partition is quarantined"
	const forfeited = "this node does not vote until it is removed and added again"
	w := c.m.world
	if w.trace.out == nil && e.Message != quarantined && e.Message != forfeited || c.m.faults.dying != deathNone {
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(enc)
	}
	c.m.line("log        %s: %s %v", e.Level, e.Message, enc.Fields)
	// A voter on a sound disk keeps its vote.
	if (e.Message == quarantined || e.Message == forfeited && c.m != w.frail) && w.failure == nil {
		w.h.asserted = fmt.Sprintf("broker %d: %s %v", c.m.id, e.Message, enc.Fields)
	}
	return nil
}

// Sync implements zapcore.Core.
func (c *logCore) Sync() error { return nil }
