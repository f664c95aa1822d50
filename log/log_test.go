package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

func TestDirNames(t *testing.T) {
	long := strings.Repeat("x", 249)
	unique := strings.Repeat("0a", 16)
	for _, c := range []struct {
		name   string
		tp     model.TopicPartition
		suffix string
		ok     bool
	}{
		{"t-0", model.TopicPartition{Topic: "t"}, "", true},
		{"a-b.c_d-12", model.TopicPartition{Topic: "a-b.c_d", Partition: 12}, "", true},
		{"a.b-3." + unique + "-delete", model.TopicPartition{Topic: "a.b", Partition: 3}, log.DeleteDirSuffix, true},
		{"t-3." + unique + "-stray", model.TopicPartition{Topic: "t", Partition: 3}, log.StrayDirSuffix, true},
		{"t-3." + unique + "-future", model.TopicPartition{Topic: "t", Partition: 3}, log.FutureDirSuffix, true},
		{"my-delete-0", model.TopicPartition{Topic: "my-delete"}, "", true},
		{"t", model.TopicPartition{}, "", false},
		{"t-", model.TopicPartition{}, "", false},
		{"-0", model.TopicPartition{}, "", false},
		{"t-01", model.TopicPartition{}, "", false},
		{"t--1", model.TopicPartition{Topic: "t-", Partition: 1}, "", true},
		{"t-99999999999", model.TopicPartition{}, "", false},
	} {
		tp, suffix, ok := log.ParseDirName(c.name)
		if ok != c.ok || ok && (tp != c.tp || suffix != c.suffix) {
			t.Errorf("%s: %v %q %v, want %v %q %v", c.name, tp, suffix, ok, c.tp, c.suffix, c.ok)
		}
	}
	name := log.RetiredDirName(model.TopicPartition{Topic: long, Partition: 7}, unique, log.DeleteDirSuffix)
	if len(name) != 255 || !strings.HasSuffix(name, "-7."+unique+"-delete") {
		t.Errorf("%q has %d characters", name, len(name))
	}
	if tp, _, ok := log.ParseDirName(name); !ok || tp.Partition != 7 || !strings.HasPrefix(long, tp.Topic) {
		t.Errorf("%q reads as %v %v", name, tp, ok)
	}
}

// The five reasons to begin a segment, each on its own, and that an empty
// segment is left by the last alone.
func TestRollRules(t *testing.T) {
	one := func(base model.Offset, ts model.Timestamp) []byte {
		return logtest.Batch(logtest.Spec{Base: base, Timestamp: ts})
	}
	size := int32(len(one(0, 1)))
	for _, c := range []struct {
		name   string
		config log.Config
		sets   [][]byte
		wall   []model.Timestamp
		rolled []bool
	}{
		{"size", log.Config{SegmentBytes: 2 * size}, [][]byte{one(0, 1), one(1, 1), one(2, 1)}, nil, []bool{false, false, true}},
		{"larger than a segment", log.Config{SegmentBytes: size - 1}, [][]byte{one(0, 1), one(1, 1)}, nil, []bool{false, true}},
		{"timestamps", log.Config{SegmentMs: 100}, [][]byte{one(0, 50), one(1, 150), one(2, 151)}, nil, []bool{false, false, true}},
		{"timestamps, not the clock", log.Config{SegmentMs: 100}, [][]byte{one(0, 50), one(1, 60)}, []model.Timestamp{0, 9999}, []bool{false, false}},
		{"clock where timestamps lack", log.Config{SegmentMs: 100}, [][]byte{one(0, -1), one(1, -1), one(2, -1)}, []model.Timestamp{0, 100, 101}, []bool{false, false, true}},
		{"offset index full", log.Config{IndexBytes: 24}, [][]byte{one(0, -1), one(1, -1), one(2, -1), one(3, -1), one(4, -1)}, nil, []bool{false, false, false, false, true}},
		{"time index full", log.Config{IndexBytes: 36}, [][]byte{one(0, 1), one(1, 2), one(2, 3), one(3, 4)}, nil, []bool{false, false, false, true}},
		{"offset too far", log.Config{}, [][]byte{one(0, 1), one(1<<31-1, 1), one(1<<31, 1)}, nil, []bool{false, false, true}},
		{"empty and too far", log.Config{}, [][]byte{one(1<<31, 1)}, nil, []bool{true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.o.Config = c.config
			r.start(log.StopClean, 0)
			for i, set := range c.sets {
				now := model.Now{}
				if c.wall != nil {
					now.Wall = c.wall[i]
				}
				info, err := r.l.Append(now, set)
				r.must(err)
				if info.Rolled != c.rolled[i] {
					t.Errorf("append %d: rolled %v, want %v", i, info.Rolled, c.rolled[i])
				}
			}
			r.must(r.l.Close(true))
			r.must(logtest.CheckDir(r.mem, testDir))
		})
	}
}

// The jitter shortens segment.ms, by another amount for each segment.
func TestRollJitter(t *testing.T) {
	r := newRig(t)
	r.o.Config = log.Config{SegmentMs: 1000, SegmentJitterMs: 500}
	r.o.Rand = rand.New(rand.NewPCG(1, 1))
	r.start(log.StopClean, 0)
	ages := map[model.Timestamp]bool{}
	first := model.Timestamp(0)
	for ts := model.Timestamp(0); ts < 8000; ts += 5 {
		info, err := r.l.Append(model.Now{}, logtest.Batch(logtest.Spec{Base: r.l.LogEnd(), Timestamp: ts}))
		r.must(err)
		if info.Rolled {
			if age := ts - first; age <= 500 || age > 1005 {
				t.Errorf("rolled at the age of %d", age)
			}
			ages[ts-first] = true
			first = ts
		}
	}
	if len(ages) < 4 {
		t.Errorf("ages %v", ages)
	}
}

// Sets that don't continue the log are refused, and nothing of them is written.
func TestAppendRefusesDisorder(t *testing.T) {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 5, 3))
	size := r.l.View().Size()
	b := func(base model.Offset, epoch model.LeaderEpoch) []byte { return logtest.Batches(base, 1, epoch) }
	for name, set := range map[string][]byte{ // order-free
		"below the end":      b(4, 3),
		"falling inside":     append(b(7, 3), b(6, 3)...),
		"falling epoch":      b(5, 2),
		"falling in the set": append(b(5, 4), b(6, 3)...),
		"empty":              nil,
		"half a batch":       b(5, 3)[:30],
		"one and a half":     append(b(5, 3), b(6, 3)[:30]...),
	} {
		if _, err := r.l.Append(model.Now{}, set); !errors.Is(err, log.ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var corrupt *record.CorruptError
	if _, err := r.l.Append(model.Now{}, flip(b(5, 3), 16)); !errors.As(err, &corrupt) {
		t.Errorf("bad magic: %v", err)
	}
	if r.l.LogEnd() != 5 || r.l.View().Size() != size || r.l.Err() != nil {
		t.Errorf("log ends at %d with %d bytes, %v", r.l.LogEnd(), r.l.View().Size(), r.l.Err())
	}
	r.append(append(b(9, 3), b(20, 4)...)) // gaps are legal
}

// Handles and indexes are bounded over all logs that share a cache.
func TestFileCacheBounds(t *testing.T) {
	mem := memfs.New()
	cache := log.NewFileCache(4, 600)
	var logs []*log.Log
	for i := range 6 {
		l, _, err := log.Open(log.Options{FS: mem, Dir: fmt.Sprintf("/d/t-%d", i), Files: cache, Config: log.Config{SegmentBytes: 500}})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		l := logs[r.IntN(len(logs))]
		if _, err := l.Append(model.Now{}, logtest.Batches(l.LogEnd(), 3, 0)); err != nil {
			t.Fatal(err)
		}
		v := l.View()
		region, err := v.Read(model.Offset(r.IntN(int(v.End()))), v.End(), 300, true)
		if err != nil || region.Len() == 0 {
			t.Fatal(region.Len(), err)
		}
		if cache.Open() > 4+1 {
			t.Fatalf("%d files are open", cache.Open())
		}
		if cache.IndexBytes() > 600+500 {
			t.Fatalf("%d bytes of indexes", cache.IndexBytes())
		}
		region.Release()
	}
	for _, l := range logs {
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
	}
	if cache.Open() != 0 || cache.IndexBytes() != 0 {
		t.Errorf("%d files and %d bytes of indexes left after all was closed", cache.Open(), cache.IndexBytes())
	}
}

// Out of descriptors, a segment is opened after others were closed.
func TestOutOfDescriptors(t *testing.T) {
	r, m := segmented(t)
	var on atomic.Bool
	once := predicate(func(op faultfs.Op) bool {
		return op.Kind == faultfs.OpOpen && strings.HasSuffix(op.Path, ".log") && on.CompareAndSwap(true, false)
	})
	r.fs = faultfs.Wrap(r.mem, faultfs.When(once, faultfs.Fail(syscall.EMFILE)))
	r.o.Files = log.NewFileCache(1, 0)
	r.start(log.StopClean, 32)
	for range 20 {
		on.Store(true)
		region, err := r.l.View().Read(9, m.End, 100, true)
		r.must(err)
		region.Release()
		region, err = r.l.View().Read(1, m.End, 100, true)
		r.must(err)
		region.Release()
	}
}

type predicate func(op faultfs.Op) bool

func (p predicate) Match(op faultfs.Op) bool { return p(op) }
func (p predicate) String() string           { return "(predicate)" }

// Readers run while the log is appended to, truncated, dropped and reclaimed:
// what they read through a view is what was there when they took it, or an
// error that says the view is stale.
func TestReadersNeverSeeOtherBytes(t *testing.T) {
	mem := memfs.New()
	l, _, err := log.Open(log.Options{FS: mem, Dir: "/d/t-0", Files: log.NewFileCache(2, 500), Config: log.Config{SegmentBytes: 700, IndexIntervalBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	// history maps views to what they must read.
	var history sync.Map
	var m logtest.Model
	note := func() { history.Store(l.View(), m.Clone()) }
	note()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var reads, stale atomic.Int64
	for n := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 9))
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := l.View()
				want, known := history.Load(v)
				if !known || v.End() == v.Start() {
					continue
				}
				if err := readOnce(v, want.(*logtest.Model), r); errors.Is(err, log.ErrStaleView) {
					stale.Add(1)
				} else if err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
			}
		})
	}
	churn(t, l, &m, note)
	close(stop)
	readers.Wait()
	t.Logf("%d reads, %d of them stale", reads.Load(), stale.Load())
}

// churn changes a log and its model at random.
func churn(t *testing.T, l *log.Log, m *logtest.Model, note func()) {
	var err error
	r := rand.New(rand.NewPCG(8, 8))
	for i := range 1500 {
		switch {
		case i%10 == 7:
			to := max(m.Start, m.End-model.Offset(r.IntN(8)))
			_, err = l.Truncate(to)
			m.Truncate(to)
			m.Start = l.LogStart()
		case i%25 == 3:
			_, err = l.Reclaim()
		case i%50 == 9:
			err = l.IncrementLogStart(m.Start + (m.End-m.Start)/3)
			m.Raise(l.LogStart())
			if err == nil {
				_, _, err = l.DropBelow()
			}
		default:
			set := logtest.Batch(logtest.Spec{Base: m.End, Epoch: model.LeaderEpoch(i), Records: 1 + r.IntN(3), Salt: i})
			_, err = l.Append(model.Now{}, set)
			m.Append(set)
		}
		if err != nil {
			t.Error(err)
			break
		}
		note()
	}
}

func readOnce(v *log.View, m *logtest.Model, r *rand.Rand) error {
	from := v.Start() + model.Offset(r.IntN(int(v.End()-v.Start())))
	region, err := v.Read(from, v.End(), 1<<10, true)
	if err != nil {
		return err
	}
	defer region.Release()
	got := make([]byte, region.Len())
	if _, err := region.ReadAt(got, 0); err != nil {
		return err
	}
	if want := m.Bytes(from, v.End()); !bytes.HasPrefix(want, got) || len(got) == 0 && len(want) > 0 {
		return fmt.Errorf("read from %d of [%d, %d): %d bytes are not those that were appended", from, v.Start(), v.End(), len(got))
	}
	return nil
}

// The directory can be renamed under readers and the writer.
func TestRenameDir(t *testing.T) {
	r, m := segmented(t)
	region, err := r.l.View().Read(9, m.End, 100, true)
	r.must(err)
	name := log.RetiredDirName(model.TopicPartition{Topic: "t"}, strings.Repeat("ab", 16), log.DeleteDirSuffix)
	r.must(r.l.RenameDir(name))
	if _, err := region.ReadAt(make([]byte, 10), 0); err != nil {
		t.Error(err)
	}
	region.Release()
	r.check(m)
	r.append(logtest.Batches(32, 3, 9))
	r.must(r.l.Close(true))
	dir := filepath.Join(filepath.Dir(testDir), name)
	r.must(logtest.CheckDir(r.mem, dir))
	r.must(log.RemoveDir(r.mem, dir))
	if _, err := r.mem.Stat(dir); err == nil {
		t.Error("the directory is still there")
	}
}

func TestClosedLog(t *testing.T) {
	r, _ := segmented(t)
	r.must(r.l.Close(false))
	r.must(r.l.Close(true))
	if _, err := r.l.Append(model.Now{}, logtest.Batches(32, 1, 9)); !errors.Is(err, log.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := r.l.Truncate(3); !errors.Is(err, log.ErrClosed) {
		t.Errorf("truncate: %v", err)
	}
	if r.l.StartFlush() != nil {
		t.Error("a closed log is flushed")
	}
}
