package sim

import (
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// cutOff keeps a machine from hearing any other, and them from hearing it.
func (y *play) cutOff(m *machine, d model.Instant) {
	for _, other := range y.w.machines {
		if other != m {
			y.part(m, other, d)
		}
	}
}

// lateFlush: a leader that is cut off has records for itself, and a flush of them is
// done when a successor's records stand in their place. Readers are in what it has cut.
func (y *play) lateFlush() {
	w, old := y.w, y.leader
	y.heals = true
	if isFlush(y.p.tp.Topic) {
		y.end("a follower would wait for its flush")
		return
	}
	y.cutOff(old, 30*second)
	y.wait("records for itself", model.Instant(w.o.lag)*3/4, func() bool {
		for _, b := range y.reg().Replicas {
			if m := w.machine(b); m != old && y.endOf(m)+4 > y.endOf(old) {
				return false
			}
		}
		return true
	}, func() {
		y.lateDisk = old.node
		y.after(model.Instant(w.o.checkpoints)*3/2+2*model.Instant(w.o.flush), func() {
			w.net.block(outside, old.id, 30*second)
			y.wait("successor", stepMax, func() bool {
				reg := y.reg()
				return reg.Leader > 0 && reg.Leader != old.id && y.leads(w.machine(reg.Leader))
			}, func() {
				now := w.machine(y.reg().Leader)
				y.wait("more records of the successor", stepMax, func() bool { return y.endOf(now) > y.endOf(old)+2 }, func() { y.overtaken(old) })
			})
		})
	})
}

// overtaken lets a leader of the past hear of its successor, and then of its flush.
func (y *play) overtaken(old *machine) {
	w, end := y.w, y.endOf(old)
	if len(y.returns) == 0 || end < 0 {
		y.end("nothing was flushed")
		return
	}
	y.read(old)
	y.lateDisk = nil
	w.net.heal()
	y.wait("log of the successor", stepMax, func() bool {
		r := old.find(y.p)
		return y.endOf(old) > end && !r.leads() && !r.host.Writing()
	}, func() {
		w.checkHeld()
		y.flushReturns()
		y.after(model.Instant(w.o.spare)+1, func() { // they come by way of a spare
			w.deepCheck()
			y.end("done")
		})
	})
}

// read begins to read the last of a machine's records, and some before.
func (y *play) read(m *machine) {
	r := m.find(y.p)
	for _, back := range []model.Offset{1, 3, 6} {
		from := r.state.LogEnd - back
		if from < r.state.LogStart {
			continue
		}
		region, err := r.state.View.Read(from, r.state.LogEnd, 4000, true)
		if err != nil {
			continue
		}
		b := make([]byte, region.Len())
		if _, err := region.ReadAt(b, 0); err != nil {
			region.Release()
			continue
		}
		y.w.held = append(y.w.held, held{r: r, node: m.node, region: region, bytes: b})
	}
}

// flushReturns tells of the flushes that were held back.
func (y *play) flushReturns() {
	for _, tell := range y.returns {
		tell()
	}
	y.returns, y.lateJobs, y.lateDisk = nil, nil, nil
}

// lastDamaged: the only member of the ISR comes back without its replica. Nobody
// leads until somebody chooses what is lost.
func (y *play) lastDamaged() {
	w, l := y.w, y.leader
	y.heals = true
	if minISR(w.image(), y.p.tp.Topic) > 1 || y.p.mayLose(w, w.image()) {
		y.end("others stay eligible")
		return
	}
	y.unfollowed(l)
	y.wait("sole member", stepMax, func() bool {
		reg := y.reg()
		return len(reg.ISR) == 1 && reg.InISR(l.id) && len(reg.ELR) == 0 && y.leads(l)
	}, func() {
		w.quiet = settling
		y.after(20*millisecond+y.some(), func() {
			r := l.find(y.p)
			if l.node == nil || r == nil || w.frail != nil && w.frail != l {
				y.end("the leader is gone")
				return
			}
			y.kill(l, deathKill, 30*second)
			w.frail = l
			y.lose(r)
			y.raise(l)
			y.wait("all back", stepMax, func() bool { return !slices.ContainsFunc(w.machines, func(m *machine) bool { return !y.active(m) }) }, func() {
				y.after(200*millisecond, func() { y.nobodyLeads(l) })
			})
		})
	})
}

// lose takes a replica's directory away.
func (y *play) lose(r *replica) {
	m := r.m
	if m.disk.RemoveAll(partDir(r.tp)) != nil || m.disk.SyncDir(dataDir) != nil {
		y.w.fail(0, "%s can't be removed", filepath.Base(partDir(r.tp)))
	}
	y.w.counts.kind[KindWipe]++
	m.line("wiped      %v", r.tp)
	m.wipedLife = m.lives
	r.emptied()
	r.dark = true
}

// nobodyLeads has nobody lead before somebody has chosen, and then chooses.
func (y *play) nobodyLeads(l *machine) {
	w := y.w
	if reg := y.reg(); reg.Leader != model.NoLeader {
		w.fail(9, "%v: broker %d leads; broker %d alone had all that was acknowledged, and has lost it", y.p.tp, reg.Leader, l.id)
	}
	y.p.sacrificed = w.sim.Now()
	y.command(func(a *admin, c *conn) { a.elect(c, y.target(), 1) })
	y.wait("chosen leader", stepMax, func() bool { return y.reg().Leader != model.NoLeader }, func() {
		if y.reg().Leader == l.id {
			w.fail(9, "%v: broker %d is chosen, which has lost its replica, and not one of %v", y.p.tp, l.id, y.reg().Replicas)
		}
		w.quiet = lively
		y.after(300*millisecond, func() { y.end("done") })
	})
}

// spoiltHeader: a bit flips in what no CRC covers, of a batch that a start looks at. It
// is noticed, or is not served.
func (y *play) spoiltHeader() {
	w, f := y.w, y.follower
	y.heals = true
	if w.frail != nil && w.frail != f {
		y.end("another's disk may fail")
		return
	}
	y.wait("flushed batches", 2*second, func() bool { _, _, ok := y.flushed(f); return ok }, func() {
		y.kill(f, deathKill, 20*second)
		path, b, ok := y.flushed(f)
		r := f.find(y.p)
		if !ok || !w.othersWhole(r) {
			y.end("it is needed")
			return
		}
		at := b.pos + pick(y.r, []int{6, 7, 7, 7, 15}) // the base offset, the leader epoch
		if !f.spoil(y.r, path, at, at+1, true) {
			w.fail(0, "%s can't be spoilt", path)
		}
		w.frail = f
		r.rotten, y.p.maimed = true, true
		was := slices.Clone(b.raw[:headerFields])
		y.raise(f)
		y.wait("return", stepMax, func() bool { return y.active(f) && r.host != nil && r.state != nil }, func() {
			y.after(y.some(), func() {
				y.notServed(r, b.base, was)
				y.end("done")
			})
		})
	})
}

// headerFields is the length of what stands before the CRC in a batch.
const headerFields = 17

// flushed returns a batch of a machine's newest segment that its disk was said to have.
func (y *play) flushed(m *machine) (path string, b fileBatch, ok bool) {
	tp := y.p.tp
	names, err := m.disk.List(partDir(tp))
	if err != nil {
		return "", b, false
	}
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".log" })
	if len(names) == 0 {
		return "", b, false
	}
	path = filepath.Join(partDir(tp), slices.Max(names))
	content, err := m.disk.Content(path)
	if err != nil {
		return "", b, false
	}
	point := checkpointOf(m.disk, recoveryPointFile, tp)
	batches, _, _ := y.w.parses.of(content)
	batches = slices.DeleteFunc(slices.Clone(batches), func(b fileBatch) bool { return b.last >= point })
	if len(batches) == 0 {
		return "", b, false
	}
	return path, pick(y.r, batches), true
}

// notServed has a batch be read as it was written, or not at all.
func (y *play) notServed(r *replica, base int64, was []byte) {
	s := r.state
	if s == nil || s.View == nil || base < int64(s.LogStart) || base >= int64(s.LogEnd) {
		return
	}
	region, err := s.View.Read(model.Offset(base), s.LogEnd, 4000, true)
	if err != nil {
		return
	}
	defer region.Release()
	b := make([]byte, len(was))
	if n, err := region.ReadAt(b, 0); n == len(b) && err == nil && string(b) != string(was) {
		y.w.fail(5, "%v: broker %d reads %x from %d on, written was %x", r.tp, r.m.id, b, base, was)
	}
}
