package memfs_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

// simple is one directory of files as plainly as it can be written: two whole
// copies of everything, one for readers and one for after the power loss.
type simple struct {
	live, synced map[string]*simpleFile
}

type simpleFile struct{ live, synced []byte }

func (m *simple) lines(of map[string]*simpleFile, content func(*simpleFile) []byte) []string {
	var out []string
	for name, f := range of {
		out = append(out, "/"+name+"="+string(content(f)))
	}
	slices.Sort(out)
	return out
}

// Random writes, cuts, syncs, renames and removals on a few small files: what
// readers see and what a power loss leaves must be what the plain model says.
func TestAgainstPlainModel(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 5))
		fs := memfs.New()
		m := &simple{make(map[string]*simpleFile), make(map[string]*simpleFile)}
		for range 80 {
			step(t, r, fs, m, names[r.IntN(len(names))], names[r.IntN(len(names))])
		}
		wantTree(t, fs, m.lines(m.live, func(f *simpleFile) []byte { return f.live })...)
		killed := fs.KillClone(memfs.Kill{})
		wantTree(t, killed, m.lines(m.live, func(f *simpleFile) []byte { return f.live })...)
		wantTree(t, killed.CrashClone(memfs.Crash{UnsyncedPct: 100}), m.lines(m.live, func(f *simpleFile) []byte { return f.live })...)
		wantTree(t, killed.CrashClone(memfs.Crash{}), m.lines(m.synced, func(f *simpleFile) []byte { return f.synced })...)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func step(t *testing.T, r *rand.Rand, fs *memfs.FS, m *simple, name, other string) {
	t.Helper()
	f := m.live[name]
	switch kind := r.IntN(10); {
	case kind == 0:
		must(t, fs.SyncDir("/"))
		m.synced = make(map[string]*simpleFile)
		for n, f := range m.live {
			m.synced[n] = f
		}
	case f == nil:
		must(t, create(t, fs, name, "").Close())
		m.live[name] = &simpleFile{}
	case kind == 1:
		must(t, fs.Remove(name))
		delete(m.live, name)
	case kind == 2 && name != other:
		must(t, fs.Rename(name, other))
		delete(m.live, name)
		m.live[other] = f
	default:
		change(t, r, fs, f, name)
	}
}

func change(t *testing.T, r *rand.Rand, fs vfs.FS, f *simpleFile, name string) {
	t.Helper()
	h, err := fs.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer h.Close()
	switch r.IntN(4) {
	case 0:
		must(t, h.SyncData())
		f.synced = slices.Clone(f.live)
	case 1:
		size := r.IntN(3 * 4096)
		must(t, h.Truncate(int64(size)))
		f.live = slices.Clone(f.live)[:min(size, len(f.live))]
		f.live = append(f.live, make([]byte, size-len(f.live))...)
	default:
		off, p := r.IntN(3*4096), bytes.Repeat([]byte{byte('a' + r.IntN(26))}, 1+r.IntN(6000))
		_, err := h.WriteAt(p, int64(off))
		must(t, err)
		live := slices.Clone(f.live)
		live = append(live, make([]byte, max(0, off+len(p)-len(live)))...)
		copy(live[off:], p)
		f.live = live
	}
}
