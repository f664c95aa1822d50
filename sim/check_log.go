package sim

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
)

// Kafka's files of a log directory.
const (
	cleanFile         = ".kafka_cleanshutdown"
	logStartFile      = "log-start-offset-checkpoint"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	epochFile         = "leader-epoch-checkpoint"
)

func partDir(tp model.TopicPartition) string {
	return fmt.Sprintf("%s/%s-%d", dataDir, tp.Topic, tp.Partition)
}

// scan reads the batches of a replica's segment files from the segment that
// holds from, and returns the offset at which they cease to follow each other,
// with the reason.
func (r *replica) scan(disk disk, from int64, fn func(b *fileBatch) error) (end int64, err error) {
	w, dir := r.m.world, partDir(r.tp)
	names, err := disk.List(dir)
	if err != nil {
		return from, err
	}
	var bases []int64
	var files []string
	for _, name := range names {
		if digits, ok := strings.CutSuffix(name, ".log"); ok {
			base, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return from, err
			}
			bases, files = append(bases, base), append(files, name)
		}
	}
	first := 0
	for i, base := range bases {
		if base <= from {
			first = i
		}
	}
	if len(bases) == 0 || bases[first] > from {
		return from, fmt.Errorf("no segment holds offset %d", from)
	}
	end = bases[first]
	for i := first; i < len(bases); i++ {
		if r.seam(end, bases[i]) {
			end = bases[i]
		}
		if bases[i] != end {
			return end, fmt.Errorf("segment %d follows offset %d", bases[i], end)
		}
		file, err := disk.Content(dir + "/" + files[i])
		if err != nil {
			return end, err
		}
		batches, n, malformed := w.parses.of(file)
		err = nil
		for k := 0; k < len(batches) && err == nil; k++ {
			b := &batches[k]
			if err = checkNext(b, bases[i+1:], end); err == nil {
				end = b.last + 1
				err = fn(b)
			}
		}
		if err == nil {
			err = malformed
		}
		switch {
		case err == errCutAway:
		case i+1 < len(bases) && (bases[i+1] == end || r.seam(end, bases[i+1])):
			// The rest was cut away: the log went on in a new file.
		case err != nil:
			return end, err
		case n < len(file):
			return end, fmt.Errorf("segment %d has %d bytes behind offset %d", bases[i], len(file)-n, end)
		}
	}
	return end, nil
}

// checkNext checks that a batch is the next, and not cut away in favor of a
// later segment.
func checkNext(b *fileBatch, later []int64, end int64) error {
	switch {
	case len(later) > 0 && b.base >= later[0]:
		return errCutAway
	case b.base != end:
		return fmt.Errorf("batch at offset %d follows offset %d", b.base, end)
	}
	return nil
}

// forget forgets the records of a seam.
func (r *replica) forget(from, to int64) {
	for ; from < min(to, int64(len(r.recs))); from++ {
		r.recs[from] = rec{ts: noTS, epoch: -1}
	}
}

// progress is how far a producer has come in a log.
type progress struct {
	epoch int16
	seq   int32 // of the last record
	last  int64 // its offset
}

// forgotten reports whether a leader need not have known of this when it took a
// batch at base: all that it tells lies below one of the places where the partition
// has started at some time, at or above which the batch is, and may be on a disk all
// the same, also when the log starts higher by now.
func (l progress) forgotten(base int64, starts []int64) bool {
	i, _ := slices.BinarySearch(starts, l.last+1)
	return i < len(starts) && starts[i] <= base
}

// errCutAway: the rest of the file was truncated away, the next segment begins
// below.
var errCutAway = fmt.Errorf("cut away")

// compare reads a replica's files and checks every record and every batch.
func (r *replica) compare(s *host.State, when string) {
	w, p, m := r.m.world, r.part, r.m
	producers := make(map[int64]progress)
	lastEpoch, lastAppend := int32(-1), int64(noTS)
	start := int64(s.LogStart)
	r.batches = r.batches[:0]
	// A cut may be done in the files before the state shows it.
	if r.cutting = r.host != nil && r.host.Writing(); r.cutting {
		return
	}
	next := start
	end, err := r.scan(m.disk, start, func(h *fileBatch) error {
		r.forget(next, h.base)
		r.forget(h.base, min(start, h.last+1)) // a log may be emptied and begin anew below its start
		next = h.last + 1
		if h.epoch < lastEpoch || s.LeaderEpoch >= 0 && h.epoch > int32(s.LeaderEpoch) {
			w.fail(2, "%s: %v: batch at %d on broker %d has epoch %d after %d, the leader's is %d", when, p.tp, h.base, m.id, h.epoch, lastEpoch, s.LeaderEpoch)
		}
		lastEpoch = h.epoch
		if e := s.EpochFor(model.Offset(h.last)); h.last >= start && int32(e) != h.epoch {
			w.fail(2, "%s: %v: batch at %d on broker %d has epoch %d, the cache says %d; the log is %d to %d, the file %v", when, p.tp, h.base, m.id, h.epoch, e, start, s.LogEnd, readEpochs(m.disk, partDir(p.tp)))
		}
		if isAppendTime(p.tp.Topic) && h.last >= max(start, p.maxStart) {
			if h.maxTS < lastAppend && len(w.machines) == 1 {
				w.fail(5, "%s: %v: append time %d at %d after %d on broker %d", when, p.tp, h.maxTS, h.base, lastAppend, m.id)
			}
			lastAppend = h.maxTS
		}
		if h.pid >= 0 {
			last, known := producers[h.pid]
			forgotten := known && last.forgotten(h.base, p.starts)
			known = known && !forgotten
			next := int32(0)
			if known && last.epoch == h.pepoch {
				next = last.seq + 1
			}
			// A deposed leader that has not heard of the next takes what comes.
			deposed := h.base >= int64(s.HighWatermark) && p.reignedAfter(h.epoch)
			anyFirst := !known && (start > 0 || p.lost || w.loose[h.pid] || deposed || forgotten)
			if known && h.pepoch < last.epoch || h.seq != next && !anyFirst {
				w.fail(7, "%s: %v: producer %d epoch %d sequence %d at offset %d of broker %d, want %d (epoch before %d)", when, p.tp, h.pid, h.pepoch, h.seq, h.base, m.id, next, last.epoch)
			}
			producers[h.pid] = progress{h.pepoch, h.seq + h.count - 1, h.last}
		}
		r.batches = append(r.batches, stored{h.base, h.last, h.epoch, h.crc})
		return h.each(func(g gotRecord) error {
			w.h.holds(r, h.epoch, g.offset, g.id, g.ts, when)
			return nil
		})
	})
	r.forget(next, end)
	switch {
	case end < int64(s.LogEnd) && (r.drop || r.holed):
		// Pages dropped inside a log whose seal could not be written either:
		// nothing on the disk tells it from what compaction leaves.
		r.hurt, r.holed = true, true
		m.line("hole       %v at %d: %v", p.tp, end, err)
	case end < int64(s.LogEnd):
		w.fail(4, "%s: %v: the files of broker %d hold records up to %d, the log ends at %d: %v", when, p.tp, m.id, end, s.LogEnd, err)
	case end > int64(s.LogEnd) && !r.hit:
		// Bytes that are no batch may stand behind the end: what a load cut away.
		w.fail(13, "%s: %v: the files of broker %d go on to %d behind the log end %d: %v", when, p.tp, m.id, end, s.LogEnd, err)
	}
}

// deepCheck looks at everything: the files against the history, indexes
// against the files, what is durable against what was said to be, replicas
// against each other.
func (w *World) deepCheck() {
	if w.dying() != nil {
		return
	}
	w.parses.looked()
	w.admin.checkImage()
	for _, m := range w.machines {
		if m.up() {
			m.deepCheck()
		}
	}
	for _, p := range w.h.order {
		if !p.gone {
			w.checkReplicas(p)
		}
	}
	w.checkHeld()
}

func (m *machine) deepCheck() {
	w, n := m.world, m.node
	n.notice()
	image := m.disk.Durable()
	for _, hosted := range n.hosted {
		r, s := n.seen[hosted], hosted.State()
		r.batches = r.batches[:0]
		if s.Remnant != nil && !r.part.gone && !r.hit && m.faults.errors == 0 {
			r.checkRemnant(s)
		}
		if r.part.gone || r.hurt || r.rotten || s.Role == partition.Offline || s.View == nil {
			continue
		}
		if r.compare(s, "in the files"); r.hurt {
			continue // found only now
		}
		if m.faults.errors == 0 && !r.hit && !r.cutting {
			r.checkAnswers(s)
		}
		if w.nodeRand.IntN(2) == 0 && !r.hit && !r.stained && m.fullLife != m.lives {
			r.checkIndexes()
		}
		if !r.drop && !r.cutting && !r.stained {
			r.checkDurable(image, s)
		}
	}
}

// checkAnswers compares what indexes lead to with what the files say.
func (r *replica) checkAnswers(s *host.State) {
	w, tp := r.m.world, r.tp
	start, end := int64(s.LogStart), int64(s.LogEnd)
	if start >= end {
		return
	}
	for range 3 {
		from := start + w.nodeRand.Int64N(end-start)
		if r.recs[from].id == 0 {
			continue // at a seam
		}
		region, err := s.View.Read(model.Offset(from), s.LogEnd, 1000, true)
		if errors.Is(err, log.ErrStaleView) && s.Role == partition.Follower {
			return // a truncation is under way
		}
		if err != nil {
			w.fail(13, "%v: read from %d on broker %d: %v", tp, from, r.m.id, err)
		}
		b := make([]byte, region.Len())
		if _, err := region.ReadAt(b, 0); err != nil {
			w.fail(13, "%v: read of %d bytes from %d on broker %d: %v", tp, len(b), from, r.m.id, err)
		}
		h, err := readHead(b)
		if err != nil || h.base > from || h.last < from {
			w.fail(13, "%v: a read from %d on broker %d begins at batch %d to %d: %v", tp, from, r.m.id, h.base, h.last, err)
		}
		w.hold(r, region, b)
	}
	want, at := int64(-1), r.recs[start+w.nodeRand.Int64N(end-start)].ts+w.nodeRand.Int64N(3)-1
	for o := start; o < end && want < 0; o++ {
		if r.recs[o].ts >= at && r.recs[o].id != 0 {
			want = o
		}
	}
	got, found, err := s.View.OffsetForTimestamp(model.Timestamp(at), s.LogEnd)
	if !found {
		got.Offset = -1
	}
	if err != nil || int64(got.Offset) != want {
		w.fail(13, "%v: the first record since %d is at %d, the index of broker %d says %d: %v", tp, at, want, r.m.id, got.Offset, err)
	}
}

// checkDurable compares what a power failure would leave at least with what is
// said to be durable.
func (r *replica) checkDurable(image disk, s *host.State) {
	w, tp := r.m.world, r.tp
	point := max(checkpointOf(image, recoveryPointFile, tp), int64(s.RecoveryPoint))
	claimed := max(int64(s.Durable), point, r.floor)
	start := int64(s.LogStart)
	if claimed <= start {
		return
	}
	epochs := readEpochs(image, partDir(tp))
	end, err := r.scan(image, start, func(h *fileBatch) error {
		// An older checkpoint of the log start can bring back offsets that the
		// file has forgotten; a start then finds their epochs in the batches.
		if e := epochs.of(h.last); h.last >= start && h.last < point && e != h.epoch && (e >= 0 || h.last >= r.loadedPoint) {
			w.fail(13, "%v: the recovery point of broker %d is %d, the durable epoch file says %d of the batch at %d, which has %d", tp, r.m.id, point, e, h.base, h.epoch)
		}
		if h.base >= claimed {
			return errCutAway
		}
		return h.each(func(g gotRecord) error {
			if at := r.recs[g.offset]; at.id != g.id {
				return fmt.Errorf("offset %d holds record %d, want %d", g.offset, g.id, at.id)
			}
			return nil
		})
	})
	if end < claimed {
		w.fail(13, "%v: %d is said to be durable on broker %d (recovery point %d), a power failure could leave %d: %v", tp, claimed, r.m.id, point, end, err)
	}
}

// held is a region whose bytes must not change.
type held struct {
	r      *replica
	node   *node
	region log.Region
	bytes  []byte
	looks  int
}

const heldMax = 12

func (w *World) hold(r *replica, region log.Region, b []byte) {
	if len(w.held) >= heldMax || w.nodeRand.IntN(3) > 0 {
		region.Release()
		return
	}
	w.held = append(w.held, held{r: r, node: r.m.node, region: region, bytes: b})
}

// checkHeld reads held regions again.
func (w *World) checkHeld() {
	kept := w.held[:0]
	for _, h := range w.held {
		if h.node.m.node != h.node {
			continue // of a process that is gone
		}
		b := make([]byte, len(h.bytes))
		if _, err := h.region.ReadAt(b, 0); err == nil && string(b) != string(h.bytes) {
			w.fail(14, "%v: %d bytes from %d changed under a reader on broker %d", h.r.tp, len(b), h.region.Start(), h.node.m.id)
		}
		if h.looks++; h.looks < 3 {
			kept = append(kept, h)
		} else {
			h.region.Release()
		}
	}
	w.held = kept
}

// checkpointOf returns a partition's offset in one of Kafka's offset
// checkpoints, 0 if it has none.
func checkpointOf(disk disk, file string, tp model.TopicPartition) int64 {
	for line := range lines(disk, filepath.Join(dataDir, file), 2) {
		topic, rest, _ := strings.Cut(line, " ")
		if topic != tp.Topic {
			continue
		}
		if f := numbers(rest); len(f) == 2 && f[0] == int64(tp.Partition) {
			return f[1]
		}
	}
	return 0
}

// epochLines are the entries of a leader-epoch-checkpoint.
type epochLines []struct{ epoch, start int64 }

func readEpochs(disk disk, dir string) (es epochLines) {
	for line := range lines(disk, filepath.Join(dir, epochFile), 2) {
		if f := numbers(line); len(f) == 2 {
			es = append(es, struct{ epoch, start int64 }{f[0], f[1]})
		}
	}
	return es
}

// of returns the epoch at an offset, -1 if none is known.
func (es epochLines) of(offset int64) int32 {
	e := int64(-1)
	for _, l := range es {
		if l.start <= offset {
			e = l.epoch
		}
	}
	return int32(e)
}

// lines goes through the lines of a file behind the first few.
func lines(disk disk, path string, skip int) iter.Seq[string] {
	return func(yield func(string) bool) {
		b, err := disk.Content(path)
		if err != nil {
			return
		}
		for i := 0; len(b) > 0; i++ {
			line, rest, _ := bytes.Cut(b, newline)
			if b = rest; i >= skip && !yield(string(line)) {
				return
			}
		}
	}
}

var newline = []byte("\n")

// numbers returns the decimal numbers of a line, nil if it has anything else.
func numbers(line string) (ns []int64) {
	for f := range strings.FieldsSeq(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return nil
		}
		ns = append(ns, n)
	}
	return ns
}
