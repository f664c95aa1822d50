package log_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
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

// scenarios are short stories that each tell one rule. The mutant of the same
// name breaks that rule; with it the story must end badly.
func scenarios() map[string]func(t testing.TB) error {
	return map[string]func(t testing.TB) error{
		"log-stale-flushed":         staleFlush,
		"log-rp-before-epoch-file":  epochFileBeforeRecoveryPoint,
		"log-truncate-in-place":     readerAcrossTruncate,
		"log-no-cutback":            failedAppendLeavesNothing,
		"log-skip-crc":              flippedPayload,
		"log-skip-structure":        duplicatedBatch,
		"log-retry-fsync":           fsyncFailsOnce,
		"log-index-off-by-one":      indexEntriesHit,
		"log-keep-empty-epoch":      emptyEpochGoes,
		"log-rewrite-unchecked":     damagedRewrite,
		"log-heads-not-compared":    raisedOffsetIsFound,
		"log-scrub-ignores-heads":   loweredOffsetIsFound,
		"log-edges-unchecked":       raisedAfterTheStop,
		"log-damage-cut":            damageIsNotCut,
		"log-epochs-without-digest": flippedEpochIsNoWrongEpoch,
	}
}

func TestScenarios(t *testing.T) {
	for name, run := range scenarios() { // order-free
		t.Run(name, func(t *testing.T) {
			if err := run(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// emptyEpochGoes: an epoch in which nothing was written goes with a truncation
// that cuts no record. Else its follower would ask for ever with an epoch that
// its leader doesn't know.
func emptyEpochGoes(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopPower, 0)
	r.append(logtest.Batches(0, 5, 0))
	r.must(r.l.AssignEpoch(1, 5))
	if _, err := r.l.Truncate(5); err != nil {
		return err
	}
	if got := r.l.Epochs().LatestEpoch(); got != 0 {
		return fmt.Errorf("the latest epoch is %d after a truncation to the end, want 0", got)
	}
	return nil
}

// rig is one log on a memory disk, for scripted tests.
type rig struct {
	testing.TB
	mem *memfs.FS
	fs  vfs.FS
	o   log.Options
	l   *log.Log
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, mem: memfs.New()}
	r.fs = r.mem
	r.must(makeDurable(r.mem, testDir))
	r.o = log.Options{Dir: testDir, Config: log.Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 0}}
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// open opens the log after a stop of the given kind, or gives its error.
func (r *rig) open(stop log.Stop, rp model.Offset) (log.LoadReport, error) {
	r.o.FS, r.o.Stop, r.o.RecoveryPoint = r.fs, stop, rp
	l, rep, err := log.Open(r.o)
	r.l = l
	return rep, err
}

func (r *rig) start(stop log.Stop, rp model.Offset) log.LoadReport {
	r.Helper()
	rep, err := r.open(stop, rp)
	r.must(err)
	return rep
}

func (r *rig) append(set []byte) {
	r.Helper()
	_, err := r.l.Append(model.Now{}, set)
	r.must(err)
}

func (r *rig) flush() {
	r.Helper()
	j := r.l.StartFlush()
	r.must(r.l.FinishFlush(j, j.Run()))
}

// file returns the path of a file of the log.
func (r *rig) file(base model.Offset, suffix string) string {
	return filepath.Join(testDir, fmt.Sprintf("%020d%s", base, suffix))
}

func (r *rig) read(path string) []byte {
	r.Helper()
	b, err := vfs.ReadFile(r.mem, path)
	r.must(err)
	return b
}

// rewrite replaces a file, durably.
func (r *rig) rewrite(path string, data []byte) {
	r.Helper()
	r.must(vfs.WriteFileAtomic(r.mem, path, data))
}

// kill ends the process without a word.
func (r *rig) kill() { r.mem = r.mem.KillClone(memfs.Kill{}); r.fs = r.mem }

// raisedAfterTheStop: the seal tells of the last batch's offset after an orderly stop.
func raisedAfterTheStop(t testing.TB) error {
	r := newRig(t)
	r.o.Config.IndexIntervalBytes = 10_000 // no index entry tells
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 5, 0))
	r.must(r.l.Close(true))
	b := r.read(r.file(0, ".log"))
	b[places(b)[4]+6] ^= 1
	r.rewrite(r.file(0, ".log"), b)
	var damage *log.CorruptionError
	if _, err := r.open(log.StopClean, 5); !errors.As(err, &damage) {
		return fmt.Errorf("the log ends at %d, %v", r.l.LogEnd(), err)
	}
	return nil
}

func staleFlush(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 10, 0))
	j := r.l.StartFlush()
	ran := j.Run()
	if _, err := r.l.Truncate(4); err != nil {
		return err
	}
	r.append(logtest.Batches(4, 10, 1))
	r.must(r.l.FinishFlush(j, ran))
	if rp := r.l.RecoveryPoint(); rp > 4 {
		return fmt.Errorf("recovery point %d after a truncation to 4 that the flush knew nothing of", rp)
	}
	r.flush()
	if rp := r.l.RecoveryPoint(); rp != 14 {
		return fmt.Errorf("recovery point %d after a fresh flush, want 14", rp)
	}
	return nil
}

func epochFileBeforeRecoveryPoint(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	for e := range model.LeaderEpoch(3) {
		r.append(logtest.Batches(r.l.LogEnd(), 3, e))
		r.flush()
		disk := r.mem.Fork().CrashClone(memfs.Crash{})
		got, err := checkpoint.ReadEpochs(disk, filepath.Join(testDir, checkpoint.EpochFile))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(r.l.Epochs().Entries()) {
			return fmt.Errorf("recovery point %d, epoch file %v %v, epochs %v", r.l.RecoveryPoint(), got, err, r.l.Epochs().Entries())
		}
	}
	return nil
}

func readerAcrossTruncate(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 10, 0))
	v := r.l.View()
	region, err := v.Read(2, 10, 1<<20, true)
	r.must(err)
	want := make([]byte, region.Len())
	if _, err := region.ReadAt(want, 0); err != nil {
		return err
	}
	if _, err := r.l.Truncate(5); err != nil {
		return err
	}
	r.append(logtest.Batches(5, 10, 1))
	left, err := r.l.Reclaim()
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := region.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("a reader's bytes changed under it: %v", err)
	}
	if left != 1 {
		return fmt.Errorf("%d removals wait for the reader, want 1", left)
	}
	region.Release()
	if left, err = r.l.Reclaim(); left != 0 || err != nil {
		return fmt.Errorf("%d removals left after the last reader, %w", left, err)
	}
	if _, err := v.Read(2, 10, 1<<20, true); !errors.Is(err, log.ErrStaleView) {
		return fmt.Errorf("a view of bytes that are gone gives %v", err)
	}
	return nil
}

func failedAppendLeavesNothing(t testing.TB) error {
	for _, fault := range []*faultfs.Fault{faultfs.EIO(), faultfs.ENOSPC(100), faultfs.ShortWrite(70)} {
		r := newRig(t)
		r.fs = faultfs.Wrap(r.mem, faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.PathMatch("*.log"), faultfs.NthOp(2)), fault))
		r.start(log.StopClean, 0)
		r.append(logtest.Batches(0, 2, 0))
		size := len(r.read(r.file(0, ".log")))
		if _, err := r.l.Append(model.Now{}, logtest.Batches(2, 2, 0)); err == nil {
			return fmt.Errorf("%s: the append succeeded", fault)
		}
		if got := len(r.read(r.file(0, ".log"))); got != size || r.l.LogEnd() != 2 {
			return fmt.Errorf("%s: %d bytes after a failed append, want %d; log ends at %d", fault, got, size, r.l.LogEnd())
		}
		r.append(logtest.Batches(2, 1, 0)) // the next one succeeds
		r.kill()
		r.start(log.StopProcess, 0)
		if r.l.LogEnd() != 3 {
			return fmt.Errorf("%s: log ends at %d, want 3", fault, r.l.LogEnd())
		}
	}
	return nil
}

// damageIsNotCut: what was durable and is damaged now is damage, also where it looks
// as a torn write does, and nothing of it is cut.
func damageIsNotCut(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 10, 0))
	r.flush()
	b := r.read(r.file(0, ".log"))
	r.rewrite(r.file(0, ".log"), flip(b, len(b)/2+70))
	_, err := r.open(log.StopPower, 10)
	if c := (*log.CorruptionError)(nil); !errors.As(err, &c) {
		return fmt.Errorf("opened with %v; it ends at %d, everything below 10 was durable", err, r.l.LogEnd())
	}
	if after := r.read(r.file(0, ".log")); !bytes.Equal(after, flip(b, len(b)/2+70)) {
		return errors.New("the file was changed")
	}
	return nil
}

func flippedPayload(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 10, 0))
	b := r.read(r.file(0, ".log"))
	b[len(b)/2+70] ^= 1
	r.rewrite(r.file(0, ".log"), b)
	r.start(log.StopPower, 0)
	return r.l.View().Batches(0, nil, func(b record.Batch) error { return b.CheckCRC() })
}

func duplicatedBatch(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	var set []byte
	for _, base := range []model.Offset{0, 10, 20, 10} {
		set = append(set, logtest.Batch(logtest.Spec{Base: base, Records: 10})...)
	}
	r.rewrite(r.file(0, ".log"), set)
	r.rewrite(r.file(0, ".index"), nil)
	r.start(log.StopPower, 0)
	if r.l.LogEnd() != 30 {
		return fmt.Errorf("log ends at %d, want 30", r.l.LogEnd())
	}
	return nil
}

func fsyncFailsOnce(t testing.TB) error {
	r := newRig(t)
	r.fs = faultfs.Wrap(r.mem, faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpSyncData), faultfs.PathMatch("*.log"), faultfs.NthOp(1)), faultfs.FsyncFails()))
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 5, 0))
	j := r.l.StartFlush()
	if err := r.l.FinishFlush(j, j.Run()); err == nil {
		return errors.New("a failed fsync was not noticed")
	}
	if j = r.l.StartFlush(); j != nil {
		_ = r.l.FinishFlush(j, j.Run())
	}
	if rp := r.l.RecoveryPoint(); rp != 0 {
		return fmt.Errorf("recovery point %d after a failed fsync", rp)
	}
	if _, err := r.l.Append(model.Now{}, logtest.Batches(5, 1, 0)); !errors.Is(err, log.ErrPoisoned) {
		return fmt.Errorf("append after a failed fsync: %v", err)
	}
	return nil
}

func indexEntriesHit(t testing.TB) error {
	r := newRig(t)
	r.start(log.StopClean, 0)
	r.append(logtest.Batches(0, 20, 0))
	r.must(r.l.Close(true))
	return logtest.CheckDir(r.mem, testDir)
}
