package quorum

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestLoadedEntriesAreDurable: what a start finds in the log, wherever the process
// before was killed, it may acknowledge and count as committed at once; so a loss
// of power takes nothing of it, the names in the directory included.
func TestLoadedEntriesAreDurable(t *testing.T) {
	for at := int64(1); ; at++ {
		w := newStorageWorld(t, uint64(at))
		failing := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.FromNth(at)), faultfs.EIO()))
		w.config.FS = faultfs.Wrap(w.fs, failing)
		var err error
		w.s, _, err = load(w.config, storageDir, w.now)
		must(t, err)
		failing.On()
		for index := uint64(2); index < 30 && err == nil; index++ {
			if index%3 == 0 {
				w.term++
			}
			// The commit index moves as seldom as it may.
			err = w.s.save(w.now, raft.Ready{Entries: []*raftpb.Entry{w.entry(index)}})
		}
		w.fs = w.fs.KillClone(memfs.Kill{})
		w.open()
		last, durable := w.s.lastIndex(), w.s.durable()
		if durable != last {
			t.Fatalf("operation %d: loaded to %d, durable is %d", at, last, durable)
		}
		w.config.Acted = model.Offset(durable)
		w.fs = w.fs.CrashClone(memfs.Crash{UnsyncedPct: 0})
		w.open()
		if w.s.lastIndex() < last {
			t.Fatalf("operation %d: ends at %d after the power failed, a start before had found %d", at, w.s.lastIndex(), last)
		}
		if err == nil {
			return
		}
	}
}
