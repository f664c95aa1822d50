package log_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// places are where the batches of a segment begin.
func places(b []byte) (at []int) {
	for pos := 0; pos < len(b); pos += int(record.SizeOf(b[pos:])) {
		at = append(at, pos)
	}
	return at
}

// The ends of segments that a start takes as they stand are compared with their
// neighbours, their indexes and their seals, in what no checksum covers. Each of these
// was served, or cut off as if a truncation had not been finished.
func TestEdgesOfSealedSegments(t *testing.T) {
	raise := func(b []byte, at int, by uint64) {
		binary.BigEndian.PutUint64(b[at:], binary.BigEndian.Uint64(b[at:])+by)
	}
	for name, harm := range map[string]struct { // order-free
		base model.Offset
		do   func(b []byte, at []int)
	}{
		"the epoch of the last batch is raised":          {8, func(b []byte, at []int) { b[at[len(at)-1]+13] = 1 }},
		"the epoch of the first batch is lowered":        {16, func(b []byte, at []int) { b[at[0]+15] = 0 }},
		"the epoch of the last batch is the next one's":  {8, func(b []byte, at []int) { b[at[len(at)-1]+15] = 2 }},
		"the epoch of the first batch is the last one's": {16, func(b []byte, at []int) { b[at[0]+15] = 1 }},
		"the last batch reaches into the next segment":   {8, func(b []byte, at []int) { raise(b, at[len(at)-1], 1) }},
		"the last batch repeats offsets":                 {8, func(b []byte, at []int) { raise(b, at[len(at)-1], ^uint64(2)) }},
		"the offset of the log's last batch is raised":   {24, func(b []byte, at []int) { raise(b, at[len(at)-1], 512) }},
		"the log's last batch is another":                {24, func(b []byte, at []int) { copy(b[at[len(at)-1]:], b[at[0]:at[1]]) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := segmented(t)
			r.must(r.l.Close(true))
			b := bytes.Clone(r.read(r.file(harm.base, ".log")))
			harm.do(b, places(b))
			r.rewrite(r.file(harm.base, ".log"), b)
			if c := r.damaged(log.StopClean, 32); c.Segment != harm.base && c.Segment != harm.base+8 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Earlier offsets behind the end of a segment are no cut that was not finished.
func TestNoCutLeavesEarlierOffsets(t *testing.T) {
	r, _ := segmented(t)
	path := r.file(16, ".log")
	b := r.read(path)
	at := places(b)
	k := len(at) - 1
	swapped := bytes.Join([][]byte{b[:at[1]], b[at[k]:], b[at[2]:at[k]], b[at[1]:at[2]]}, nil)
	r.rewrite(path, swapped)
	r.must(r.mem.Remove(r.file(16, ".seal")))
	r.rewrite(r.file(24, ".log"), nil)
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		if c := r.damaged(stop, 24); c.Segment != 16 || c.Offset != 24 {
			t.Errorf("%s: %+v", stop, c)
		}
	}
}

// A segment whose seal is left was there: what takes it away takes the seal first.
func TestSegmentIsGoneAndItsSealIsNot(t *testing.T) {
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, base := range []model.Offset{0, 24} {
			r, _ := segmented(t)
			r.must(r.l.Close(true))
			r.must(r.mem.Remove(r.file(base, ".log")))
			if c := r.damaged(stop, 32); c.Segment != base || c.Offset != base {
				t.Errorf("%s: %+v", stop, c)
			}
		}
	}
	// Power may take the name of a segment that was not durable, and leave its seal's.
	r, m := segmented(t)
	r.must(r.l.Close(true))
	r.must(r.mem.Remove(r.file(24, ".log")))
	m.Truncate(24)
	r.start(log.StopPower, 24)
	r.check(m)
	// Below the log's start it is missed by nobody.
	r, m = segmented(t)
	r.must(r.l.Close(true))
	r.must(r.mem.Remove(r.file(0, ".log")))
	r.o.LogStart = 8
	r.start(log.StopClean, 32)
	m.Raise(8)
	r.check(m)
}

// What an orderly stop has written down of the last segment still counts if the next
// process is killed before it writes anything.
func TestLastSegmentIsShorterThanAtTheStop(t *testing.T) {
	first, _ := segmented(t)
	first.must(first.l.Close(true))
	whole := first.read(first.file(24, ".log"))
	for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
		for _, cut := range append(places(whole), len(whole)-1) {
			r, _ := segmented(t)
			r.must(r.l.Close(true))
			r.rewrite(r.file(24, ".log"), whole[:cut])
			r.damaged(stop, 32)
		}
	}
	// Above the recovery point power may have taken it.
	r, m := segmented(t)
	r.must(r.l.Close(true))
	at := places(whole)
	r.rewrite(r.file(24, ".log"), whole[:at[len(at)-1]])
	m.Truncate(31)
	r.start(log.StopPower, 25)
	r.check(m)
}

// An orderly stop whose last sync failed, and the power that went with it, leave a seal
// that knows of more than there is. What comes later is not held against it, not even if
// the process that notices is killed at any of its calls.
func TestSealOfAStopThatFailed(t *testing.T) {
	for name, lost := range map[string]struct { // order-free
		durable model.Offset
		lose    func(b []byte, at []int) []byte
	}{
		"a batch":                {31, func(b []byte, at []int) []byte { return b[:at[6]] }},
		"two batches":            {29, func(b []byte, at []int) []byte { return b[:at[5]] }},
		"one of several unsaved": {27, func(b []byte, at []int) []byte { return b[:at[5]] }},
		"all":                    {24, func([]byte, []int) []byte { return nil }},
		"the right offset":       {24, func(b []byte, at []int) []byte { b[at[6]+6] ^= 1; return b }},
	} {
		first, _ := segmented(t)
		first.must(first.l.Close(true))
		first.o.Config.SegmentBytes = 1 << 20 // it is written on
		b := bytes.Clone(first.read(first.file(24, ".log")))
		first.rewrite(first.file(24, ".log"), lost.lose(b, places(b)))
		var forks []*memfs.FS
		first.fs = faultfs.Wrap(first.mem, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(faultfs.Op) { forks = append(forks, first.mem.Fork()) })))
		first.start(log.StopPower, lost.durable)
		end := first.l.LogEnd()
		if len(forks) < 4 {
			t.Fatalf("%s: only %d calls", name, len(forks))
		}
		for k, fork := range append(forks, first.mem) {
			r := &rig{TB: t, mem: fork, fs: fork, o: first.o}
			open := func(after string, stop log.Stop, rp model.Offset) {
				t.Helper()
				if _, err := r.open(stop, rp); err != nil || r.l.LogEnd() != end {
					t.Fatalf("%s is lost, killed at call %d of %d, %s: %v", name, k, len(forks), after, err)
				}
			}
			r.kill()
			stop := log.StopPower // as long as no process has opened it
			if k == len(forks) {
				stop = log.StopProcess
			}
			open("at once", stop, lost.durable)
			r.kill()
			open("killed again", log.StopProcess, lost.durable)
			// What is written next takes fewer bytes for more records.
			r.append(logtest.Batch(logtest.Spec{Base: end, Epoch: 3, Records: 4}))
			end += 4
			r.flush()
			rp := r.l.RecoveryPoint()
			r.mem = r.mem.CrashClone(memfs.Crash{})
			r.fs = r.mem
			open("written on, without power", log.StopPower, rp)
			r.kill()
			open("written on, killed", log.StopProcess, rp)
			end -= 4
		}
	}
}

// A recovery point is where a batch ends. In a log without gaps a batch that begins
// behind it, though the one before ends below it, was moved there.
func TestRecoveryPointInAGap(t *testing.T) {
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		for _, by := range []byte{1, 2, 200, 0} {
			dense := by > 0
			r := newRig(t)
			r.o.Dense = dense
			r.start(log.StopClean, 0)
			r.append(logtest.Batches(0, 3, 1))
			r.append(logtest.Batch(logtest.Spec{Base: 3, Epoch: 1, Records: 2}))
			r.must(r.l.Close(false))
			b := r.read(r.file(0, ".log"))
			b[places(b)[3]+7] += by
			r.rewrite(r.file(0, ".log"), b)
			if !dense {
				r.start(stop, 5)
				b[places(b)[3]+7] += 9
				r.rewrite(r.file(0, ".log"), b)
				r.start(stop, 5) // compaction may have made the gap
				continue
			}
			if c := r.damaged(stop, 5); c.Offset != 3 || !c.BelowRecoveryPoint {
				t.Errorf("%s: %+v", stop, c)
			}
			if stop == log.StopPower {
				r.start(stop, 3) // nothing says where it was
			}
		}
	}
}

// A batch that lies beyond the recovery point by its base offset alone is damage also at
// the start of a segment, behind others or alone in it, and makes no crash tail of the
// damage behind it.
func TestLeapOverTheRecoveryPoint(t *testing.T) {
	for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
		r := newRig(t)
		r.o.Dense = true
		r.start(log.StopClean, 0)
		r.append(logtest.Batches(0, 4, 1))
		r.must(r.l.Close(false))
		b := r.read(r.file(0, ".log"))
		at := places(b)
		b[at[0]+4] = 1 << 5   // the base offset of the first
		b[at[1]+8] = 1 << 6   // the length of the second
		b = b[:at[3]+20]      // and the end is torn, so that nothing whole is behind it
		b[at[2]+30] ^= 1 << 1 // nor in front
		r.rewrite(r.file(0, ".log"), b)
		if c := r.damaged(stop, 3); c.Segment != 0 || c.Pos != 0 {
			t.Errorf("%s: %+v", stop, c)
		}
		b = b[:at[1]]
		r.rewrite(r.file(0, ".log"), b)
		if c := r.damaged(stop, 1); c.Segment != 0 || c.Pos != 0 || !c.BelowRecoveryPoint {
			t.Errorf("%s, alone: %+v", stop, c)
		}
	}
}

// Inside a segment the epoch file tells of an epoch that lies between those of the
// neighbours, and nobody is given a batch of an epoch below none.
func TestFlippedEpochInside(t *testing.T) {
	for _, epoch := range []uint32{2, 1 << 31} {
		r := newRig(t)
		r.start(log.StopClean, 0)
		set := logtest.Batches(0, 4, 1)
		r.append(append(set, logtest.Batches(4, 4, 3)...))
		r.must(r.l.Close(true))
		b := r.read(r.file(0, ".log"))
		binary.BigEndian.PutUint32(b[places(b)[3]+12:], epoch)
		r.rewrite(r.file(0, ".log"), b)
		if _, err := r.open(log.StopClean, 8); err != nil {
			continue // better
		}
		region, err := r.l.View().Read(3, 8, 1<<20, true)
		if err == nil {
			t.Errorf("epoch %d: a reader is given %d bytes from %d", epoch, region.Len(), region.Start())
			region.Release()
		}
		if err := r.l.View().VerifySegment(3, r.l.Epochs(), model.NoEpoch); err == nil {
			t.Errorf("epoch %d: the segment is sound", epoch)
		}
	}
}

// Where the epoch file can't be believed, batches that contradict each other are
// damage, not a reason to believe the later.
func TestRebuiltEpochsDoNotFall(t *testing.T) {
	r, _ := segmented(t)
	r.must(r.l.Close(true))
	b := r.read(r.file(8, ".log"))
	b[places(b)[1]+14] = 1 // epoch 257 among those of epoch 1
	r.rewrite(r.file(8, ".log"), b)
	r.must(r.mem.Remove(fmt.Sprint(testDir, "/leader-epoch-checkpoint")))
	if c := r.damaged(log.StopClean, 32); c.Segment != 8 {
		t.Errorf("%+v", c)
	}
}

// The output of a compaction takes the place of its sources only if it is whole: it was
// synced before it got the name by which it counts.
func TestDamagedOutputReplacesNothing(t *testing.T) {
	for _, harm := range []func(b []byte) []byte{
		func(b []byte) []byte { return flip(b, 70) },
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return append(b, make([]byte, 100)...) },
		func(b []byte) []byte { return append(bytes.Clone(b), b...) },
	} {
		for _, stop := range []log.Stop{log.StopProcess, log.StopPower} {
			r, _ := segmented(t)
			r.rewrite(r.file(8, ".log.swap"), harm(bytes.Clone(r.read(r.file(8, ".log")))))
			r.must(r.mem.Remove(r.file(8, ".seal")))
			if c := r.damaged(stop, 32); c.Segment != 8 {
				t.Errorf("%s: %+v", stop, c)
			}
		}
	}
}
