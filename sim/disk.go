package sim

import (
	"errors"
	"math/rand/v2"
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
	m *machine

	// countdown to a death at a disk operation; 0: none is planned. countOn is a
	// part of the paths that count.
	countdown int
	countOn   string
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
	if f.countdown > 0 && op.Kind.Mutates() && strings.Contains(op.Path, f.countOn) {
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
	w := f.m.world
	f.dying, f.torn = f.plan, op.Kind == faultfs.OpWrite
	f.m.line("dies       at %s", op)
	w.counts.kind[map[death]Kind{deathKill: KindKillMid, deathPower: KindPowerMid}[f.plan]]++
	if w.diskRand.IntN(3) == 0 {
		f.torn = false
		return true
	}
	return false
}

// fault draws whether an operation fails, and notes what it explains.
func (f *faults) fault(op faultfs.Op) *faultfs.Fault {
	w := f.m.world
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
	f.m.hit(op.Path)
	if kind == KindFsync {
		f.m.syncFailed(op.Path)
		if f.drops {
			f.m.dropped(op.Path)
		}
	}
	f.m.line("fault      %s at %s", fault, op)
	return fault
}

// bury makes the disk that the next process finds.
func (m *machine) bury() {
	f := &m.faults
	var cut func(int) int
	if f.torn {
		cut = memfs.CutAnywhere(m.world.diskRand)
	}
	kind := f.dying
	f.dying, f.countdown, f.countOn, f.torn, f.hits = deathNone, 0, "", false, 0
	m.end(kind, cut)
}

// end ends the running process, if there is one, and has the next begin some
// time later.
func (m *machine) end(kind death, cut func(int) int) {
	w := m.world
	rested := m.rests()
	if m.node != nil {
		m.node.noteCuts()
		m.node.gone()
		m.node = nil
	}
	if kind == deathPower {
		m.bootID++
		m.dark = true
		pct := pick(w.diskRand, []int{0, 0, 50, 50, 90, 100})
		m.disk = m.disk.CrashClone(memfs.Crash{UnsyncedPct: pct, Torn: w.diskRand.IntN(2) == 0, Rand: w.diskRand})
		if !rested {
			m.powerLost()
		}
		for _, r := range m.replicas {
			if r.hit || r.drop { // no stop could close it
				r.lossy, r.tainted = true, true
			}
		}
		m.line("power      lost, unsynced pages kept: %d %%", pct)
	} else {
		m.disk = m.disk.KillClone(memfs.Kill{Cut: cut})
		m.line("process    ended")
	}
	m.faults.countdown, m.faults.countOn, m.faults.hits = 0, "", 0
	if w.phase != over {
		w.at(w.downtime(), m.boot)
	}
}

// rests reports whether no process has touched the partitions since one stopped
// in order, and left the marker of it: all is on the disk for good then, and power
// may go.
func (m *machine) rests() bool {
	_, err := m.disk.Content(dataDir + "/" + cleanFile)
	return err == nil && (m.node == nil || m.node.broker == nil || m.node.broker.Replicas() == nil || len(m.node.broker.Replicas().All()) == 0)
}

// downtime draws how long a process is down.
func (w *World) downtime() model.Instant {
	mean := model.Instant(w.o.brief)
	if len(w.machines) > 1 && w.phase == safety && w.nodeRand.IntN(3) == 0 {
		mean = model.Instant(w.o.downtime)
	}
	return exp(w.nodeRand, mean)
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

// wipe takes a replica's directory away before the process starts, sometimes: not
// the only one that is known to be complete.
func (m *machine) wipe(r *rand.Rand) {
	w := m.world
	if r.IntN(4) > 0 || len(m.replicas) == 0 {
		return
	}
	rep := pick(r, m.replicas)
	reg := w.registration(rep.part)
	if rep.part.gone || reg == nil || !reg.HasReplica(m.id) || rep.life == 0 || !w.othersWhole(rep) {
		return
	}
	dir := partDir(rep.tp)
	if m.disk.RemoveAll(dir) != nil || m.disk.SyncDir(dataDir) != nil {
		return
	}
	w.counts.kind[KindWipe]++
	m.line("wiped      %v", rep.tp)
	m.wipedLife = m.lives
	rep.emptied()
	rep.dark = true
}

// emptied is told that a replica has nothing any more: it was taken away, or is
// damaged and begins anew.
func (r *replica) emptied() {
	r.cut(0)
	r.lossy, r.tainted, r.wiped, r.part.maimed = true, true, true, true
}

// refilled is told that a replica that was offline is filled anew in the same life.
// If it has no seat it may take one like any other: its broker need not register
// again first, as nothing is lost that counted. Nothing is lost at all of one that
// could not even be made until now.
func (r *replica) refilled() {
	if r.end == 0 && !r.lossy && !r.tainted {
		r.hurt, r.frozen = false, 0
		return
	}
	r.emptied()
	reg := r.m.world.registration(r.part)
	seated := reg != nil && (reg.InISR(r.m.id) || reg.InELR(r.m.id))
	r.hurt, r.drop, r.frozen = false, false, 0 // its files are new
	r.tainted = r.dark || seated
}

// othersWhole reports whether a replica is not needed: a member of the ISR
// besides it has all that was acknowledged, and has lost nothing. What a
// coordinator was acknowledged nobody notes.
func (w *World) othersWhole(r *replica) bool {
	if r.tp.Topic == groupsTopic {
		return false
	}
	for _, b := range w.registration(r.part).ISR {
		if o := w.replicaOf(r.part, b); o != nil && o != r && !o.unsound() && o.end >= r.part.acked {
			return true
		}
	}
	return false
}
