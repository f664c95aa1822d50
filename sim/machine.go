package sim

import (
	crand "crypto/rand"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// machine is one computer: a disk, a kernel, clocks, and most of the time a
// broker's process.
type machine struct {
	world  *World
	id     model.BrokerID
	disk   *memfs.FS
	faults faults
	node   *node // the running incarnation; nil while the process is down
	lives  int   // incarnations so far
	bootID int   // lives of the kernel
	wall   model.Timestamp

	held     model.Instant // until when the process is not started again
	dark     bool          // no power: nothing answers, not even its kernel
	filled   bool          // the disk is full now
	fullLife int           // the last incarnation that saw a full disk

	replicas []*replica // what its disk is known to hold, in the order of their first appearance
	// newHit are partitions that were hit before the checkers knew of them.
	newHit map[model.TopicPartition]bool
	// dirHit is the incarnation in which something that is not one partition's
	// was hit by an error.
	dirHit int
	// keptHit is the last incarnation in which receipts or kept bytes were hit.
	keptHit int
	imageAt model.Offset // the newest metadata that any incarnation had
	// powerCut: power was lost since the broker registered last, so a seat that it
	// was given meanwhile is one that it may lose.
	powerCut bool
	// cutLife is the incarnation that ended with that, or had ended before.
	cutLife   int
	wipedLife int                          // the last incarnation before a replica was taken away
	lifeOf    map[metadata.Incarnation]int // which incarnation called itself so
}

func newMachine(w *World, id model.BrokerID) *machine {
	m := &machine{world: w, id: id, disk: memfs.New(), wall: 1_700_000_000_000, imageAt: model.NoOffset, lifeOf: make(map[metadata.Incarnation]int)}
	m.faults.m = m
	return m
}

// machine returns a machine by its broker's id, nil if there is none.
func (w *World) machine(id model.BrokerID) *machine {
	if id < 1 || int(id) > len(w.machines) {
		return nil
	}
	return w.machines[id-1]
}

// dying returns the machine whose process is about to end in this event, nil if
// none is.
func (w *World) dying() *machine {
	for _, m := range w.machines {
		if m.faults.dying != deathNone {
			return m
		}
	}
	return nil
}

// up reports whether the machine's process serves.
func (m *machine) up() bool { return m.node != nil && m.node.up }

// host is the machine's name in the network.
func (m *machine) host() string { return hostOf(m.id) }

func hostOf(id model.BrokerID) string { return fmt.Sprintf("sim%d", id) }

// line prints a line about the machine.
func (m *machine) line(format string, args ...any) {
	m.world.trace.print(fmt.Sprintf("%d.%d", m.id, m.lives), format, args...)
}

// replica returns what is known of a partition on this machine.
func (m *machine) replica(p *part) *replica {
	for _, r := range m.replicas {
		if r.part == p {
			return r
		}
	}
	r := &replica{m: m, part: p, tp: p.tp}
	r.hit = m.newHit[p.tp]
	r.dark, r.tainted = m.powerCut, m.powerCut
	delete(m.newHit, p.tp)
	m.replicas = append(m.replicas, r)
	return r
}

// find returns what is known of a partition on this machine, nil if it never had
// one.
func (m *machine) find(p *part) *replica {
	for _, r := range m.replicas {
		if r.part == p {
			return r
		}
	}
	return nil
}

// fill leaves so many bytes free on the disk; negative is no bound.
func (m *machine) fill(free int64) {
	if free < 0 {
		m.disk.SetCapacity(0)
		m.filled = false
		return
	}
	avail, total, err := m.disk.Free("/")
	if err != nil {
		return
	}
	m.filled = true
	m.fullLife = m.lives
	m.disk.SetCapacity(total - avail + free)
}

// powerLost: from now on what was not synced may be missing.
func (m *machine) powerLost() {
	m.powerCut, m.cutLife = true, m.lives
	for _, r := range m.replicas {
		r.lossy, r.tainted, r.dark = true, true, true
	}
}

// hit notes which partition a disk error may explain the trouble of.
func (m *machine) hit(path string) {
	if strings.HasPrefix(path, keptDir) {
		m.keptHit = m.lives // no partition may suffer from that
		return
	}
	tp, ok := dirOf(path)
	if !ok {
		m.dirHit = m.lives
		return
	}
	if r := m.at(tp); r != nil {
		r.hit = true
		if !r.removed { // else it may be the next one's
			return
		}
	}
	if m.newHit == nil {
		m.newHit = make(map[model.TopicPartition]bool)
	}
	m.newHit[tp] = true
}

// at finds a replica by the partition's name. One whose broker has heard that it
// is taken out of the assignment is over: the next in its directory is another.
func (m *machine) at(tp model.TopicPartition) *replica {
	for _, r := range m.replicas {
		if r.tp == tp && !r.part.gone && !r.left {
			return r
		}
	}
	return nil
}

// syncFailed notes that an fsync of a partition's log has failed.
func (m *machine) syncFailed(path string) {
	if tp, ok := dirOf(path); ok && isLog(path) {
		if r := m.at(tp); r != nil {
			r.frozen = m.lives
		}
	}
}

// dropped notes that a failed fsync has dropped pages.
func (m *machine) dropped(path string) {
	if tp, ok := dirOf(path); ok {
		if r := m.at(tp); r != nil {
			r.drop, r.lossy, r.tainted = true, true, true
		}
	}
}

// anyDropped reports whether pages of any partition were dropped.
func (m *machine) anyDropped() bool {
	return slices.ContainsFunc(m.replicas, func(r *replica) bool { return !r.part.gone && (r.drop || r.hurt) })
}

// seedRaft gives the consensus library, which draws its election timeouts from
// crypto/rand, chance of the seed's, and returns a function that takes it back.
func seedRaft(seed uint64) (restore func()) {
	old := crand.Reader
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	crand.Reader = io.Reader(rand.NewChaCha8(key))
	return func() { crand.Reader = old }
}
