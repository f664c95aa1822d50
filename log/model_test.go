package log_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/compress"
)

const testDir = "/data/t-0"

// world is a log on a memory disk beside its model, driven by one seed.
type world struct {
	t    testing.TB
	r    *rand.Rand
	fs   *memfs.FS
	opts log.Options
	l    *log.Log
	m    *logtest.Model
	// rp is the recovery point that the host has stored.
	rp    model.Offset
	epoch model.LeaderEpoch
	clock model.Timestamp
	salt  int
	seq   map[model.ProducerID]model.Sequence
	open  map[model.ProducerID]bool
	trace []string
}

func newWorld(t testing.TB, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, r: r, fs: memfs.New(), m: &logtest.Model{}, clock: 1000,
		seq: map[model.ProducerID]model.Sequence{}, open: map[model.ProducerID]bool{}}
	w.opts = log.Options{
		FS: w.fs, Dir: testDir, Files: log.NewFileCache(3, 4096),
		Config: log.Config{
			SegmentBytes: int32(300 + r.IntN(3000)), IndexBytes: int32(24 + r.IntN(200)),
			IndexIntervalBytes: int32([]int{0, 1, 200, 4096}[r.IntN(4)]), SegmentMs: int64(50 + r.IntN(500)), SegmentJitterMs: 10,
			PreallocateBytes: 1 << 16,
		},
		Rand: r,
	}
	w.must(makeDurable(w.fs, testDir))
	w.opts.LowerRecoveryPoint = func(to model.Offset) error {
		if to >= w.rp {
			w.t.Errorf("recovery point lowered from %d to %d", w.rp, to)
		}
		w.rp = to
		return nil
	}
	w.reopen(log.StopClean)
	return w
}

// makeDurable does what the host does before it opens a log.
func makeDurable(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if err := fs.SyncDir(d); err != nil || d == "/" {
			return err
		}
	}
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fatal(err error) {
	w.t.Helper()
	tail := w.trace[max(0, len(w.trace)-25):]
	for _, line := range tail {
		w.t.Log(line)
	}
	w.t.Fatal(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fatal(err)
	}
}

func (w *world) now() model.Now { return model.Now{Wall: w.clock} }

func (w *world) reopen(stop log.Stop) log.LoadReport {
	w.t.Helper()
	w.opts.FS, w.opts.Stop, w.opts.RecoveryPoint, w.opts.LogStart, w.opts.Now = w.fs, stop, w.rp, w.m.Start, w.now()
	l, rep, err := log.Open(w.opts)
	w.must(err)
	w.l = l
	return rep
}

// set makes a random set of batches that continues the log.
func (w *world) set() []byte {
	var set []byte
	base := w.m.End
	if e, _ := w.l.Epochs().Latest(); e.Start != base && w.r.IntN(20) == 0 {
		base += model.Offset(w.r.IntN(5)) // compaction has left a gap
	}
	for range 1 + w.r.IntN(4) {
		w.clock += model.Timestamp(w.r.IntN(30)) - 5
		w.salt++
		s := logtest.Spec{
			Base: base, Epoch: w.epoch, Records: 1 + w.r.IntN(4), ValueSize: w.r.IntN(150),
			Timestamp: w.clock, Step: int64(w.r.IntN(5) - 1), Codec: compress.Codec(w.r.IntN(5)), Salt: w.salt,
		}
		switch w.r.IntN(6) {
		case 0:
			s.AppendTime = w.clock
		case 1, 2:
			s.Producer = model.ProducerID(1 + w.r.IntN(3))
			s.Sequence = w.seq[s.Producer]
			s.Txn = w.open[s.Producer] || w.r.IntN(2) == 0
			w.open[s.Producer] = s.Txn
			w.seq[s.Producer] += model.Sequence(s.Records)
		case 3:
			for id := model.ProducerID(1); id <= 3; id++ {
				if w.open[id] {
					s.Producer, s.Txn, s.Records = id, true, 1
					s.Marker = []string{"commit", "abort"}[w.r.IntN(2)]
					w.open[id] = false
					break
				}
			}
		}
		b := logtest.Batch(s)
		set = append(set, b...)
		base = b.NextOffset()
	}
	return set
}

func (w *world) append() {
	set := w.set()
	before := w.m.End
	info, err := w.l.Append(w.now(), set)
	w.must(err)
	w.m.Append(set)
	w.note("append [%d, %d] %d bytes, rolled %v", info.First, info.Last, info.Bytes, info.Rolled)
	if info.NextOffset != w.m.End || info.First < before || info.Bytes != len(set) {
		w.fatal(fmt.Errorf("append info %+v, model ends at %d", info, w.m.End))
	}
}

func (w *world) flush() {
	j := w.l.StartFlush()
	if j == nil {
		if w.l.RecoveryPoint() != w.l.LogEnd() {
			w.fatal(fmt.Errorf("no flush at %d of %d", w.l.RecoveryPoint(), w.l.LogEnd()))
		}
		return
	}
	err := j.Run()
	w.must(w.l.FinishFlush(j, err))
	w.rp = w.l.RecoveryPoint()
	w.note("flush to %d", w.rp)
	if w.rp != w.m.End {
		w.fatal(fmt.Errorf("flushed to %d of %d", w.rp, w.m.End))
	}
}

func (w *world) truncate(to model.Offset) {
	cut := w.m.Clone()
	cut.Truncate(to)
	want := len(w.m.Bytes(0, w.m.End)) - len(cut.Bytes(0, w.m.End))
	rem, err := w.l.Truncate(to)
	w.must(err)
	w.note("truncate to %d of %d, removed %+v", to, w.m.End, rem)
	if rem.Bytes != int64(want) && !(w.m.Start > 0 && to < w.m.Start) {
		w.fatal(fmt.Errorf("removed %d bytes, want %d", rem.Bytes, want))
	}
	w.m = cut
	// What is left of a log without batches begins where it ends.
	w.m.Start = w.l.LogStart()
	w.forgetProducers()
}

// forgetProducers makes the generator follow what the truncated log knows.
func (w *world) forgetProducers() {
	state, _ := w.m.Producers()
	for id := model.ProducerID(1); id <= 3; id++ {
		e, ok := state.Lookup(id)
		w.open[id] = ok && e.HasOpenTxn()
		w.seq[id] = 0
		if ok {
			w.seq[id] = e.LastSeq().Add(1)
		}
	}
}

func (w *world) step() {
	switch n := w.r.IntN(100); {
	case n < 60:
		w.append()
	case n < 68:
		w.flush()
	case n < 72:
		w.truncate(max(w.m.Start, w.m.End-model.Offset(w.r.IntN(12))))
	case n < 74:
		w.epoch += model.LeaderEpoch(1 + w.r.IntN(2))
		w.must(w.l.AssignEpoch(w.epoch, w.m.End))
		w.note("epoch %d", w.epoch)
	case n < 77:
		w.must(w.l.Roll(w.now()))
		w.note("roll")
	case n < 79:
		o := w.m.Start + model.Offset(w.r.IntN(int(w.m.End-w.m.Start)/4+1))
		w.must(w.l.IncrementLogStart(o))
		w.m.Raise(o)
		w.note("start at %d", o)
	case n < 81:
		_, _, err := w.l.DropBelow()
		w.must(err)
		w.note("drop below")
	case n < 84:
		_, err := w.l.Reclaim()
		w.must(err)
		w.note("reclaim")
	case n < 86:
		w.must(w.l.Checkpoint())
		w.note("checkpoint")
	case n < 87:
		o := model.Offset(w.r.IntN(int(w.m.End) + 20))
		_, err := w.l.TruncateFullyAndStartAt(o)
		w.must(err)
		w.m.StartAt(o)
		w.forgetProducers()
		w.note("start anew at %d", o)
	case n < 91:
		w.must(w.l.Close(true))
		w.rp = w.l.RecoveryPoint()
		w.must(logtest.CheckDir(w.fs, testDir))
		w.note("close clean")
		w.reopen(log.StopClean)
	case n < 95:
		w.fs = w.fs.KillClone(memfs.Kill{})
		w.note("kill")
		if rep := w.reopen(log.StopProcess); len(lost(rep)) > 0 {
			w.fatal(fmt.Errorf("kill lost %+v", rep.Removed))
		}
		w.rp = w.l.RecoveryPoint()
	default:
		w.power()
	}
}

// lost returns removals other than the carrying out of earlier ones.
func lost(rep log.LoadReport) []log.Removal {
	var out []log.Removal
	for _, r := range rep.Removed {
		if r.Why != "unfinished cut" {
			out = append(out, r)
		}
	}
	return out
}

// power loses the unsynced part of the disk; what was flushed must be there.
func (w *world) power() {
	w.fs = w.fs.CrashClone(memfs.Crash{UnsyncedPct: w.r.IntN(101), Torn: true, Rand: w.r})
	rep := w.reopen(log.StopPower)
	w.note("power lost: rp %d, [%d, %d) of %d, %d removed", w.rp, w.l.LogStart(), w.l.LogEnd(), w.m.End, len(rep.Removed))
	if w.l.LogEnd() < w.rp {
		w.fatal(fmt.Errorf("log ends at %d, flushed to %d", w.l.LogEnd(), w.rp))
	}
	if w.l.LogEnd() > w.m.End {
		w.fatal(fmt.Errorf("log ends at %d, never went beyond %d", w.l.LogEnd(), w.m.End))
	}
	w.m.Truncate(w.l.LogEnd())
	w.m.End = w.l.LogEnd()
	w.m.Start = w.l.LogStart()
	if w.l.View().Size() == 0 {
		w.m.StartAt(w.l.LogStart()) // all that was left had been deleted
	}
	w.forgetProducers()
	latest, _ := w.l.Epochs().Latest()
	w.epoch = max(w.epoch, latest.Epoch)
}

func TestRandomOperationsAgreeWithModel(t *testing.T) {
	first, last := seedRange(t, 40)
	const steps = 100
	for seed := first; seed < last; seed++ {
		w := newWorld(t, seed)
		w.note("seed %d config %+v", seed, w.opts.Config)
		for i := range steps {
			w.step()
			if i%6 == 0 || i > steps-3 {
				if err := logtest.Check(w.l, w.m); err != nil {
					w.fatal(fmt.Errorf("seed %d step %d: %w", seed, i, err))
				}
			}
		}
		if err := w.l.Close(true); err != nil {
			w.fatal(err)
		}
	}
}

// seedRange is [0, n), or what TIDEMARK_LOG_SEEDS=A..B says.
func seedRange(t testing.TB, n uint64) (first, last uint64) {
	env := os.Getenv("TIDEMARK_LOG_SEEDS")
	if env == "" {
		return 0, n
	}
	if _, err := fmt.Sscanf(env, "%d..%d", &first, &last); err != nil {
		t.Fatalf("TIDEMARK_LOG_SEEDS=%q, want A..B: %v", env, err)
	}
	return first, last
}
