package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// validPrefix is what a reader that shares nothing with the log accepts of a
// segment at base 0.
func validPrefix(b []byte) (prefix []byte, end model.Offset) {
	it := record.NewIter(b)
	epoch := model.NoEpoch
	for it.Next() {
		x := it.Batch()
		if x.CheckCRC() != nil || x.BaseOffset() < end || x.LastOffset() > 1<<31-1 || x.LeaderEpoch() >= 0 && x.LeaderEpoch() < epoch {
			break
		}
		epoch = max(epoch, x.LeaderEpoch())
		end = x.NextOffset()
		prefix = b[:it.Pos()+len(x)]
	}
	return prefix, end
}

// Whatever a segment holds, opening it after a loss of power keeps exactly the
// valid prefix; doing so again changes nothing; after a stop of the process the
// result is the same or damage.
func FuzzSegment(f *testing.F) {
	whole := logtest.Batches(0, 3, 2)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(bytes.Clone(whole), make([]byte, 100)...))
	f.Add(append(make([]byte, 70), whole...))
	f.Add(append(bytes.Clone(whole), whole...))
	for i := 0; i < record.HeaderSize; i += 3 {
		f.Add(flip(whole, len(whole)/3+i))
	}
	f.Add([]byte(logtest.Batch(logtest.Spec{Producer: 3, Txn: true, Marker: "abort"})))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t)
		r.rewrite(r.file(0, ".log"), data)
		prefix, end := validPrefix(data)
		for range 2 {
			r.start(log.StopPower, 0)
			if r.l.LogEnd() != end {
				t.Fatalf("log ends at %d, want %d", r.l.LogEnd(), end)
			}
			var got []byte
			r.must(r.l.View().Batches(r.l.LogStart(), nil, func(b record.Batch) error { got = append(got, b...); return nil }))
			if !bytes.Equal(got, prefix) {
				t.Fatalf("%d bytes, want %d", len(got), len(prefix))
			}
			r.kill()
		}
		r = newRig(t)
		r.rewrite(r.file(0, ".log"), data)
		_, err := r.open(log.StopProcess, 0)
		var damage *log.CorruptionError
		if err != nil && !errors.As(err, &damage) {
			t.Fatal(err)
		}
		if err == nil && r.l.LogEnd() != end {
			t.Fatalf("after a stop of the process the log ends at %d, want %d", r.l.LogEnd(), end)
		}
		_, _ = r.open(log.StopClean, 0) // must not panic, whatever it believes
	})
}

// Whatever stands in the files beside a sealed segment, answers are those of a
// scan.
func FuzzSideFiles(f *testing.F) {
	kinds := []string{".index", ".timeindex", ".txnindex", ".seal", ".snapshot"}
	for i := range kinds {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), bytes.Repeat([]byte{0}, 68))
		f.Add(uint8(i), []byte{0, 0, 0, 1, 0, 0, 0, 74, 0, 0, 0, 2, 0, 0, 0, 148})
	}
	r, m := segmented(f)
	r.must(r.l.Close(true))
	closed := r.mem.Fork()
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		r := &rig{TB: t, mem: closed.Fork(), o: r.o}
		r.fs = r.mem
		suffix := kinds[int(kind)%len(kinds)]
		r.rewrite(r.file(8, suffix), data)
		r.rewrite(r.file(24, suffix), data)
		_, err := r.open(log.StopClean, 32)
		var damage *log.CorruptionError
		if errors.As(err, &damage) && suffix == ".seal" {
			return // a seal with a right digest was made up
		}
		r.must(err)
		if err := logtest.Check(r.l, m); err != nil {
			t.Fatal(err)
		}
	})
}

// The directory as a whole: any one file may be replaced by anything.
func FuzzAnyFile(f *testing.F) {
	r, _ := segmented(f)
	r.must(r.l.Close(true))
	closed := r.mem.Fork()
	names, err := closed.List(testDir)
	r.must(err)
	f.Add(uint8(0), uint8(0), []byte("0\n1\n0 0\n"))
	f.Add(uint8(3), uint8(1), bytes.Repeat([]byte{2}, 80))
	f.Fuzz(func(t *testing.T, which, stop uint8, data []byte) {
		r := &rig{TB: t, mem: closed.Fork(), o: r.o}
		r.fs = r.mem
		r.rewrite(fmt.Sprintf("%s/%s", testDir, names[int(which)%len(names)]), data)
		if _, err := r.open(log.Stop(stop%3), 20); err != nil {
			return
		}
		end := r.l.LogEnd()
		if _, err := r.l.Append(model.Now{}, logtest.Batches(end, 1, 99)); err != nil {
			t.Fatal(err)
		}
		r.mem = r.mem.KillClone(memfs.Kill{})
		r.fs = r.mem
		if _, err := r.open(log.StopProcess, 0); err == nil && r.l.LogEnd() != end+1 {
			t.Fatalf("log ends at %d, want %d", r.l.LogEnd(), end+1)
		}
	})
}
