package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// thin is a compaction for tests: of three batches one stays, one goes, one
// becomes a header.
func thin(dst []byte, b record.Batch) []byte {
	switch b.BaseOffset() % 3 {
	case 0:
		return append(dst, b...)
	case 1:
		return record.AppendEmpty(dst, b)
	}
	return dst
}

// gone removes everything.
func gone(dst []byte, _ record.Batch) []byte { return dst }

// rewrite writes what is left of n segments from base on.
func rewrite(l *log.Log, base model.Offset, n int, left func(dst []byte, b record.Batch) []byte) (*log.Rewrite, error) {
	r, err := l.View().StartRewrite(base, n, 300)
	if err != nil {
		return nil, err
	}
	err = r.Batches(nil, func(b record.Batch) error {
		return r.Append(func(dst []byte) ([]byte, error) { return left(dst, b), nil })
	})
	if err == nil {
		err = r.Finish(nil)
	}
	if err != nil {
		r.Abandon()
		return nil, err
	}
	return r, nil
}

// compact puts what is left in place, and unlinks the rest.
func compact(l *log.Log, base model.Offset, n int, left func(dst []byte, b record.Batch) []byte) error {
	r, err := rewrite(l, base, n, left)
	if err != nil {
		return err
	}
	s, err := l.StartSwap(r)
	if err != nil {
		r.Abandon()
		return err
	}
	if err := l.FinishSwap(s, s.Run()); err != nil {
		return err
	}
	_, err = s.Unlink()
	return err
}

// thinned is a model after thin of all batches below to.
func thinned(m *logtest.Model, to model.Offset, left func(dst []byte, b record.Batch) []byte) *logtest.Model {
	c := &logtest.Model{Start: m.Start, End: m.End}
	for _, b := range m.Batches {
		if b.BaseOffset() < to {
			b = left(nil, b)
		}
		if b != nil {
			c.Batches = append(c.Batches, b)
		}
	}
	return c
}

// long is a rig with a log of about ten segments, flushed, and its model.
func long(t testing.TB) (*rig, *logtest.Model) {
	r := newRig(t)
	r.o.Config.SegmentBytes = 400
	r.o.Config.IndexIntervalBytes = 100
	r.start(log.StopClean, 0)
	m := &logtest.Model{}
	for i := range 30 {
		b := logtest.Batch(logtest.Spec{
			Base: m.End, Epoch: model.LeaderEpoch(i / 7), Records: 1 + i%3, Timestamp: model.Timestamp(1000 + 10*i), Step: 3,
		})
		r.append(b)
		m.Append(b)
	}
	r.flush()
	if n := len(r.l.View().Segments()); n < 8 {
		t.Fatalf("only %d segments", n)
	}
	return r, m
}

// segmentFiles names the files of segments, without their digits' zeros.
func (r *rig) segmentFiles() string {
	names, err := r.mem.List(testDir)
	r.must(err)
	var found []string
	for _, name := range names {
		if strings.Contains(name, ".log") {
			found = append(found, strings.TrimLeft(name[:19], "0")+name[19:])
		}
	}
	return strings.Join(found, " ")
}

func TestSwapReplacesSegments(t *testing.T) {
	for name, left := range map[string]func([]byte, record.Batch) []byte{"thin": thin, "gone": gone} {
		for _, stop := range []log.Stop{log.StopClean, log.StopProcess, log.StopPower} {
			t.Run(fmt.Sprint(name, " ", stop), func(t *testing.T) {
				r, m := long(t)
				old := r.l.View()
				region, err := old.Read(0, m.End, 100, true)
				r.must(err)
				segments := old.Segments()
				to := segments[6].Base
				r.must(compact(r.l, 0, 3, left))
				r.must(compact(r.l, segments[3].Base, 3, left))
				after := thinned(m, to, left)
				r.check(after)
				if got := r.l.View().Segments(); len(got) != len(segments)-4 || got[1].Base != segments[3].Base || got[2].Base != to {
					t.Fatalf("segments %v", got)
				}
				// Who had a region reads on.
				b := make([]byte, region.Len())
				if _, err := region.ReadAt(b, 0); err != nil || !bytes.HasPrefix(m.Bytes(0, m.End), b) {
					t.Fatalf("%v, %d bytes", err, len(b))
				}
				region.Release()
				more := logtest.Batches(m.End, 3, 9)
				r.append(more)
				after.Append(more)
				r.flush()
				rp := r.l.RecoveryPoint()
				if stop == log.StopClean {
					r.must(r.l.Close(true))
					r.must(logtest.CheckDir(r.mem, testDir))
				}
				rep, err := r.open(stop, rp)
				r.must(err)
				if len(rep.Removed) > 0 || stop != log.StopPower && len(rep.Rebuilt) > 0 {
					t.Errorf("the start found %+v", rep)
				}
				r.check(after)
			})
		}
	}
}

// A segment that compaction has emptied and others are compacted again.
func TestSwapAgainAndAgain(t *testing.T) {
	r, m := long(t)
	all := len(r.l.View().Segments()) - 1
	to := r.l.View().Segments()[all].Base
	r.must(compact(r.l, 0, 2, gone))
	for n := all - 1; n > 1; n-- {
		segments := r.l.View().Segments()
		r.must(compact(r.l, segments[n-1].Base, 1, thin))
	}
	segments := r.l.View().Segments()
	r.must(compact(r.l, 0, len(segments)-1, func(dst []byte, b record.Batch) []byte { return append(dst, b...) }))
	if got := len(r.l.View().Segments()); got != 2 {
		t.Fatalf("%d segments", got)
	}
	after := thinned(m, to, thin)
	for len(after.Batches) > 0 && after.Batches[0].BaseOffset() < segments[1].Base {
		after.Batches = after.Batches[1:]
	}
	r.check(after)
	r.must(r.l.Close(true))
	r.start(log.StopClean, 0)
	r.check(after)
}

// A rewrite of segments that are no longer what they were is not put in place.
func TestSwapOfStaleSegments(t *testing.T) {
	for name, change := range map[string]func(r *rig, m *logtest.Model) error{
		"cut inside": func(r *rig, m *logtest.Model) error {
			to := r.l.View().Segments()[2].Base + 1
			_, err := r.l.Truncate(to)
			m.Truncate(to)
			return err
		},
		"cut at the end": func(r *rig, m *logtest.Model) error {
			to := r.l.View().Segments()[3].Base - 1
			_, err := r.l.Truncate(to)
			m.Truncate(to)
			return err
		},
		"emptied": func(r *rig, m *logtest.Model) error {
			_, err := r.l.TruncateFullyAndStartAt(2)
			m.StartAt(2)
			return err
		},
		"start dropped": func(r *rig, m *logtest.Model) error {
			if err := r.l.IncrementLogStart(r.l.View().Segments()[1].Base); err != nil {
				return err
			}
			m.Raise(r.l.LogStart())
			_, _, err := r.l.DropBelow()
			return err
		},
		"compacted by another": func(r *rig, m *logtest.Model) error {
			return compact(r.l, 0, 2, func(dst []byte, b record.Batch) []byte { return append(dst, b...) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := long(t)
			w, err := rewrite(r.l, 0, 3, thin)
			r.must(err)
			r.must(change(r, m))
			if _, err := r.l.StartSwap(w); !errors.Is(err, log.ErrStaleView) {
				t.Fatalf("%v, want a stale view", err)
			}
			w.Abandon()
			if got := r.segmentFiles(); strings.Contains(got, ".cleaned") {
				t.Errorf("left behind: %s", got)
			}
			r.check(m)
		})
	}
}

// One that changes elsewhere doesn't matter.
func TestSwapBesideOtherChanges(t *testing.T) {
	r, m := long(t)
	w, err := rewrite(r.l, 0, 3, thin)
	r.must(err)
	to := r.l.View().Segments()[6].Base - 1
	_, err = r.l.Truncate(to)
	r.must(err)
	m.Truncate(to)
	more := logtest.Batches(m.End, 5, 9)
	r.append(more)
	m.Append(more)
	end := r.l.View().Segments()[3].Base
	s, err := r.l.StartSwap(w)
	r.must(err)
	if _, err := r.l.StartSwap(w); !errors.Is(err, log.ErrBusy) {
		t.Fatalf("a second swap: %v", err)
	}
	// A cut completes what is under way first.
	_, err = r.l.Truncate(m.End - 1)
	r.must(err)
	m.Truncate(m.End - 1)
	if got := r.segmentFiles(); strings.Contains(got, ".cleaned") || strings.Contains(got, ".swap") {
		t.Fatalf("files: %s", got)
	}
	r.must(r.l.FinishSwap(s, s.Run()))
	r.check(thinned(m, end, thin))
}

// A log that is closed before the swap has begun is as it was.
func TestCloseBeforeSwap(t *testing.T) {
	for _, clean := range []bool{true, false} {
		r, m := long(t)
		w, err := rewrite(r.l, 0, 3, thin)
		r.must(err)
		s, err := r.l.StartSwap(w)
		r.must(err)
		r.must(r.l.Close(clean))
		r.must(s.Run())
		stop, rp := log.StopClean, m.End
		if !clean {
			stop = log.StopPower
		}
		_, err = r.open(stop, rp)
		r.must(err)
		r.check(m)
		if got := r.segmentFiles(); strings.Contains(got, ".cleaned") || strings.Contains(got, ".swap") {
			t.Errorf("files: %s", got)
		}
	}
}

// swapPoint is the disk in front of one call of a compaction.
type swapPoint struct {
	op   faultfs.Op
	disk *memfs.FS
}

// compactAll compacts the log in three swaps.
func compactAll(r *rig) error {
	segments := r.l.View().Segments()
	for i := 0; i < 6; i += 2 {
		left := thin
		if i == 2 {
			left = gone
		}
		if err := compact(r.l, segments[i].Base, 2, left); err != nil {
			return err
		}
	}
	return nil
}

// mixture reports whether the log holds, for each pair of segments, what was or
// what is left of it, or of one of the two what was.
func mixture(l *log.Log, m *logtest.Model, bases []model.Offset) error {
	if l.LogStart() != m.Start || l.LogEnd() != m.End {
		return fmt.Errorf("log [%d, %d), want [%d, %d)", l.LogStart(), l.LogEnd(), m.Start, m.End)
	}
	have := make(map[model.Offset]record.Batch)
	next := model.Offset(0)
	err := l.View().Batches(0, nil, func(b record.Batch) error {
		if b.BaseOffset() < next {
			return fmt.Errorf("batch at %d after %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		have[b.BaseOffset()] = bytes.Clone(b)
		return b.CheckCRC()
	})
	if err != nil {
		return err
	}
	for _, b := range m.Batches {
		got := have[b.BaseOffset()]
		delete(have, b.BaseOffset())
		left := []byte(b)
		switch {
		case b.BaseOffset() >= bases[6]:
		case b.BaseOffset() >= bases[2] && b.BaseOffset() < bases[4]:
			left = gone(nil, b)
		default:
			left = thin(nil, b)
		}
		if !bytes.Equal(got, b) && !bytes.Equal(got, left) {
			return fmt.Errorf("batch [%d, %d] has %d bytes, had %d, is to have %d", b.BaseOffset(), b.LastOffset(), len(got), len(b), len(left))
		}
	}
	if len(have) > 0 {
		return fmt.Errorf("%d batches of nobody", len(have))
	}
	if got, want := l.Epochs().Entries(), m.Epochs(); fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("epochs %v, want %v", got, want)
	}
	return nil
}

// Every call of a compaction may be the last one.
func TestCrashAtEveryCallOfASwap(t *testing.T) {
	if err := crashInSwaps(t); err != nil {
		t.Fatal(err)
	}
}

func crashInSwaps(t testing.TB) error {
	r, m := long(t)
	var bases []model.Offset
	for _, s := range r.l.View().Segments() {
		bases = append(bases, s.Base)
	}
	r.must(r.l.Close(true))
	var points []swapPoint
	mem := r.mem
	r.fs = faultfs.Wrap(mem, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(op faultfs.Op) {
		points = append(points, swapPoint{op, mem.Fork()})
	})))
	r.start(log.StopProcess, m.End)
	if err := compactAll(r); err != nil {
		return err
	}
	if len(points) < 60 {
		return fmt.Errorf("only %d calls", len(points))
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for n, p := range points {
		for name, disk := range map[string]*memfs.FS{ // order-free
			"kill":     p.disk.KillClone(memfs.Kill{}),
			"power 0":  p.disk.CrashClone(memfs.Crash{}),
			"power 50": p.disk.CrashClone(memfs.Crash{UnsyncedPct: 50, Torn: true, Rand: draw}),
			"power 90": p.disk.CrashClone(memfs.Crash{UnsyncedPct: 90, Torn: true, Rand: draw}),
		} {
			stop := log.StopPower
			if name == "kill" {
				stop = log.StopProcess
			}
			at := &rig{TB: t, mem: disk, fs: disk, o: r.o}
			for range 2 {
				if _, err := at.open(stop, m.End); err != nil {
					return fmt.Errorf("%s in front of call %d, %s: %w", name, n, p.op, err)
				}
				if err := mixture(at.l, m, bases); err != nil {
					return fmt.Errorf("%s in front of call %d, %s: %w", name, n, p.op, err)
				}
				at.mem = at.mem.KillClone(memfs.Kill{})
				at.fs = at.mem
				stop = log.StopProcess
			}
		}
	}
	return nil
}

// A start that finishes a swap may itself be interrupted.
func TestCrashWhileASwapIsFinished(t *testing.T) {
	r, m := long(t)
	bases := []model.Offset{}
	for _, s := range r.l.View().Segments() {
		bases = append(bases, s.Base)
	}
	w, err := rewrite(r.l, 0, 2, thin)
	r.must(err)
	s, err := r.l.StartSwap(w)
	r.must(err)
	mem := r.mem
	// The death comes once the new name counts and one of the sources is gone.
	r.must(s.Run())
	live, dead := filepath.Join(testDir, fmt.Sprintf("%020d.log", 0)), filepath.Join(testDir, fmt.Sprintf("%020d.log.deleted", bases[1]))
	r.must(mem.Rename(live, live+".swap"))
	r.must(mem.Rename(dead, strings.TrimSuffix(dead, ".deleted")))
	r.must(mem.SyncDir(testDir))
	var forks []*memfs.FS
	disk := mem.KillClone(memfs.Kill{})
	fs := faultfs.Wrap(disk, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(faultfs.Op) { forks = append(forks, disk.Fork()) })))
	at := &rig{TB: t, mem: disk, fs: fs, o: r.o}
	_, err = at.open(log.StopProcess, m.End)
	r.must(err)
	r.must(mixture(at.l, m, bases))
	if len(forks) < 4 {
		t.Fatalf("only %d calls", len(forks))
	}
	for k, fork := range forks {
		for _, disk := range []*memfs.FS{
			fork.KillClone(memfs.Kill{}), fork.CrashClone(memfs.Crash{}),
			fork.CrashClone(memfs.Crash{UnsyncedPct: 50, Rand: rand.New(rand.NewPCG(uint64(k), 1))}),
		} {
			at := &rig{TB: t, mem: disk, fs: disk, o: r.o}
			if _, err := at.open(log.StopPower, m.End); err != nil {
				t.Fatalf("in front of call %d: %v", k, err)
			}
			if err := mixture(at.l, m, bases); err != nil {
				t.Fatalf("in front of call %d: %v", k, err)
			}
		}
	}
}

// Every call of a compaction may fail. Before the swap that leaves the log as it
// was; in it the log is given up. Either way the next start finds all of it.
func TestFaultAtEveryCallOfASwap(t *testing.T) {
	for _, fault := range []*faultfs.Fault{faultfs.EIO(), faultfs.ENOSPC(5), faultfs.FsyncFails()} {
		for n := int64(1); ; n++ {
			r, m := long(t)
			var bases []model.Offset
			for _, s := range r.l.View().Segments() {
				bases = append(bases, s.Base)
			}
			r.must(r.l.Close(true))
			r.start(log.StopClean, m.End)
			r.must(r.l.Close(false))
			var hit *faultfs.Op
			r.fs = faultfs.Wrap(r.mem, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.NthOp(n+20), spy(&hit)), fault))
			if _, err := r.open(log.StopClean, m.End); err != nil {
				continue
			}
			err := compactAll(r)
			if hit == nil {
				if n < 40 {
					t.Fatalf("only %d calls", n)
				}
				break
			}
			if err != nil && r.l.Err() == nil {
				if err := mixture(r.l, m, bases); err != nil {
					t.Fatalf("%s at call %d, %s: %v", fault, n, hit, err)
				}
			}
			disk := r.mem.CrashClone(memfs.Crash{})
			at := &rig{TB: t, mem: disk, fs: disk, o: r.o}
			if _, err := at.open(log.StopPower, m.End); err != nil {
				t.Fatalf("%s at call %d, %s: %v", fault, n, hit, err)
			}
			if err := mixture(at.l, m, bases); err != nil {
				t.Fatalf("%s at call %d, %s: %v", fault, n, hit, err)
			}
		}
	}
}

// Damage is not rewritten: it is told, and the log stays as it is.
func TestDamageIsNotCompacted(t *testing.T) {
	if err := damagedRewrite(t); err != nil {
		t.Fatal(err)
	}
}

func damagedRewrite(t testing.TB) error {
	r, m := long(t)
	// In place: the log has the file open.
	f, err := r.mem.OpenFile(r.file(r.l.View().Segments()[1].Base, ".log"), os.O_RDWR, 0)
	r.must(err)
	_, err = f.WriteAt([]byte{0xa5}, 70)
	r.must(err)
	_, err = rewrite(r.l, 0, 3, thin)
	var c *log.CorruptionError
	if !errors.As(err, &c) {
		return fmt.Errorf("rewriting a damaged segment: %v", err)
	}
	if c.Segment != r.l.View().Segments()[1].Base {
		return fmt.Errorf("damage in segment %d", c.Segment)
	}
	err = r.l.View().CheckedBatches(0, m.End, nil, func(model.Offset) {}, func(record.Batch) error { return nil })
	if !errors.As(err, &c) {
		return fmt.Errorf("walking a damaged segment: %v", err)
	}
	if got := r.segmentFiles(); strings.Contains(got, ".cleaned") {
		return fmt.Errorf("left behind: %s", got)
	}
	return nil
}

// Readers run while segments are swapped: they see what was or what is left.
func TestReadersDuringSwaps(t *testing.T) {
	r, m := long(t)
	all := make(map[model.Offset][2][]byte)
	for _, b := range m.Batches {
		all[b.BaseOffset()] = [2][]byte{b, thin(nil, b)}
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(n), 9))
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := r.l.View()
				region, err := v.Read(model.Offset(draw.IntN(int(m.End))), m.End, 200, true)
				if errors.Is(err, log.ErrStaleView) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, region.Len())
				_, err = region.ReadAt(b, 0)
				region.Release()
				if err != nil {
					t.Error(err)
					return
				}
				it := record.NewIter(b)
				for it.Next() {
					got := it.Batch()
					if w := all[got.BaseOffset()]; !bytes.Equal(got, w[0]) && !bytes.Equal(got, w[1]) {
						t.Errorf("batch at %d is neither what it was nor what is left", got.BaseOffset())
						return
					}
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)
	for range 30 {
		segments := r.l.View().Segments()
		for i := range len(segments) - 1 {
			r.must(compact(r.l, segments[i].Base, 1, thin))
		}
	}
}
