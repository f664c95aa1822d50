package log_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// story is a fixed sequence of operations whose every call of the file system
// can be made the last one, or a failing one.
type story struct {
	t   testing.TB
	mem *memfs.FS
	fs  vfs.FS
	l   *log.Log
	// before and after are what the log holds before and after the present step.
	before, after *logtest.Model
	// rp is what the host has stored as recovery point.
	rp model.Offset
	// start is the stored log start.
	start model.Offset
}

// step is one operation of a story.
type step struct {
	name string
	// plan changes the model as the step will change the log.
	plan func(m *logtest.Model)
	run  func(s *story) error
}

func appendStep(set []byte) step {
	return step{
		name: fmt.Sprintf("append %d bytes", len(set)),
		plan: func(m *logtest.Model) { m.Append(set) },
		run: func(s *story) error {
			_, err := s.l.Append(model.Now{}, set)
			return err
		},
	}
}

func flushStep() step {
	return step{name: "flush", plan: func(*logtest.Model) {}, run: func(s *story) error {
		j := s.l.StartFlush()
		if j == nil {
			return nil
		}
		err := j.Run()
		if err = s.l.FinishFlush(j, err); err == nil {
			s.rp = s.l.RecoveryPoint()
		}
		return err
	}}
}

func truncateStep(to model.Offset) step {
	return step{
		name: fmt.Sprintf("truncate to %d", to),
		plan: func(m *logtest.Model) { m.Truncate(to) },
		run: func(s *story) error {
			_, err := s.l.Truncate(to)
			return err
		},
	}
}

func plainStep(name string, run func(s *story) error) step {
	return step{name: name, plan: func(*logtest.Model) {}, run: run}
}

// steps is the story: appends that roll, flushes, truncations within and across
// segments, the start moving up, emptying, checkpoints.
func steps() []step {
	b := func(base model.Offset, n int, e model.LeaderEpoch) []byte { return logtest.Batches(base, n, e) }
	txn := func(base model.Offset, marker string) []byte {
		set := logtest.Batch(logtest.Spec{Base: base, Epoch: 2, Producer: 7, Txn: true, Sequence: model.Sequence(base), Timestamp: 2000})
		return append(set, logtest.Batch(logtest.Spec{Base: base + 1, Epoch: 2, Producer: 7, Txn: true, Marker: marker, Timestamp: 2001})...)
	}
	reclaim := plainStep("reclaim", func(s *story) error { _, err := s.l.Reclaim(); return err })
	return []step{
		appendStep(b(0, 3, 0)), flushStep(), appendStep(b(3, 4, 0)), appendStep(b(7, 3, 1)), flushStep(),
		appendStep(b(10, 2, 1)), truncateStep(11), appendStep(b(11, 3, 2)), reclaim, flushStep(),
		appendStep(txn(14, "abort")), appendStep(b(16, 4, 2)), truncateStep(8), appendStep(b(8, 5, 3)),
		plainStep("checkpoint", func(s *story) error { return s.l.Checkpoint() }),
		flushStep(), appendStep(b(13, 6, 3)), flushStep(),
		{
			name: "raise start",
			plan: func(m *logtest.Model) { m.Raise(9) },
			run:  func(s *story) error { s.start = 9; return s.l.IncrementLogStart(9) },
		},
		plainStep("drop below", func(s *story) error { _, _, err := s.l.DropBelow(); return err }), reclaim,
		plainStep("roll", func(s *story) error { return s.l.Roll(model.Now{}) }),
		appendStep(b(19, 2, 3)),
		{
			name: "start anew",
			plan: func(m *logtest.Model) { m.StartAt(30) },
			run:  func(s *story) error { s.start = 30; _, err := s.l.TruncateFullyAndStartAt(30); return err },
		},
		appendStep(b(30, 5, 4)), flushStep(), reclaim, appendStep(b(35, 2, 4)),
		plainStep("close", func(s *story) error {
			err := s.l.Close(true)
			if err == nil {
				s.rp = s.l.RecoveryPoint()
			}
			return err
		}),
	}
}

func (s *story) options(fs vfs.FS, stop log.Stop, rp model.Offset) log.Options {
	return log.Options{
		FS: fs, Dir: testDir, Stop: stop, RecoveryPoint: rp, LogStart: s.start,
		Config: log.Config{SegmentBytes: 320, IndexIntervalBytes: 100},
		LowerRecoveryPoint: func(to model.Offset) error {
			s.rp = to
			return nil
		},
	}
}

func newStory(t testing.TB) *story {
	s := &story{t: t, mem: memfs.New(), before: &logtest.Model{}, after: &logtest.Model{}}
	if err := makeDurable(s.mem, testDir); err != nil {
		t.Fatal(err)
	}
	s.fs = s.mem
	return s
}

// play runs the steps until one fails, and returns its name and error.
func (s *story) play() (string, error) {
	l, _, err := log.Open(s.options(s.fs, log.StopClean, 0))
	if err != nil {
		return "open", err
	}
	s.l = l
	for _, st := range steps() {
		s.after = s.before.Clone()
		st.plan(s.after)
		if err := st.run(s); err != nil {
			return st.name, err
		}
		s.before = s.after
	}
	return "", nil
}

// crashPoint is the disk in front of one call, and what is promised then.
type crashPoint struct {
	op            faultfs.Op
	disk          *memfs.FS
	rp, start     model.Offset
	before, after *logtest.Model
}

// check opens the disk after a stop and compares with what was promised.
func (p *crashPoint) check(disk *memfs.FS, stop log.Stop, floor model.Offset) (*log.Log, error) {
	s := &story{start: p.start}
	l, _, err := log.Open(s.options(disk, stop, p.rp))
	if err != nil {
		return nil, err
	}
	return l, p.holds(l, floor)
}

// holds reports whether the log is a prefix of one of the two models that is
// not shorter than floor.
func (p *crashPoint) holds(l *log.Log, floor model.Offset) error {
	if l.LogEnd() < floor {
		return fmt.Errorf("log ends at %d, %d was promised", l.LogEnd(), floor)
	}
	var errs error
	for _, m := range []*logtest.Model{p.after, p.before} {
		m = m.Clone()
		if m.End < l.LogEnd() {
			errs = errors.Join(errs, fmt.Errorf("log ends at %d, model at %d", l.LogEnd(), m.End))
			continue
		}
		m.Truncate(l.LogEnd())
		m.End, m.Start = l.LogEnd(), l.LogStart()
		err := logtest.Check(l, m)
		if err == nil {
			return nil
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// common is up to where the two models agree: what a kill must leave.
func (p *crashPoint) common() model.Offset {
	n := 0
	for n < len(p.before.Batches) && n < len(p.after.Batches) && &p.before.Batches[n][0] == &p.after.Batches[n][0] {
		n++
	}
	if n == 0 {
		return min(p.before.Start, p.after.Start)
	}
	return p.before.Batches[n-1].NextOffset()
}

// crashPoints plays the story once and keeps the disk in front of each call
// that changes it.
func crashPoints(t testing.TB) []*crashPoint {
	s := newStory(t)
	var points []*crashPoint
	s.fs = faultfs.Wrap(s.mem, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(op faultfs.Op) {
		points = append(points, &crashPoint{op: op, disk: s.mem.Fork(), rp: s.rp, start: s.start, before: s.before, after: s.after})
	})))
	if name, err := s.play(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(points) < 100 {
		t.Fatalf("only %d calls", len(points))
	}
	return points
}

// outcomes are the disks that a stop in front of a call may leave.
func (p *crashPoint) outcomes(r *rand.Rand) map[string]struct {
	disk  *memfs.FS
	stop  log.Stop
	floor model.Offset
} {
	type outcome = struct {
		disk  *memfs.FS
		stop  log.Stop
		floor model.Offset
	}
	out := map[string]outcome{
		"kill":    {p.disk.KillClone(memfs.Kill{}), log.StopProcess, p.common()},
		"power 0": {p.disk.CrashClone(memfs.Crash{}), log.StopPower, p.rp},
	}
	for i := range 3 {
		out[fmt.Sprint("power ", i+1)] = outcome{
			p.disk.CrashClone(memfs.Crash{UnsyncedPct: []int{30, 60, 90}[i], Torn: true, Rand: r}), log.StopPower, p.rp,
		}
	}
	return out
}

// Every call of every operation may be the last one. What was flushed survives
// a loss of power, what was appended survives a kill, and the log opens.
func TestCrashAtEveryCall(t *testing.T) {
	if err := crashEverywhere(t); err != nil {
		t.Fatal(err)
	}
}

func crashEverywhere(t testing.TB) error {
	r := rand.New(rand.NewPCG(1, 2))
	for n, p := range crashPoints(t) {
		for name, o := range p.outcomes(r) { // order-free
			l, err := p.check(o.disk, o.stop, o.floor)
			if err != nil {
				return fmt.Errorf("%s in front of call %d, %s, rp %d: %w", name, n, p.op, p.rp, err)
			}
			// Opening it once more changes nothing.
			end, entries := l.LogEnd(), fmt.Sprint(l.Epochs().Entries())
			again, err := p.check(o.disk.KillClone(memfs.Kill{}), o.stop, o.floor)
			if err != nil {
				return fmt.Errorf("%s in front of call %d, %s, opened again: %w", name, n, p.op, err)
			}
			if again.LogEnd() != end || fmt.Sprint(again.Epochs().Entries()) != entries {
				return fmt.Errorf("%s in front of call %d, %s: opened again ends at %d %v, first at %d %s",
					name, n, p.op, again.LogEnd(), again.Epochs().Entries(), end, entries)
			}
		}
	}
	return nil
}

// A kill may tear the write that it interrupts.
func TestKillTearsAnyWrite(t *testing.T) {
	for n := int64(1); ; n++ {
		s := newStory(t)
		var hit *faultfs.Op
		s.fs = faultfs.Wrap(s.mem, faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.NthOp(n), spy(&hit)), faultfs.ShortWrite(int(n*7%90))))
		name, _ := s.play()
		if hit == nil {
			if n < 50 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
		p := &crashPoint{rp: s.rp, start: s.start, before: s.before, after: s.after}
		if _, err := p.check(s.mem.KillClone(memfs.Kill{}), log.StopProcess, p.common()); err != nil {
			t.Fatalf("write %d of %s: %v", n, name, err)
		}
	}
}

// Recovery may be interrupted too, at every call, by either kind of stop.
func TestCrashDuringRecovery(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n, p := range crashPoints(t) {
		if n%5 != 0 {
			continue
		}
		for name, o := range p.outcomes(r) { // order-free
			disk := o.disk
			var forks []*memfs.FS
			fs := faultfs.Wrap(disk, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(faultfs.Op) { forks = append(forks, disk.Fork()) })))
			s := &story{start: p.start}
			if _, _, err := log.Open(s.options(fs, o.stop, p.rp)); err != nil {
				t.Fatalf("%s in front of call %d, %s: %v", name, n, p.op, err)
			}
			for k, fork := range forks {
				if _, err := p.check(fork.KillClone(memfs.Kill{}), o.stop, o.floor); err != nil {
					t.Fatalf("%s in front of call %d, %s, killed in front of call %d of recovery: %v", name, n, p.op, k, err)
				}
				crash := memfs.Crash{UnsyncedPct: 50, Torn: true, Rand: r}
				if _, err := p.check(fork.CrashClone(crash), log.StopPower, p.rp); err != nil {
					t.Fatalf("%s in front of call %d, %s, power lost in front of call %d of recovery: %v", name, n, p.op, k, err)
				}
			}
		}
	}
}

// Every call may fail. A failed step leaves the log as it was, or poisoned; in
// both cases what was acknowledged is found by the next process.
func TestFaultAtEveryCall(t *testing.T) {
	faults := []*faultfs.Fault{faultfs.EIO(), faultfs.ENOSPC(5), faultfs.ShortWrite(40), faultfs.FsyncFails()}
	for _, fault := range faults {
		for n := int64(1); ; n++ {
			s := newStory(t)
			var hit *faultfs.Op
			s.fs = faultfs.Wrap(s.mem, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.NthOp(n), spy(&hit)), fault))
			name, err := s.play()
			if hit == nil {
				break
			}
			p := &crashPoint{rp: s.rp, start: s.start, before: s.before, after: s.after}
			if err != nil && s.l != nil && s.l.Err() == nil && name != "drop below" && name != "reclaim" {
				p.after = p.before
				if herr := p.holds(s.l, p.before.End); herr != nil {
					t.Fatalf("%s at call %d, %s: %q failed with %v and left another log: %v", fault, n, hit, name, err, herr)
				}
			}
			stop, floor := log.StopProcess, p.common()
			if n := hit.Kind; fault.String() == "fsync-fails" && (n == faultfs.OpSync || n == faultfs.OpSyncData) {
				// The kernel has dropped what it couldn't write: that is a power loss.
				stop, floor = log.StopPower, p.rp
			}
			if _, err := p.check(s.mem.KillClone(memfs.Kill{}), stop, floor); err != nil {
				t.Fatalf("%s at call %d, %s in %q: killed and opened: %v", fault, n, hit, name, err)
			}
		}
	}
}

// spy notes which call was chosen.
func spy(hit **faultfs.Op) faultfs.Predicate { return spyPredicate{hit} }

type spyPredicate struct{ hit **faultfs.Op }

func (s spyPredicate) Match(op faultfs.Op) bool { *s.hit = &op; return true }
func (s spyPredicate) String() string           { return "(spy)" }
