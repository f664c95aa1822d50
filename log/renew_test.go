package log_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
)

// A log of which an fsync failed is copied into new files as far as that may have
// cost it anything. A crash at any call of that costs nothing that was durable, and
// nothing at all if the machine stays up.
func TestRenewAtEveryCrash(t *testing.T) {
	r, m := segmented(t)
	durable := m.Clone()
	set := logtest.Batches(m.End, 6, 4)
	r.append(set)
	m.Append(set)
	r.kill()
	copied := make(map[string]bool)
	var forks []*memfs.FS
	r.fs = faultfs.Wrap(r.mem, faultfs.When(faultfs.Mutations(), faultfs.Stall(func(op faultfs.Op) {
		forks = append(forks, r.mem.Fork())
		if op.Kind == faultfs.OpRename {
			copied[op.NewPath] = true
		}
	})))
	r.o.Renew = true
	r.start(log.StopPower, 24)
	r.check(m)
	for base, want := range map[model.Offset]bool{8: false, 16: true, 24: true, 32: true} { // order-free
		if path := r.file(base, ".log"); copied[path] != want {
			t.Errorf("%s copied: %v, with a recovery point of 24", path, copied[path])
		}
	}
	for k, fork := range forks {
		for _, c := range []struct {
			disk *memfs.FS
			rp   model.Offset
			want *logtest.Model
		}{
			{fork.KillClone(memfs.Kill{}), 24, m},
			{fork.CrashClone(memfs.Crash{}), 32, durable},
			{fork.CrashClone(memfs.Crash{UnsyncedPct: 50, Rand: rand.New(rand.NewPCG(uint64(k), 1))}), 32, nil},
		} {
			at := &rig{TB: t, mem: c.disk, fs: c.disk, o: r.o}
			if _, err := at.open(log.StopPower, c.rp); err != nil {
				t.Fatalf("in front of call %d: %v", k, err)
			}
			if c.want != nil && at.l.LogEnd() == c.want.End {
				at.check(c.want)
			} else if at.l.LogEnd() < durable.End || c.want == m {
				t.Fatalf("in front of call %d: the log ends at %d, %d were durable", k, at.l.LogEnd(), durable.End)
			}
		}
	}
}
