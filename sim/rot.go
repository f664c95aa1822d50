package sim

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/partition/host"
)

// What lies on a disk may change by itself: a bit flips, a block reads as zeros.
// It does here while no process runs, in what had been synced.

// rot damages something on the machine's disk before its process starts,
// sometimes.
func (m *machine) rot(r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		m.rotBeside(r)
	case 1, 2:
		m.rotLog(r)
	}
}

// spoil damages a file between two positions: one bit, or a block of zeros. It
// reports whether anything is different now. The file is another one then, since
// bytes that somebody has never change.
func (m *machine) spoil(r *rand.Rand, path string, from, to int, flip bool) bool {
	_, ok := m.spoilAt(r, path, from, to, flip)
	return ok
}

// spoilAt is spoil, and tells where.
func (m *machine) spoilAt(r *rand.Rand, path string, from, to int, flip bool) (at int, ok bool) {
	old, err := m.disk.Content(path)
	if err != nil || to > len(old) || from >= to {
		return 0, false
	}
	b := append([]byte(nil), old...)
	at = from + r.IntN(to-from)
	what := "a flipped bit"
	if flip {
		b[at] ^= 1 << r.IntN(8)
	} else {
		what = "a block of zeros"
		at -= at % 512
		clear(b[at:min(at+512, len(b))])
	}
	if string(b) == string(old) || vfs.WriteFileAtomic(m.disk, path, b) != nil {
		return at, false
	}
	m.world.counts.kind[KindRot]++
	m.line("rot        %s at %d of %s", what, at, path)
	return at, true
}

// anyRotten reports whether a batch of some replica of a partition was spoilt.
func (w *World) anyRotten(p *part) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		r := m.find(p)
		return r != nil && r.rotten
	})
}

// rotBeside damages files that can be made anew: that costs time, not records.
// What is text and has no checksum, as Kafka wants it, loses a whole block: one
// digit for another would be as good as any.
func (m *machine) rotBeside(r *rand.Rand) {
	var paths []string
	for _, rep := range m.replicas {
		names, err := m.disk.List(partDir(rep.tp))
		if err != nil || rep.part.gone {
			continue
		}
		for _, name := range names {
			if isText(name) || isBeside(name) {
				paths = append(paths, filepath.Join(partDir(rep.tp), name))
			}
		}
	}
	paths = append(paths, filepath.Join(dataDir, highWatermarkFile))
	if !slices.ContainsFunc(m.replicas, func(rep *replica) bool { return rep.rotten }) {
		// Without it a spoilt batch could be one whose write was torn.
		paths = append(paths, filepath.Join(dataDir, recoveryPointFile))
	}
	for range 1 + r.IntN(3) {
		path := pick(r, paths)
		b, err := m.disk.Content(path)
		if err != nil || len(b) == 0 {
			continue
		}
		if m.spoil(r, path, 0, len(b), !isText(path) && r.IntN(2) == 0) {
			if tp, ok := dirOf(path); ok && m.at(tp) != nil {
				m.at(tp).stained = true
			}
		}
	}
}

func isText(path string) bool { return strings.HasSuffix(path, "-checkpoint") }

func isBeside(path string) bool {
	switch filepath.Ext(path) {
	case ".index", ".timeindex", ".txnindex", ".seal", ".snapshot":
		return true
	}
	return false
}

// rotLog damages a batch of a replica that is not needed, or of the only one of a
// broker that is alone, below its recovery point: what lies above may have been torn
// as well.
func (m *machine) rotLog(r *rand.Rand) {
	w := m.world
	if w.frail != nil && w.frail != m {
		return
	}
	var spare []*replica
	for _, rep := range m.replicas {
		reg := w.registration(rep.part)
		if !rep.part.gone && !rep.removed && reg != nil && reg.HasReplica(m.id) && rep.life > 0 && (w.othersWhole(rep) || w.mayRotAlone(rep)) {
			spare = append(spare, rep)
		}
	}
	if len(spare) == 0 {
		return
	}
	rep := pick(r, spare)
	point := checkpointOf(m.disk, recoveryPointFile, rep.tp)
	type spot struct {
		path string
		b    fileBatch
		safe int64 // what lies below has nothing to do with it
	}
	var spots []spot
	names, err := m.disk.List(partDir(rep.tp))
	if err != nil {
		return
	}
	safe := int64(0)
	for _, name := range names {
		if filepath.Ext(name) != ".log" {
			continue
		}
		path := filepath.Join(partDir(rep.tp), name)
		content, err := m.disk.Content(path)
		if err != nil {
			return
		}
		batches, _, _ := w.parses.of(content)
		before, k := safe, 0
		for _, b := range batches {
			// A block of zeros begins before what it is meant for, and the batch before
			// one that can't stand where it does is in doubt too.
			for ; batches[k].pos+batches[k].size <= b.pos-511; k++ {
				before = batches[k].base
			}
			if b.last < point {
				spots = append(spots, spot{path, b, before})
			}
			safe = b.base
		}
	}
	if len(spots) == 0 {
		return
	}
	for range 1 + r.IntN(3) {
		s := pick(r, spots)
		end := s.b.pos + s.b.size
		if r.IntN(2) == 0 {
			end = s.b.pos + uncovered + 4 // what no CRC covers, and the CRC
		}
		if at, ok := m.spoilAt(r, s.path, s.b.pos, end, r.IntN(4) > 0); ok {
			w.frail = m
			if !rep.rotten || s.safe < rep.rotAt {
				rep.rotAt = s.safe
			}
			rep.rotten, rep.part.maimed = true, true
			m.remember(rep, s.path, s.b.last, at < s.b.pos+uncovered)
		}
	}
}

// mayRotAlone reports whether the only replica of a partition may be spoilt: one of a
// world, of which the broker then serves what lies below.
func (w *World) mayRotAlone(r *replica) bool {
	return len(w.machines) == 1 && r.tp.Topic != groupsTopic &&
		!slices.ContainsFunc(r.m.replicas, func(o *replica) bool { return o != r && o.rotten })
}

// checkRemnant checks what a broker serves of a damaged log: all that nothing has
// spoilt, and nothing but what was written.
func (r *replica) checkRemnant(s *host.State) {
	w, rem := r.m.world, s.Remnant
	if int64(rem.End) < min(r.rotAt, int64(rem.LogEnd)) && len(w.machines) == 1 {
		w.fail(4, "%v: broker %d serves what lies below %d, nothing below %d was spoilt: %v", r.tp, r.m.id, rem.End, r.rotAt, rem.Damage)
	}
	// As clients read: what turns out to be damaged then is refused, or seen by its CRC.
	for next := rem.Start; next < rem.End; {
		region, err := s.Reader().Read(next, rem.End, 1<<20, true)
		if err != nil {
			break
		}
		b := make([]byte, region.Len())
		_, err = region.ReadAt(b, 0)
		region.Release()
		if err != nil || len(b) == 0 {
			w.fail(5, "%v: what is left on broker %d ends at %d, it is said to end at %d: %v", r.tp, r.m.id, next, rem.End, err)
		}
		_, err = eachBatch(b, func(h *batchHead, raw []byte) error {
			if h.base > int64(next) || h.last < int64(next) {
				w.fail(5, "%v: what is left on broker %d goes on with [%d, %d] behind %d", r.tp, r.m.id, h.base, h.last, next)
			}
			next = model.Offset(h.last + 1)
			return eachRecord(h, raw, func(g gotRecord) error {
				if g.offset >= int64(rem.Start) {
					w.h.holds(r, h.epoch, g.offset, g.id, g.ts, "in what is left of a damaged log")
				}
				return nil
			})
		})
		if err != nil {
			break
		}
	}
	w.counts.remnants++
}
