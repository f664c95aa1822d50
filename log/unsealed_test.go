package log_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// A seal that can't be read vouches for nothing: power failed while the files
// beside the segment were written, so all are made anew from the batches, however
// sound they look.
func TestBadSealVouchesForNothing(t *testing.T) {
	seals := map[string]func(b []byte) []byte{
		"zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"flipped": func(b []byte) []byte { return flip(b, 9) },
	}
	sides := map[string]func(b []byte) []byte{
		"whole":      func(b []byte) []byte { return b },
		"zeros":      func(b []byte) []byte { return make([]byte, len(b)) },
		"empty":      func([]byte) []byte { return nil },
		"last lost":  func(b []byte) []byte { return b[:len(b)-min(len(b), 12)] },
		"older time": func(b []byte) []byte { return flip(b, 7) },
	}
	for sealName, seal := range seals { // order-free
		for sideName, side := range sides { // order-free
			for _, suffix := range []string{".index", ".timeindex", ".txnindex"} {
				t.Run(sealName+" "+suffix+" "+sideName, func(t *testing.T) {
					r, m := segmented(t)
					r.must(r.l.Close(true))
					for _, base := range []model.Offset{0, 8, 16, 24} {
						r.rewrite(r.file(base, ".seal"), seal(r.read(r.file(base, ".seal"))))
						r.rewrite(r.file(base, suffix), side(r.read(r.file(base, suffix))))
					}
					rebuilt := slices.Clone(r.start(log.StopClean, 32).Rebuilt)
					for _, base := range []model.Offset{0, 8, 16, 24} {
						for _, name := range []string{".index", ".timeindex", ".txnindex"} {
							if name := fmt.Sprintf("%020d%s", base, name); !slices.Contains(rebuilt, name) {
								t.Errorf("%s was not made anew, only %v", name, rebuilt)
							}
						}
					}
					r.check(m)
					r.must(r.l.Close(true))
					r.must(logtest.CheckDir(r.mem, testDir))
				})
			}
		}
	}
}

// Without a seal, as Kafka leaves a segment, a time index that lies hides no
// record, and one that is sound does not have the segment read at the start.
func TestTimeIndexWithoutSeal(t *testing.T) {
	faults := map[string]func(b []byte) []byte{
		"sound":       func(b []byte) []byte { return b },
		"zeros":       func(b []byte) []byte { return make([]byte, len(b)) },
		"empty":       func([]byte) []byte { return nil },
		"last lost":   func(b []byte) []byte { return b[:len(b)-12] },
		"last zero":   func(b []byte) []byte { return append(b[:len(b)-12:len(b)-12], make([]byte, 12)...) },
		"last later":  func(b []byte) []byte { return flip(b, len(b)-5) },
		"last nearer": func(b []byte) []byte { b = slices.Clone(b); b[len(b)-1] = 0; return b },
		"first later": func(b []byte) []byte { b = slices.Clone(b); b[11] = b[len(b)-1]; return b },
	}
	for name, fault := range faults { // order-free
		for _, stop := range []log.Stop{log.StopClean, log.StopPower} {
			r, m := segmented(t)
			r.must(r.l.Close(true))
			for _, base := range []model.Offset{0, 8, 16, 24} {
				r.must(r.mem.Remove(r.file(base, ".seal")))
				if base < 24 {
					b := fault(r.read(r.file(base, ".timeindex")))
					r.rewrite(r.file(base, ".timeindex"), b)
				}
			}
			if rebuilt := r.start(stop, 32).Rebuilt; name == "sound" && stop == log.StopClean && len(rebuilt) > 0 {
				t.Errorf("%s: made anew: %v", name, rebuilt)
			}
			for range 3 { // each look-up tries some timestamps only
				if err := logtest.Check(r.l, m); err != nil {
					t.Fatalf("%s, %s: %v", name, stop, err)
				}
			}
			// Those that were looked into have a seal from then on.
			r.must(r.l.Close(true))
			r.must(logtest.CheckDir(r.mem, testDir))
			r.start(log.StopClean, 32)
			r.check(m)
		}
	}
}

// Power may fail while indexes of a segment below the recovery point are made
// anew, at any call: what is left is never taken for whole.
func TestPowerFailsWhileIndexesAreMade(t *testing.T) {
	for _, lost := range [][]string{{".index"}, {".timeindex"}, {".txnindex"}, {".index", ".timeindex", ".txnindex", ".seal"}, nil} {
		r, m := segmented(t)
		r.must(r.l.Close(true))
		for _, base := range []model.Offset{0, 8, 16} {
			for _, suffix := range lost {
				r.must(r.mem.Remove(r.file(base, suffix)))
			}
			if lost == nil {
				r.rewrite(r.file(base, ".seal"), make([]byte, 53))
			}
		}
		r.must(r.mem.SyncDir(testDir))
		var forks []*memfs.FS
		r.fs = faultfs.Wrap(r.mem, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(faultfs.Op) { forks = append(forks, r.mem.Fork()) })))
		r.start(log.StopClean, 32)
		r.check(m)
		forks = append(forks, r.mem.Fork()) // and after it, before a flush
		if len(forks) < 8 {
			t.Fatalf("%s: only %d calls", lost, len(forks))
		}
		for k, fork := range forks {
			for seed := range uint64(20) {
				crash := memfs.Crash{UnsyncedPct: 50, Torn: seed%2 == 0, Rand: rand.New(rand.NewPCG(uint64(k), seed))}
				disk := fork.Fork().CrashClone(crash)
				at := &rig{TB: t, mem: disk, fs: disk, o: r.o}
				if _, err := at.open(log.StopPower, 32); err != nil {
					t.Fatalf("%s lost, power lost at call %d: %v", lost, k, err)
				}
				if err := logtest.Check(at.l, m); err != nil {
					t.Fatalf("%s lost, power lost at call %d: %v", lost, k, err)
				}
			}
		}
	}
}
