package log_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// A log that nobody wrote to is closed and opened again without a file more, and
// without a handle; what is appended then is kept as any other.
func TestBlankLogLeavesOneFile(t *testing.T) {
	r := newRig(t)
	r.o.Fresh = true
	r.start(log.StopPower, 0)
	r.o.Fresh = false
	want := map[string]string{filepath.Base(r.file(0, ".log")): ""}
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower, log.StopClean} {
		r.must(r.l.AssignEpoch(3, 0))
		r.must(r.l.Close(true))
		if got := contents(t, r.mem); !maps.Equal(got, want) {
			t.Fatalf("before a start after stop %s: %v", stop, slices.Sorted(maps.Keys(got)))
		}
		r.o.Files = log.NewFileCache(0, 0)
		rep := r.start(stop, 0)
		if len(rep.Rebuilt)+len(rep.Removed)+len(rep.Ignored) > 0 || rep.Created || rep.Scanned > 0 {
			t.Errorf("after stop %s: %+v", stop, rep)
		}
		if n := r.o.Files.Open(); n > 0 {
			t.Errorf("after stop %s: %d handles", stop, n)
		}
	}
	m := &logtest.Model{}
	set := logtest.Batches(0, 10, 3)
	r.append(set)
	m.Append(set)
	r.must(r.l.Close(true))
	r.mem = r.mem.CrashClone(memfs.Crash{})
	r.fs = r.mem
	r.start(log.StopClean, 0)
	r.must(logtest.Check(r.l, m))
	r.must(r.l.Close(true))
}

// One that holds nothing any more has files to keep: what was cut off may not
// come back after a clean stop.
func TestEmptiedLogIsNotBlank(t *testing.T) {
	r := newRig(t)
	r.o.Fresh = true
	r.start(log.StopPower, 0)
	r.o.Fresh = false
	r.append(logtest.Batches(0, 10, 1))
	r.flush()
	_, err := r.l.Truncate(0)
	r.must(err)
	r.must(r.l.Close(true))
	r.mem = r.mem.CrashClone(memfs.Crash{})
	r.fs = r.mem
	r.start(log.StopClean, 0)
	r.must(logtest.Check(r.l, &logtest.Model{}))
}

// A killed process may have removed names that the disk still has. They are gone
// for good before a clean stop is told.
func TestBlankLogAfterKillKeepsRemovals(t *testing.T) {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.must(r.l.Close(false))
	old := r.file(7, ".log")
	r.must(vfs.WriteFileAtomic(r.mem, old, logtest.Batches(7, 3, 1)))
	r.must(r.mem.Remove(old))
	r.kill()
	r.start(log.StopProcess, 0)
	r.must(r.l.Close(true))
	r.mem = r.mem.CrashClone(memfs.Crash{})
	if got := slices.Sorted(maps.Keys(contents(t, r.mem))); len(got) != 1 {
		t.Fatalf("after a loss of power: %v", got)
	}
}
