package host

import (
	"testing"

	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// TestAHeartbeatPassesOverAHangingDisk: while one directory's record is being
// written the others get theirs, and none goes back to an older heartbeat.
func TestAHeartbeatPassesOverAHangingDisk(t *testing.T) {
	fs := memfs.New()
	for _, dir := range []string{"/a", "/b"} {
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a, b := &Dir{path: "/a", fs: fs}, &Dir{path: "/b", fs: fs}
	ds := &Dirs{dirs: []*Dir{a, b}}
	want := func(when string, inA, inB int64) {
		t.Helper()
		for d, n := range map[*Dir]int64{a: inA, b: inB} {
			r, _ := readRun(fs, d.file(runFile))
			if r.Heartbeat != n {
				t.Errorf("%s: %s has heartbeat %d, want %d", when, d.path, r.Heartbeat, n)
			}
		}
	}
	ds.Heartbeat(1)
	want("both answer", 1, 1)
	a.runMu.Lock() // as while its record is written
	ds.Heartbeat(2)
	want("one hangs", 1, 2)
	a.runMu.Unlock()
	ds.Heartbeat(1) // an older one that was kept waiting
	want("an older one", 1, 2)
	ds.Heartbeat(3)
	want("both answer again", 3, 3)
}
