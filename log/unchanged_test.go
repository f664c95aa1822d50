package log_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// A log that was stopped in order, and that nobody has changed since, is stopped again
// without a call that changes the disk: a leader epoch without a record is no change,
// nor are producers of which a snapshot stands there. Whatever is a change is kept as
// ever, also where power goes right behind the stop.
func TestUnchangedLogIsClosedWithoutASync(t *testing.T) {
	batches := func(r *rig, m *logtest.Model) { // in the epoch of those before
		set := logtest.Batches(m.End, 3, 3)
		r.append(set)
		m.Append(set)
	}
	cut := func(to model.Offset) func(r *rig, m *logtest.Model) {
		return func(r *rig, m *logtest.Model) {
			_, err := r.l.Truncate(to)
			r.must(err)
			m.Truncate(to)
		}
	}
	for _, c := range []struct {
		name string
		// before is done to the files before the start, change to the log behind it.
		before, change func(r *rig, m *logtest.Model)
		writes         bool
	}{
		{name: "nothing", change: func(*rig, *logtest.Model) {}},
		{name: "led", change: func(r *rig, m *logtest.Model) {
			r.must(r.l.AssignEpoch(9, m.End))
			r.must(r.l.SnapshotProducers())
		}},
		{name: "led twice, cut to its end", change: func(r *rig, m *logtest.Model) {
			r.must(r.l.AssignEpoch(9, m.End))
			r.must(r.l.AssignEpoch(11, m.End))
			cut(m.End)(r, m)
		}},
		{name: "append", change: batches, writes: true},
		{name: "append and flush", change: func(r *rig, m *logtest.Model) { batches(r, m); r.flush() }, writes: true},
		{name: "append, then a cut to where it ended", change: func(r *rig, m *logtest.Model) {
			end := m.End
			batches(r, m)
			cut(end)(r, m)
		}, writes: true},
		{name: "a cut, then as many records", change: func(r *rig, m *logtest.Model) { cut(m.End-3)(r, m); batches(r, m) }, writes: true},
		{name: "cut", change: func(r *rig, m *logtest.Model) { cut(m.End-1)(r, m) }, writes: true},
		{name: "roll", change: func(r *rig, _ *logtest.Model) { r.must(r.l.Roll(model.Now{})) }, writes: true},
		{name: "checkpoint", change: func(r *rig, _ *logtest.Model) { r.must(r.l.Checkpoint()) }, writes: true},
		{name: "raised start", change: func(r *rig, m *logtest.Model) {
			r.must(r.l.IncrementLogStart(9))
			m.Raise(9)
			r.o.LogStart = 9
		}, writes: true},
		{name: "no snapshot", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, m *logtest.Model) { r.must(r.mem.Remove(r.file(m.End, ".snapshot"))) }},
		{name: "an index that was made anew", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, _ *logtest.Model) { r.rewrite(r.file(24, ".index"), []byte("12345678")) }},
		{name: "no seal", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, _ *logtest.Model) { r.must(r.mem.Remove(r.file(24, ".seal"))) }},
		{name: "epochs that were made anew", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, _ *logtest.Model) { r.rewrite(testDir+"/leader-epoch-checkpoint", []byte("0\n0\n")) }},
		{name: "an epoch without a record", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, m *logtest.Model) {
				path := testDir + "/leader-epoch-checkpoint"
				text := strings.Replace(string(r.read(path)), "0\n4\n", "0\n5\n", 1)
				r.rewrite(path, fmt.Appendf([]byte(text), "9 %d\n", m.End))
			}},
		{name: "leftovers", writes: true, change: func(*rig, *logtest.Model) {},
			before: func(r *rig, _ *logtest.Model) {
				r.must(vfs.WriteFile(r.mem, r.file(24, ".index")+vfs.TempSuffix, []byte("x")))
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := segmented(t)
			r.must(r.l.Close(true))
			r.mem = r.mem.CrashClone(memfs.Crash{})
			if c.before != nil {
				c.before(r, m)
			}
			calls := faultfs.NewCounter(faultfs.Mutations())
			syncs := faultfs.NewCounter(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData, faultfs.OpSyncDir))
			r.fs = faultfs.Wrap(r.mem, faultfs.First(calls, syncs))
			was := contents(t, r.mem)
			r.start(log.StopClean, m.End)
			c.change(r, m)
			if n := calls.Count(); n > 0 && !c.writes {
				t.Errorf("%d calls changed the disk", n)
			}
			before := syncs.Count()
			r.must(r.l.Close(true))
			if n := syncs.Count() - before; n > 0 != c.writes {
				t.Errorf("the stop took %d syncs", n)
			}
			if !c.writes && !maps.Equal(was, contents(t, r.mem)) {
				t.Error("the files are others")
			}
			for range 2 { // the second stop finds nothing to do
				r.mem = r.mem.CrashClone(memfs.Crash{})
				calls = faultfs.NewCounter(faultfs.Mutations())
				r.fs = faultfs.Wrap(r.mem, calls)
				if rep := r.start(log.StopClean, m.End); len(rep.Rebuilt)+len(rep.Removed) > 0 {
					t.Errorf("the stop left something to do: %+v", rep)
				}
				r.check(m)
				r.must(r.l.Close(true))
				if n := calls.Count(); n > 0 {
					t.Errorf("%d calls at a stop in which nothing had changed", n)
				}
			}
		})
	}
}
