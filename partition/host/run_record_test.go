package host

import (
	"bytes"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
)

// TestFlippedBitInARunRecord: a record of which a disk has changed a bit proves nothing.
// A digit of the metadata's offset would else refuse the start for ever, and one of the
// broker's epoch, or of how the process ended, have it taken for another.
func TestFlippedBitInARunRecord(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.flushAll()
	n.kill()
	path := "/data/" + runFile
	whole, err := vfs.ReadFile(n.disk, path)
	if err != nil {
		t.Fatal(err)
	}
	want, known := readRun(n.disk, path)
	if !known {
		t.Fatalf("%s", whole)
	}
	for bit := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		if err := vfs.WriteFile(n.disk, path, b); err != nil {
			t.Fatal(err)
		}
		if got, known := readRun(n.disk, path); known && got != want {
			t.Fatalf("bit %d of byte %d: %+v, want %+v or nothing", bit%8, bit/8, got, want)
		}
	}
	at := bytes.Index(whole, []byte(`"applied":`)) + len(`"applied":`)
	b := bytes.Clone(whole)
	b[at] = '9'
	if err := vfs.WriteFile(n.disk, path, b); err != nil {
		t.Fatal(err)
	}
	if sum := n.start(); sum.Loaded != 1 || n.dirs.Report().Stop != log.StopPower {
		t.Errorf("%+v after a stop of kind %s", sum, n.dirs.Report().Stop)
	}
	// One of an earlier version has no checksum.
	line, _, _ := bytes.Cut(whole, []byte("\n"))
	if err := vfs.WriteFile(n.disk, path, append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if got, known := readRun(n.disk, path); !known || got != want {
		t.Errorf("without a checksum: %+v, %v", got, known)
	}
}

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
