package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// contents is every file of the directory.
func contents(t testing.TB, fs vfs.FS) map[string]string {
	t.Helper()
	names, err := fs.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, name := range names {
		b, err := vfs.ReadFile(fs, filepath.Join(testDir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// damaged opens the log and wants a CorruptionError and every file as it was.
func (r *rig) damaged(stop log.Stop, rp model.Offset) *log.CorruptionError {
	r.Helper()
	before := contents(r, r.mem)
	_, err := r.open(stop, rp)
	var c *log.CorruptionError
	if !errors.As(err, &c) {
		r.Fatalf("open after stop %s, recovery point %d: %v, want damage", stop, rp, err)
	}
	if after := contents(r, r.mem); !maps.Equal(before, after) {
		r.Fatalf("files were changed though there is damage: %v, then %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	return c
}

// segmented is a rig whose log was written as several segments, flushed, killed.
func segmented(t testing.TB) (*rig, *logtest.Model) {
	r := newRig(t)
	r.o.Config.SegmentBytes = 400
	r.o.Config.IndexIntervalBytes = 100
	r.start(log.StopClean, 0)
	m := &logtest.Model{}
	for e := range model.LeaderEpoch(4) {
		set := logtest.Batches(m.End, 5, e)
		seq := model.Sequence(2 * e)
		set = append(set, logtest.Batch(logtest.Spec{Base: m.End + 5, Epoch: e, Producer: 9, Sequence: seq, Records: 2, Txn: true, Timestamp: 3000})...)
		set = append(set, logtest.Batch(logtest.Spec{Base: m.End + 7, Epoch: e, Producer: 9, Txn: true, Marker: "abort", Timestamp: 3001})...)
		r.append(set)
		m.Append(set)
	}
	r.flush()
	if n := len(r.l.View().Segments()); n != 4 {
		t.Fatalf("%d segments, want 4", n)
	}
	return r, m
}

func (r *rig) check(m *logtest.Model) {
	r.Helper()
	if err := logtest.Check(r.l, m); err != nil {
		r.Fatal(err)
	}
}

// The file of the last segment ends at any byte: the log ends with the last
// whole batch, whatever kind of stop it was, and nothing earlier is touched.
func TestTornTailAtEveryByte(t *testing.T) {
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		first, _ := segmented(t)
		whole := first.read(first.file(24, ".log"))
		for cut := range whole {
			r, m := segmented(t)
			path := r.file(24, ".log")
			r.rewrite(path, whole[:cut])
			for len(m.Bytes(24, m.End)) > cut {
				m.Truncate(m.Batches[len(m.Batches)-1].BaseOffset())
			}
			rep := r.start(stop, 24)
			r.check(m)
			removed := int64(0)
			for _, x := range rep.Removed {
				removed += x.Bytes
			}
			if kept := int64(len(m.Bytes(24, m.End))); removed != int64(cut)-kept {
				t.Fatalf("cut at %d: %d bytes reported as removed, %d kept", cut, removed, kept)
			}
			// What was removed can still be read, and is gone after Reclaim.
			for _, x := range rep.Removed {
				for _, p := range x.Parts {
					if b := r.read(p.File); !bytes.Equal(b[p.Pos:p.Pos+p.Bytes], whole[cut-int(removed):cut]) {
						t.Fatalf("cut at %d: removed bytes are not readable", cut)
					}
				}
			}
			if _, err := r.l.Reclaim(); err != nil {
				t.Fatal(err)
			}
			r.must(r.l.Close(true))
			r.must(logtest.CheckDir(r.mem, testDir))
		}
	}
}

func TestTailsOfOtherKinds(t *testing.T) {
	valid := logtest.Batches(32, 3, 3)
	tails := []struct {
		name string
		tail []byte
		// damage: after a stop of the process valid batches behind a bad one are.
		damage bool
	}{
		{"zeros", make([]byte, 5000), false},
		{"garbage", bytes.Repeat([]byte{0xA5, 2, 7}, 999), false},
		{"one zero", []byte{0}, false},
		{"valid batch with a bad crc", flip(valid[:len(valid)/3], 70), false},
		{"a page lost in front of a valid batch", append(make([]byte, 4096), valid...), true},
		{"a bad batch in front of valid ones", flip(valid, 70), true},
		{"a length that reaches beyond the end", flip(valid, 9), true},
	}
	for _, tail := range tails {
		for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
			t.Run(fmt.Sprintf("%s, %s", tail.name, stop), func(t *testing.T) {
				r, m := segmented(t)
				path := r.file(24, ".log")
				r.rewrite(path, append(r.read(path), tail.tail...))
				if tail.damage && stop == log.StopProcess {
					if c := r.damaged(stop, 32); c.BelowRecoveryPoint || c.Offset != 32 || c.Segment != 24 {
						t.Errorf("damage %+v", c)
					}
					return
				}
				rep := r.start(stop, 32)
				r.check(m)
				if len(rep.Removed) != 1 || rep.Removed[0].Bytes != int64(len(tail.tail)) || rep.Removed[0].Start != 32 {
					t.Errorf("removed %+v", rep.Removed)
				}
			})
		}
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// No bit of the 21 bytes that no CRC covers, and none of those it covers, flips
// unnoticed below the recovery point.
func TestEveryFlippedBitBelowRecoveryPointIsDamage(t *testing.T) {
	r, _ := segmented(t)
	path := r.file(16, ".log")
	whole := r.read(path)
	first := record.Batch(whole).Size()
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		for bit := range (record.HeaderSize + 3) * 8 {
			b := bytes.Clone(whole)
			b[first+bit/8] ^= 1 << (bit % 8)
			r.rewrite(path, b)
			// The recovery point is within this segment, so that it is scanned.
			r.rewrite(r.file(24, ".log"), nil)
			if c := r.damaged(stop, 24); !c.BelowRecoveryPoint || c.Segment != 16 {
				t.Fatalf("bit %d of byte %d: %+v", bit%8, bit/8, c)
			}
		}
	}
}

// Above the recovery point a loss of power explains a bad batch and what stands
// behind it, in this segment and later ones; a stop of the process doesn't.
func TestFlippedBitAboveRecoveryPoint(t *testing.T) {
	r, m := segmented(t)
	path := r.file(8, ".log")
	b := r.read(path)
	r.rewrite(path, flip(b, 2*record.Batch(b).Size()+65))
	if c := r.damaged(log.StopProcess, 3); c.BelowRecoveryPoint || c.Offset != 10 {
		t.Errorf("damage %+v", c)
	}
	rep := r.start(log.StopPower, 3)
	m.Truncate(10)
	r.check(m)
	if len(rep.Removed) != 1 || len(rep.Removed[0].Parts) != 3 || rep.Removed[0].Start != 10 {
		t.Errorf("removed %+v", rep.Removed)
	}
	r.kill()
	r.start(log.StopPower, 3)
	r.check(m)
}

// A bit that is flipped where no checksum looks, in the offset or the epoch of a
// batch, makes that one or the one behind it, be it the log's last, contradict its
// neighbour: a whole batch is no torn write, so that after a stop of the process
// nothing is cut for it.
func TestSoundBatchIsNoTornWrite(t *testing.T) {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 1, 2))
	r.append(logtest.Batches(r.l.LogEnd(), 1, 2))
	r.must(r.l.Close(false))
	path, end := r.file(0, ".log"), r.l.LogEnd()
	whole := r.read(path)
	second := record.Batch(whole).Size()
	for _, c := range []struct {
		name string
		pos  int
		to   byte
	}{{"the first's epoch raised", 15, 66}, {"the last's epoch lowered", second + 15, 0}, {"the last's offset lowered", second + 7, 0}} {
		b := bytes.Clone(whole)
		b[c.pos] = c.to
		r.rewrite(path, b)
		r.rewrite(r.file(0, ".seal"), nil)
		if d := r.damaged(log.StopProcess, end/2); d.BelowRecoveryPoint {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// A base offset that rot has raised beyond the recovery point does not make what
// stands behind it, and was durable, the tail of a crash.
func TestRaisedOffsetBelowRecoveryPointIsDamage(t *testing.T) {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 1, 2))
	r.append(logtest.Batches(r.l.LogEnd(), 1, 2))
	r.must(r.l.Close(false))
	path, end := r.file(0, ".log"), r.l.LogEnd()
	b := r.read(path)
	b[6] ^= 2 // 512 more
	r.rewrite(path, b)
	r.rewrite(r.file(0, ".seal"), nil)
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		if d := r.damaged(stop, end); d.Segment != 0 || d.Offset <= end {
			t.Errorf("%s: %+v", stop, d)
		}
	}
}

// A batch behind the recovery point whose base offset, or a part of it, is all that
// a loss of power took away, with the sector in front, is the tail of a crash. The
// same bytes elsewhere, or after a kill, are damage.
func TestOffsetLostWithItsSectorIsACrashTail(t *testing.T) {
	for _, c := range []struct {
		front int // bytes of the batch before the boundary, which are zeros
		power bool
		tail  bool
	}{{8, true, true}, {7, true, true}, {10, true, true}, {8, false, false}, {64, true, false}} {
		r := newRig(t)
		r.start(log.StopClean, 0)
		const n = 0x1203 // its last two bytes differ from zero
		if _, err := r.l.TruncateFullyAndStartAt(n); err != nil {
			t.Fatal(err)
		}
		first := logtest.Batch(logtest.Spec{Base: n, ValueSize: 300})
		grow := 512 - c.front - len(first)
		r.append(logtest.Batch(logtest.Spec{Base: n, ValueSize: 300 + grow}))
		r.append(logtest.Batch(logtest.Spec{Base: n + 1}))
		path := r.file(n, ".log")
		r.must(r.l.Close(false))
		b := r.read(path)
		if got := record.Batch(b).Size(); int(got) != 512-c.front {
			t.Fatalf("the second batch is at %d, want %d", got, 512-c.front)
		}
		clear(b[512-c.front : 512-c.front+min(c.front, 10)])
		r.rewrite(path, b)
		if !c.tail {
			stop := log.StopPower
			if !c.power {
				stop = log.StopProcess
			}
			r.damaged(stop, n+1)
			continue
		}
		rep := r.start(log.StopPower, n+1)
		if r.l.LogEnd() != n+1 || len(rep.Removed) != 1 {
			t.Errorf("%d bytes lost: the log ends at %d, removed %v", c.front, r.l.LogEnd(), rep.Removed)
		}
	}
}

func TestSegmentsThatAreMissingOrShort(t *testing.T) {
	stops := []log.Stop{log.StopClean, log.StopProcess, log.StopPower}
	for _, stop := range stops {
		r, _ := segmented(t)
		r.must(r.mem.Remove(r.file(8, ".log")))
		if c := r.damaged(stop, 32); c.Offset != 8 {
			t.Errorf("missing, %s: %+v", stop, c)
		}
		r, _ = segmented(t)
		b := r.read(r.file(8, ".log"))
		r.rewrite(r.file(8, ".log"), b[:record.Batch(b).Size()])
		if c := r.damaged(stop, 32); c.Segment != 8 {
			t.Errorf("short, %s: %+v", stop, c)
		}
	}
	// Without seals, as Kafka leaves it, a hole is taken for compaction's work.
	r, m := segmented(t)
	for _, base := range []model.Offset{0, 8, 16} {
		r.must(r.mem.Remove(r.file(base, ".seal")))
	}
	r.must(r.mem.Remove(r.file(8, ".log")))
	r.start(log.StopClean, 32)
	if r.l.LogEnd() != m.End {
		t.Errorf("log ends at %d, want %d", r.l.LogEnd(), m.End)
	}
}

// Leftovers of interrupted operations go, other files stay, and neither is part
// of the log.
func TestLeftoversAndStrangers(t *testing.T) {
	r, m := segmented(t)
	m.Truncate(32)
	seg := r.read(r.file(8, ".log"))
	gone := []string{
		"00000000000000000003.log.deleted", "00000000000000000008.index.deleted", "00000000000000000016.log.cleaned",
		"00000000000000000099.index", "00000000000000000099.timeindex", "00000000000000000099.txnindex", "00000000000000000099.seal",
		"leader-epoch-checkpoint.tmp", "00000000000000000016.seal.tmp", "00000000000000000040.snapshot",
	}
	strangers := []string{"notes.txt", "000.log", "partition.metadata", "00000000000000000008.log.bak"}
	for _, name := range append(gone, strangers...) {
		r.rewrite(filepath.Join(testDir, name), seg)
	}
	rep := r.start(log.StopPower, 32)
	r.check(m)
	left := contents(t, r.mem)
	for _, name := range gone {
		if _, there := left[name]; there {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range strangers {
		if left[name] != string(seg) {
			t.Errorf("%s was touched", name)
		}
	}
	if want := []string{"000.log", "00000000000000000008.log.bak", "notes.txt"}; !slices.Equal(slices.Sorted(slices.Values(rep.Ignored)), slices.Sorted(slices.Values(want))) {
		t.Errorf("ignored %v", rep.Ignored)
	}
}

// An interrupted compaction: a complete .swap takes the place of the segments
// that it stands for; one that comes with a .cleaned is part of a split that
// wasn't finished, and goes.
func TestSwaps(t *testing.T) {
	for _, cleaned := range []bool{false, true} {
		r, m := segmented(t)
		want := m.Clone()
		var swap []byte
		want.Batches = nil
		for i, b := range m.Batches {
			if o := b.BaseOffset(); o >= 8 && o < 24 {
				if i%2 == 0 && o != 23 {
					continue // compacted away
				}
				swap = append(swap, b...)
			}
			want.Batches = append(want.Batches, b)
		}
		r.rewrite(r.file(8, ".log.swap"), swap)
		r.rewrite(r.file(8, ".index.swap"), nil)
		if cleaned {
			r.rewrite(r.file(8, ".timeindex.cleaned"), nil)
			want = m
		}
		r.must(r.mem.Remove(r.file(8, ".seal"))) // the compactor does that before it swaps
		r.start(log.StopProcess, 32)
		if got, want := len(r.l.View().Segments()), map[bool]int{false: 3, true: 4}[cleaned]; got != want {
			t.Errorf("cleaned %v: %d segments, want %d", cleaned, got, want)
		}
		var got []byte
		r.must(r.l.View().Batches(0, nil, func(b record.Batch) error { got = append(got, b...); return nil }))
		if !bytes.Equal(got, want.Bytes(0, 32)) {
			t.Errorf("cleaned %v: %d bytes, want %d", cleaned, len(got), len(want.Bytes(0, 32)))
		}
		r.must(r.l.Close(true))
		r.start(log.StopClean, 32)
	}
}

// Whatever happened to an index file, answers equal those of a scan.
func TestIndexFaults(t *testing.T) {
	faults := map[string]func(b []byte) []byte{
		"missing":    func([]byte) []byte { return nil },
		"empty":      func([]byte) []byte { return []byte{} },
		"half entry": func(b []byte) []byte { return b[:max(0, len(b)-5)] },
		"last lost":  func(b []byte) []byte { return b[:max(0, len(b)-8)] },
		"garbage":    func(b []byte) []byte { return bytes.Repeat([]byte{0xEE}, max(len(b), 24)) },
		"zeros":      func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 240)...) },
		"falling":    func(b []byte) []byte { return append(bytes.Clone(b), b...) },
		"beyond":     func(b []byte) []byte { return append(bytes.Clone(b), 0, 0, 0, 7, 0, 0, 255, 255) },
		"flipped":    func(b []byte) []byte { return flip(append(bytes.Clone(b), 0), 6) },
		"one batch on": func(b []byte) []byte {
			b = bytes.Clone(b)
			for i := 7; i < len(b); i += 8 {
				b[i] += 74 // the size of a batch
			}
			return b
		},
	}
	for name, fault := range faults { // order-free
		for _, suffix := range []string{".index", ".timeindex", ".txnindex"} {
			for _, sealed := range []bool{true, false} {
				if !sealed && (suffix != ".index" || name == "empty" || name == "last lost") {
					continue // what only a seal can tell
				}
				t.Run(fmt.Sprintf("%s %s sealed %v", suffix, name, sealed), func(t *testing.T) {
					r, m := segmented(t)
					r.must(r.l.Close(true))
					for _, base := range []model.Offset{0, 8, 16, 24} {
						path := r.file(base, suffix)
						b := fault(r.read(path))
						if b == nil {
							r.must(r.mem.Remove(path))
						} else {
							r.rewrite(path, b)
						}
						if !sealed {
							r.must(r.mem.Remove(r.file(base, ".seal")))
						}
					}
					r.start(log.StopClean, 32)
					r.check(m)
					r.must(r.l.Close(true))
					r.must(logtest.CheckDir(r.mem, testDir))
					r.start(log.StopClean, 32)
					r.check(m)
				})
			}
		}
	}
}

func TestSnapshotFaults(t *testing.T) {
	faults := map[string]func(r *rig, path string){
		"missing": func(r *rig, path string) { r.must(r.mem.Remove(path)) },
		"torn":    func(r *rig, path string) { b := r.read(path); r.rewrite(path, b[:len(b)-1]) },
		"bad crc": func(r *rig, path string) { r.rewrite(path, flip(r.read(path), 12)) },
	}
	for name, fault := range faults { // order-free
		for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
			r, m := segmented(t)
			r.must(r.l.Close(true))
			for _, base := range []model.Offset{8, 16, 24, 32} {
				fault(r, r.file(base, ".snapshot"))
			}
			r.start(stop, 32)
			if err := logtest.Check(r.l, m); err != nil {
				t.Errorf("%s, %s: %v", name, stop, err)
			}
		}
	}
}

func TestEpochFileFaults(t *testing.T) {
	texts := map[string]string{
		"missing":           "-",
		"empty":             "",
		"bad count":         "0\n9\n0 0\n1 8\n",
		"bad text":          "0\n1\nx y\n",
		"last epoch lost":   "0\n3\n0 0\n1 8\n2 16\n",
		"beyond the end":    "0\n6\n0 0\n1 8\n2 16\n3 24\n4 32\n9 99\n",
		"other starts":      "0\n4\n0 0\n1 9\n2 16\n3 24\n",
		"other epochs":      "0\n4\n0 0\n1 8\n2 16\n7 24\n",
		"falling":           "0\n2\n3 0\n1 8\n",
		"of another log":    "0\n1\n5 0\n",
		"starts in between": "0\n5\n0 0\n1 8\n2 16\n3 24\n4 30\n",
	}
	for name, text := range texts { // order-free
		for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
			r, m := segmented(t)
			r.must(r.l.Close(true))
			path := filepath.Join(testDir, checkpoint.EpochFile)
			if text == "-" {
				r.must(r.mem.Remove(path))
			} else {
				r.rewrite(path, []byte(text))
			}
			r.start(stop, 20)
			if err := logtest.Check(r.l, m); err != nil {
				t.Errorf("%s, %s: %v", name, stop, err)
			}
		}
	}
}

// An epoch that rot has raised in a batch below the recovery point is damage, in the
// first batch of a segment, which a start looks at, as in any other, once all are.
func TestRaisedEpochIsDamage(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, k := range []int{0, 3} {
			r, _ := segmented(t)
			r.must(r.l.Close(true))
			path := r.file(8, ".log")
			b := r.read(path)
			pos := 0
			for range k {
				pos += int(record.SizeOf(b[pos:]))
			}
			b[pos+13] ^= 64
			r.rewrite(path, b)
			want := model.Offset(8) // the file says which one it is
			if k > 0 {              // nobody looks there while the file agrees with the ends
				r.must(r.mem.Remove(filepath.Join(testDir, checkpoint.EpochFile)))
				want = model.Offset(8 + k + 1)
			}
			if c := r.damaged(stop, 32); c.Segment != 8 || !c.BelowRecoveryPoint || c.Offset != want || (c.Pos == 0) != (k == 0) {
				t.Errorf("batch %d, %s: %+v", k, stop, c)
			}
		}
	}
}

// The last batch below the recovery point may have it too: what comes behind is not
// the end of a crash for having a lower one.
func TestRaisedEpochBeforeTheRecoveryPointIsDamage(t *testing.T) {
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		r := newRig(t)
		r.start(log.StopClean, 0)
		r.append(logtest.Batches(0, 3, 2))
		r.must(r.l.Close(false))
		path := r.file(0, ".log")
		b := r.read(path)
		b[12] ^= 1
		r.rewrite(path, b)
		if d := r.damaged(stop, 1); d.Offset != 1 {
			t.Errorf("%s: %+v", stop, d)
		}
	}
}

// The recovery point and the log's start come from files that may say anything.
func TestStoredOffsets(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, rp := range []model.Offset{-5, 0, 13, 32, 1000} {
			r, m := segmented(t)
			r.start(stop, rp)
			r.check(m)
			if got := r.l.RecoveryPoint(); got > r.l.LogEnd() {
				t.Errorf("%s: recovery point %d of %d", stop, got, r.l.LogEnd())
			}
		}
		r, m := segmented(t)
		r.o.LogStart = 11
		r.start(stop, 32)
		m.Raise(11)
		r.check(m)
		// Beyond the end everything was deleted.
		r, _ = segmented(t)
		r.o.LogStart = 50
		rep := r.start(stop, 32)
		r.check(&logtest.Model{Start: 50, End: 50})
		if len(rep.Removed) != 1 || rep.Removed[0].Bytes == 0 {
			t.Errorf("%s: removed %+v", stop, rep.Removed)
		}
	}
}

// A segment that reaches beyond the next one's base is a truncation that was
// not finished: opening finishes it.
func TestUnfinishedCutIsFinished(t *testing.T) {
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		r, m := segmented(t)
		if _, err := r.l.Truncate(11); err != nil {
			t.Fatal(err)
		}
		set := logtest.Batches(11, 2, 7)
		r.append(set)
		m.Truncate(11)
		m.Append(set)
		r.kill()
		for range 2 {
			rep := r.start(stop, 11)
			r.check(m)
			if len(rep.Removed) != 1 || rep.Removed[0].Why != "unfinished cut" {
				t.Errorf("%s: removed %+v", stop, rep.Removed)
			}
		}
		if left, err := r.l.Reclaim(); left != 0 || err != nil {
			t.Errorf("%s: %d left, %v", stop, left, err)
		}
		if rep := r.start(stop, 11); len(rep.Removed) != 0 {
			t.Errorf("%s: removed %+v after it was reclaimed", stop, rep.Removed)
		}
	}
}

// What a killed process has left in the page cache alone is synced by the first flush,
// names included, so that a later loss of power leaves it. Open itself waits for no
// disk: nobody was told that it is durable.
func TestTailOfAKilledProcessIsSyncedByTheFirstFlush(t *testing.T) {
	r, m := segmented(t)
	set := logtest.Batches(32, 4, 5)
	r.append(set)
	m.Append(set)
	r.kill()
	syncs := faultfs.NewCounter(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData, faultfs.OpSyncDir))
	r.fs = faultfs.Wrap(r.mem, syncs)
	r.start(log.StopProcess, 32)
	if rp := r.l.RecoveryPoint(); rp != 32 || syncs.Count() != 0 {
		t.Errorf("recovery point %d after %d syncs, want 32 after none", rp, syncs.Count())
	}
	job := r.l.StartFlush()
	if job == nil {
		t.Fatal("nothing to flush")
	}
	if err := r.l.FinishFlush(job, job.Run()); err != nil || r.l.RecoveryPoint() != 36 {
		t.Errorf("recovery point %d, %v, want 36", r.l.RecoveryPoint(), err)
	}
	r.mem = r.mem.CrashClone(memfs.Crash{})
	r.fs = r.mem
	r.start(log.StopPower, 36)
	r.check(m)
}
