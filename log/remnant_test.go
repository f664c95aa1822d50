package log_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// remnant opens what is left of the rig's log and wants every file as it was.
func (r *rig) remnant(c *log.CorruptionError) *log.Remnant {
	r.Helper()
	before := contents(r, r.mem)
	rem, err := log.OpenRemnant(r.o, c, nil)
	if err != nil {
		r.Fatalf("what is left below %v: %v", c, err)
	}
	if after := contents(r, r.mem); !maps.Equal(before, after) {
		r.Fatalf("files were changed")
	}
	return rem
}

// below checks that a remnant serves exactly what the model has below its end, and
// does not take the log for shorter than it was: readers would believe that it was
// truncated.
func below(rem *log.Remnant, m *logtest.Model) error {
	end := rem.View.End()
	if rem.LogEnd < m.End {
		return fmt.Errorf("the log is said to end at %d, the remnant ends at %d, the log did at %d", rem.LogEnd, end, m.End)
	}
	left := m.Clone()
	left.Truncate(end)
	if left.End != end || len(left.Batches) > 0 && left.Batches[len(left.Batches)-1].NextOffset() != end {
		return fmt.Errorf("it ends at %d, inside a batch", end)
	}
	if err := logtest.CheckView(rem.View, left); err != nil {
		return err
	}
	stable := end
	producers, _ := left.Producers()
	if first, open := producers.FirstUndecided(); open {
		stable = first
	}
	if rem.Stable != stable {
		return fmt.Errorf("stable up to %d, want %d", rem.Stable, stable)
	}
	for _, b := range left.Batches {
		if e, ok := rem.Epochs().EpochFor(b.BaseOffset()); !ok || e != b.LeaderEpoch() {
			return fmt.Errorf("offset %d is said to be of epoch %d, it is of %d", b.BaseOffset(), e, b.LeaderEpoch())
		}
	}
	return nil
}

// Whatever byte of a log is another one: what is served is what was written, up to
// the batch that was hit or, where no checksum tells which of two it is, the one
// before.
func TestRemnantAtEveryByte(t *testing.T) {
	found := 0
	for _, how := range []struct {
		name string
		stop log.Stop
		rp   model.Offset
		anew bool
		step int
	}{
		{"a killed process, nothing durable", log.StopProcess, 0, false, 1},
		{"a killed process, all durable", log.StopProcess, 32, false, 3},
		{"power, all durable, all looked at", log.StopPower, 32, true, 5},
		{"a clean stop, all looked at", log.StopClean, 32, true, 7},
	} {
		first, m := segmented(t)
		base := first.mem
		for _, seg := range []model.Offset{0, 8, 16, 24} {
			path := first.file(seg, ".log")
			whole := first.read(path)
			for at := 0; at < len(whole); at += how.step {
				r := &rig{TB: t, mem: base.Fork(), o: first.o}
				r.fs = r.mem
				r.overwrite(path, flip(whole, at))
				r.o.Anew = how.anew
				before := contents(t, r.mem)
				_, err := r.open(how.stop, how.rp)
				var c *log.CorruptionError
				if !errors.As(err, &c) {
					continue
				}
				if !maps.Equal(before, contents(t, r.mem)) {
					t.Fatal("damage was not left as it is")
				}
				found++
				rem := r.remnant(c)
				if err := below(rem, m); err != nil {
					t.Fatalf("%s: byte %d of segment %d: %v", how.name, at, seg, err)
				}
				hit, before2, inHeader := hitBy(m, seg, at)
				if end := rem.View.End(); end != hit && !(inHeader && end == before2) {
					t.Fatalf("%s: byte %d of segment %d: readable to %d, the batch that was hit begins at %d", how.name, at, seg, end, hit)
				}
				rem.Close()
			}
		}
	}
	if found < 2500 {
		t.Errorf("only %d damaged logs", found)
	}
	t.Logf("%d damaged logs", found)
}

// hitBy returns the batch at a position of a segment and the one before, and whether
// no checksum covers the byte.
func hitBy(m *logtest.Model, seg model.Offset, at int) (hit, before model.Offset, inHeader bool) {
	pos := 0
	for _, b := range m.Batches {
		if b.BaseOffset() < seg {
			before = b.BaseOffset()
			continue
		}
		if at < pos+len(b) {
			return b.BaseOffset(), before, at-pos < 17
		}
		before = b.BaseOffset()
		pos += len(b)
	}
	return m.End, before, false
}

// Two batches in a row that were moved by the same amount agree with each other; the
// gap in front of them gives them away.
func TestRemnantEndsAtTheGap(t *testing.T) {
	r, m := segmented(t)
	path := r.file(8, ".log")
	whole := r.read(path)
	second := len(m.Batches[0])
	for _, at := range []int{second, 2 * second} {
		whole = flipBit(whole, at+6, 0) // adds 256
	}
	r.overwrite(path, whole)
	c := r.damaged(log.StopProcess, 0)
	rem := r.remnant(c)
	if end := rem.View.End(); end != 9 {
		t.Errorf("readable to %d, want 9", end)
	}
	if err := below(rem, m); err != nil {
		t.Error(err)
	}
}

func flipBit(b []byte, at, bit int) []byte {
	c := append([]byte(nil), b...)
	c[at] ^= 1 << bit
	return c
}

// A note of damage that was found in use ends the remnant, whatever stop it is.
func TestRemnantBelowANote(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, seg := range []model.Offset{0, 8, 24} {
			r, m := segmented(t)
			size := int64(len(m.Batches[0]))
			r.must(log.NoteDamage(r.mem, &log.CorruptionError{Dir: testDir, Segment: seg, Pos: 2 * size, Offset: seg + 2, Err: errors.New("found")}))
			c := r.damaged(stop, 32)
			rem := r.remnant(c)
			if end := rem.View.End(); end != seg+2 || rem.LogEnd != 32 {
				t.Errorf("stop %s, segment %d: readable to %d of %d, want %d of 32", stop, seg, end, rem.LogEnd, seg+2)
			}
			if err := below(rem, m); err != nil {
				t.Error(err)
			}
		}
	}
}

// The epochs are the batches' where the file can't be believed, and what the file
// says of behind the damage where it can.
func TestRemnantEpochs(t *testing.T) {
	for _, keep := range []bool{true, false} {
		r, m := segmented(t)
		if !keep {
			r.must(r.mem.Remove(r.file(0, "")[:len(testDir)+1] + checkpoint.EpochFile))
		}
		path := r.file(8, ".log")
		r.overwrite(path, flip(r.read(path), 80))
		rem := r.remnant(r.damaged(log.StopProcess, 0))
		if err := below(rem, m); err != nil {
			t.Error(err)
		}
		want := model.LeaderEpoch(0)
		if keep {
			want = 3
		}
		if got := rem.Epochs().LatestEpoch(); got != want {
			t.Errorf("file kept %v: the latest epoch is %d, want %d", keep, got, want)
		}
	}
}

// A leader epoch that a disk has changed in front of the damage that is known, where it
// contradicts the epoch file, makes nothing wrong of what lies before: the remnant ends
// there, and where batches can't be told apart below that, there.
func TestRemnantOfAWrongEpoch(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopPower} {
		for _, seg := range []model.Offset{0, 8, 16} {
			for _, batch := range []int{0, 6} { // no other is compared with the file
				for _, value := range []byte{0, 1, 2, 3, 130} {
					for _, torn := range []bool{false, true} {
						r, m := segmented(t)
						r.must(r.l.Close(true))
						name := fmt.Sprintf("%s, batch %d of segment %d is of epoch %d, length lost below: %v", stop, batch, seg, value, torn)
						// Known is what the start comes to first.
						r.overwrite(r.file(24, ".log"), flip(r.read(r.file(24, ".log")), 8))
						b := r.read(r.file(seg, ".log"))
						at := places(b)[batch]
						if b[at+15] == value {
							continue
						}
						b[at+15] = value
						r.overwrite(r.file(seg, ".log"), b)
						most := seg + model.Offset(batch)
						if batch == 6 {
							most++ // the batch before has two records
						}
						least := max(0, most-2)
						if torn {
							// Where that is read too it ends there.
							b := r.read(r.file(0, ".log"))
							b[places(b)[2]+8] ^= 1
							r.overwrite(r.file(0, ".log"), b)
							least = min(least, 2)
						}
						rem := r.remnant(r.damaged(stop, 32))
						end := rem.View.End()
						if end < least || end > most {
							t.Errorf("%s: readable to %d, want %d to %d", name, end, least, most)
						}
						if err := below(rem, m); err != nil && (!torn || end <= 2) {
							t.Errorf("%s: %v", name, err)
						}
						rem.Close()
					}
				}
			}
		}
	}
}

// A wrong epoch file, and batches as they were written, end no remnant, whatever the file
// says of other segments.
func TestRemnantOfAWrongEpochFile(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopPower} {
		for _, entries := range [][]epoch.Entry{
			{{Epoch: 5}, {Epoch: 6, Start: 8}, {Epoch: 7, Start: 16}, {Epoch: 8, Start: 24}},
			{{Epoch: 0}, {Epoch: 1, Start: 9}, {Epoch: 2, Start: 16}, {Epoch: 3, Start: 24}},
			{{Epoch: 0}, {Epoch: 2, Start: 8}, {Epoch: 3, Start: 24}},
			{{Epoch: 0}, {Epoch: 2, Start: 16}, {Epoch: 9, Start: 17}},
		} {
			r, m := segmented(t)
			r.must(r.l.Close(true))
			r.must(checkpoint.WriteEpochs(r.mem, filepath.Join(testDir, checkpoint.EpochFile), entries))
			r.overwrite(r.file(24, ".log"), flip(r.read(r.file(24, ".log")), 8))
			rem := r.remnant(r.damaged(stop, 32))
			if end := rem.View.End(); end != 24 {
				t.Errorf("%s, %v: readable to %d, want 24", stop, entries, end)
			}
			if err := below(rem, m); err != nil {
				t.Errorf("%s, %v: %v", stop, entries, err)
			}
			rem.Close()
		}
	}
}

// A transaction whose end lies behind the damage keeps readers of committed records
// in front of it.
func TestRemnantStable(t *testing.T) {
	r, m := segmented(t)
	marker := 0
	for _, b := range m.Batches[:6] {
		marker += len(b)
	}
	path := r.file(0, ".log")
	r.overwrite(path, flip(r.read(path), marker+70))
	rem := r.remnant(r.damaged(log.StopProcess, 0))
	if rem.View.End() != 7 || rem.Stable != 5 {
		t.Errorf("readable to %d, stable to %d, want 7 and 5", rem.View.End(), rem.Stable)
	}
	if err := below(rem, m); err != nil {
		t.Error(err)
	}
}

// Damage below the log's start leaves nothing to read.
func TestRemnantBelowTheStart(t *testing.T) {
	r, _ := segmented(t)
	path := r.file(8, ".log")
	r.overwrite(path, flip(r.read(path), 80))
	c := r.damaged(log.StopProcess, 0)
	r.o.LogStart = 12
	if _, err := log.OpenRemnant(r.o, c, nil); err == nil {
		t.Error("there is something to read")
	}
}

// Bytes that make no sense are found by nobody to be batches.
func FuzzRemnant(f *testing.F) {
	r, _ := segmented(f)
	path := r.file(8, ".log")
	whole := r.read(path)
	f.Add(uint16(80), []byte{1})
	f.Add(uint16(6), []byte{1, 2, 3})
	f.Add(uint16(0), make([]byte, 200))
	base, o := r.mem, r.o
	f.Fuzz(func(t *testing.T, at uint16, change []byte) {
		r := &rig{TB: t, mem: base.Fork(), o: o}
		r.fs = r.mem
		b := append([]byte(nil), whole...)
		for i, x := range change {
			if k := int(at) + i; k < len(b) {
				b[k] ^= x
			}
		}
		r.overwrite(path, b)
		_, err := r.open(log.StopProcess, 0)
		var c *log.CorruptionError
		if !errors.As(err, &c) {
			return
		}
		rem, err := log.OpenRemnant(r.o, c, nil)
		if err != nil {
			t.Skip()
		}
		last := rem.View.Start()
		r.must(rem.View.Batches(last, nil, func(b record.Batch) error {
			if b.BaseOffset() < last || b.LastOffset() >= rem.View.End() {
				t.Errorf("batch [%d, %d] behind %d, in a remnant that ends at %d", b.BaseOffset(), b.LastOffset(), last, rem.View.End())
			}
			last = b.NextOffset()
			return b.CheckCRC()
		}))
	})
}
