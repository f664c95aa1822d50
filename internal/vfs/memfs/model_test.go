package memfs_test

import (
	"bytes"
	"errors"
	"maps"
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
		var kept contents
		for range 80 {
			step(t, r, fs, m, names[r.IntN(len(names))], names[r.IntN(len(names))])
			kept.look(t, fs, fs.Durable(), m, names)
			if r.IntN(20) == 0 {
				fs = fs.KillClone(memfs.Kill{})
			}
		}
		kept.check(t)
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

// contents are what Content returned over time: the bytes, and a copy of them as
// they were then.
type contents [][2][]byte

// look compares the content of all files, and of what is durable, with the
// model's.
func (c *contents) look(t *testing.T, fs *memfs.FS, durable memfs.Durable, m *simple, names []string) {
	t.Helper()
	for _, name := range names {
		var live, synced *[]byte
		if f := m.live[name]; f != nil {
			live = &f.live
		}
		if f := m.synced[name]; f != nil {
			synced = &f.synced
		}
		got, err := fs.Content(name)
		c.want(t, "live "+name, got, err, live)
		got, err = durable.Content(name)
		c.want(t, "synced "+name, got, err, synced)
	}
	got, err := durable.List("/")
	must(t, err)
	if want := slices.Sorted(maps.Keys(m.synced)); !slices.Equal(got, want) {
		t.Errorf("durable names are %q, want %q", got, want)
	}
}

func (c *contents) want(t *testing.T, what string, got []byte, err error, want *[]byte) {
	t.Helper()
	switch {
	case want == nil && !errors.Is(err, os.ErrNotExist), want != nil && err != nil:
		t.Fatalf("%s: %v", what, err)
	case want != nil && !bytes.Equal(got, *want):
		t.Fatalf("%s: %d bytes differ from the %d wanted", what, len(got), len(*want))
	}
	*c = append(*c, [2][]byte{got, bytes.Clone(got)})
}

// check looks whether bytes that were given out have changed, and whether two
// that begin at the same address differ.
func (c contents) check(t *testing.T) {
	t.Helper()
	longest := make(map[*byte][]byte)
	for _, k := range c {
		if !bytes.Equal(k[0], k[1]) {
			t.Fatal("bytes that Content gave out have changed")
		}
		if len(k[1]) == 0 {
			continue
		}
		at := &k[0][0]
		if other := longest[at]; !bytes.HasPrefix(other, k[1]) && !bytes.HasPrefix(k[1], other) {
			t.Fatal("different bytes at one address")
		} else if len(k[1]) > len(other) {
			longest[at] = k[1]
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
