package sim

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
)

// death is how the process is about to end.
type death uint8

const (
	deathNone  death = iota
	deathKill        // the kernel lives
	deathPower       // the machine does not
)

// errDead is what a process gets of every disk operation once it is dying: what
// it does until the end of the event has no effect and reaches nobody.
var errDead = errors.New("the process is dying")

// faults is what happens to disk operations. It is the faultfs.Injector of
// every incarnation.
type faults struct {
	world *World

	// countdown to a death at a disk operation; 0: none is planned.
	countdown int
	plan      death
	// dying: the process has died in an operation that it will not come back
	// from; everything it does until the end of the event is void.
	dying death
	torn  bool // its last write may have been cut short

	// errors is how many more operations may be hit, errorPct how likely each.
	errors   int
	errorPct int
	errorOn  string // "": everything; else a part of the path
	drops    bool   // failed fsyncs forget pages

	// hits counts the errors that this incarnation was given.
	hits int
}

// String implements fmt.Stringer.
func (f *faults) String() string { return "(simulated)" }

// Decide implements faultfs.Injector.
func (f *faults) Decide(op faultfs.Op) *faultfs.Fault {
	if f.dying != deathNone {
		return faultfs.Fail(errDead)
	}
	if f.countdown > 0 && op.Kind.Mutates() {
		if f.countdown--; f.countdown == 0 {
			if f.die(op) {
				return faultfs.Fail(errDead)
			}
			return nil // it is done, and the last that is
		}
	}
	if f.errors > 0 {
		return f.fault(op)
	}
	return nil
}

// die has the process end at an operation: before it, which it reports, or with
// it as the last thing that the disk saw.
func (f *faults) die(op faultfs.Op) (before bool) {
	w := f.world
	f.dying, f.torn = f.plan, op.Kind == faultfs.OpWrite
	w.trace.line("dies       at %s", op)
	w.counts.kind[map[death]Kind{deathKill: KindKillMid, deathPower: KindPowerMid}[f.plan]]++
	if w.diskRand.IntN(3) == 0 {
		f.torn = false
		return true
	}
	return false
}

// fault draws whether an operation fails, and notes what it explains.
func (f *faults) fault(op faultfs.Op) *faultfs.Fault {
	w := f.world
	if f.errorOn != "" && !strings.Contains(op.Path, f.errorOn) || w.diskRand.IntN(100) >= f.errorPct {
		return nil
	}
	var fault *faultfs.Fault
	kind := KindEIO
	switch op.Kind {
	case faultfs.OpWrite:
		fault = faultfs.EIO()
		if w.diskRand.IntN(2) == 0 {
			fault = faultfs.ShortWrite(w.diskRand.IntN(op.Len + 1))
		}
	case faultfs.OpSync, faultfs.OpSyncData:
		kind = KindFsync
		if fault = faultfs.EIO(); f.drops {
			fault = faultfs.FsyncFails()
			w.h.dropped(op.Path)
		}
	case faultfs.OpRead, faultfs.OpSyncDir, faultfs.OpCreate, faultfs.OpRename, faultfs.OpTruncate, faultfs.OpList, faultfs.OpOpen:
		fault = faultfs.Fail(syscall.EIO)
	default:
		return nil
	}
	if !w.o.on[kind] {
		return nil
	}
	f.errors--
	f.hits++
	w.counts.kind[kind]++
	w.h.hit(op.Path)
	if kind == KindFsync {
		w.h.syncFailed(op.Path)
	}
	w.trace.line("fault      %s at %s", fault, op)
	return fault
}

// bury makes the disk that the next process finds.
func (w *World) bury() {
	f := &w.faults
	var cut func(int) int
	if f.torn {
		cut = memfs.CutAnywhere(w.diskRand)
	}
	kind := f.dying
	f.dying, f.countdown, f.torn, f.hits = deathNone, 0, false, 0
	w.end(kind, cut)
}

// end ends the running process, if there is one.
func (w *World) end(kind death, cut func(int) int) {
	if w.node != nil {
		w.node.gone()
		w.node = nil
	}
	if kind == deathPower {
		w.bootID++
		pct := pick(w.diskRand, []int{0, 0, 50, 50, 90, 100})
		w.disk = w.disk.CrashClone(memfs.Crash{UnsyncedPct: pct, Torn: w.diskRand.IntN(2) == 0, Rand: w.diskRand})
		w.h.powerLost()
		w.trace.line("power      lost, unsynced pages kept: %d %%", pct)
	} else {
		w.disk = w.disk.KillClone(memfs.Kill{Cut: cut})
		w.trace.line("process    ended")
	}
	w.faults.countdown, w.faults.hits = 0, 0
	if w.phase != over {
		w.at(exp(w.nodeRand, 30*millisecond), w.boot)
	}
}

// dirOf returns the partition directory that a path lies in, "" if none.
func dirOf(path string) (tp model.TopicPartition, ok bool) {
	rest, found := strings.CutPrefix(filepath.ToSlash(path), dataDir+"/")
	if !found {
		return tp, false
	}
	dir, _, below := strings.Cut(rest, "/")
	if !below {
		return tp, false
	}
	tp, _, ok = log.ParseDirName(dir)
	return tp, ok
}
