package memfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fs vfs.FS, name, content string) vfs.File {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	return f
}

// tree renders a disk as sorted lines "path=content" and "path/".
func tree(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	var out []string
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := fs.Stat(p)
		must(t, err)
		if info.IsDir {
			out = append(out, p+"/")
			out = append(out, tree(t, fs, p)...)
			continue
		}
		b, err := vfs.ReadFile(fs, p)
		must(t, err)
		out = append(out, p+"="+string(b))
	}
	return out
}

func wantTree(t *testing.T, fs vfs.FS, want ...string) {
	t.Helper()
	if got := tree(t, fs, "/"); !slices.Equal(got, want) {
		t.Errorf("the disk holds %q, want %q", got, want)
	}
}

// Each story is run, then the power goes: least is what is left when nothing
// unsynced survives, most when all of it does.
func TestPowerLossStories(t *testing.T) {
	for _, c := range []struct {
		name        string
		run         func(t *testing.T, fs *memfs.FS)
		least, most []string
	}{
		{"content and name unsynced", func(t *testing.T, fs *memfs.FS) {
			create(t, fs, "a", "x")
		}, nil, []string{"/a=x"}},
		{"content synced, name not", func(t *testing.T, fs *memfs.FS) {
			must(t, create(t, fs, "a", "x").Sync())
		}, nil, []string{"/a=x"}},
		{"name synced, content not", func(t *testing.T, fs *memfs.FS) {
			create(t, fs, "a", "x")
			must(t, fs.SyncDir("/"))
		}, []string{"/a="}, []string{"/a=x"}},
		{"both synced, then more", func(t *testing.T, fs *memfs.FS) {
			f := create(t, fs, "a", "xyz")
			must(t, f.SyncData())
			must(t, fs.SyncDir("/"))
			_, err := f.WriteAt([]byte("XYZW"), 0)
			must(t, err)
		}, []string{"/a=xyz"}, []string{"/a=XYZW"}},
		{"truncation unsynced", func(t *testing.T, fs *memfs.FS) {
			f := create(t, fs, "a", "xyz")
			must(t, f.Sync())
			must(t, fs.SyncDir("/"))
			must(t, f.Truncate(1))
		}, []string{"/a=xyz"}, []string{"/a=x"}},
		{"truncated, extended, rewritten", func(t *testing.T, fs *memfs.FS) {
			f := create(t, fs, "a", "xyz")
			must(t, f.Sync())
			must(t, fs.SyncDir("/"))
			must(t, f.Truncate(0))
			_, err := f.WriteAt([]byte("Q"), 4)
			must(t, err)
		}, []string{"/a=xyz"}, []string{"/a=\x00\x00\x00\x00Q"}},
		{"removal unsynced", func(t *testing.T, fs *memfs.FS) {
			must(t, create(t, fs, "a", "x").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Remove("a"))
		}, []string{"/a=x"}, nil},
		{"removal synced", func(t *testing.T, fs *memfs.FS) {
			must(t, create(t, fs, "a", "x").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Remove("a"))
			must(t, fs.SyncDir("/"))
		}, nil, nil},
		{"rename unsynced", func(t *testing.T, fs *memfs.FS) {
			must(t, create(t, fs, "a", "x").Sync())
			must(t, create(t, fs, "b", "y").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Rename("a", "b"))
		}, []string{"/a=x", "/b=y"}, []string{"/b=x"}},
		{"directory's own name unsynced", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d", 0o755))
			must(t, create(t, fs, "d/a", "x").Sync())
			must(t, fs.SyncDir("d"))
		}, nil, []string{"/d/", "/d/a=x"}},
		{"directory synced top down", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d/e", 0o755))
			must(t, fs.SyncDir("/"))
			must(t, create(t, fs, "d/e/a", "x").Sync())
			must(t, fs.SyncDir("d"))
		}, []string{"/d/", "/d/e/"}, []string{"/d/", "/d/e/", "/d/e/a=x"}},
		{"moved to another directory, the old one synced", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d", 0o755))
			must(t, create(t, fs, "a", "x").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Rename("a", "d/b"))
			must(t, fs.SyncDir("/"))
		}, []string{"/a=x", "/d/"}, []string{"/d/", "/d/b=x"}},
		{"moved to another directory, the new one synced", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d", 0o755))
			must(t, create(t, fs, "a", "x").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Rename("a", "d/b"))
			must(t, fs.SyncDir("d"))
		}, []string{"/d/", "/d/b=x"}, []string{"/d/", "/d/b=x"}},
		{"moved away and its old name reused and synced", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d", 0o755))
			must(t, create(t, fs, "a", "x").Sync())
			must(t, fs.SyncDir("/"))
			must(t, fs.Rename("a", "d/b"))
			must(t, create(t, fs, "a", "new").Sync())
			must(t, fs.SyncDir("/"))
		}, []string{"/a=new", "/d/", "/d/b=x"}, []string{"/a=new", "/d/", "/d/b=x"}},
		{"replaced file lives on under its lost new name", func(t *testing.T, fs *memfs.FS) {
			must(t, vfs.WriteFileAtomic(fs, "a", []byte("old")))
			must(t, create(t, fs, "a.tmp", "new").Sync())
			must(t, fs.Rename("a.tmp", "a"))
		}, []string{"/a=old"}, []string{"/a=new"}},
		{"tree removed", func(t *testing.T, fs *memfs.FS) {
			must(t, fs.MkdirAll("d", 0o755))
			must(t, create(t, fs, "d/a", "x").Sync())
			must(t, fs.SyncDir("d"))
			must(t, fs.SyncDir("/"))
			must(t, fs.RemoveAll("d"))
		}, []string{"/d/", "/d/a=x"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := memfs.New()
			c.run(t, fs)
			wantTree(t, fs, c.most...)
			least := fs.Fork().CrashClone(memfs.Crash{})
			wantTree(t, least, c.least...)
			must(t, least.SyncDir("/")) // nothing of before comes back
			wantTree(t, least.CrashClone(memfs.Crash{}), c.least...)
			all := fs.CrashClone(memfs.Crash{UnsyncedPct: 100})
			wantTree(t, all, c.most...)
			// What a crash left is durable.
			wantTree(t, all.CrashClone(memfs.Crash{}), c.most...)
		})
	}
}

func TestKillKeepsAllButTheEndOfTheLastWrite(t *testing.T) {
	const old, added = "0123456789", "abcdef"
	for keep := 0; keep <= len(added); keep++ {
		fs := memfs.New()
		f := create(t, fs, "a", old)
		must(t, f.Sync())
		must(t, fs.SyncDir("/"))
		_, err := f.WriteAt([]byte(added), 7) // three over old bytes, three beyond
		must(t, err)
		after := fs.KillClone(memfs.Kill{Cut: func(n int) int {
			if n != len(added) {
				t.Errorf("the last write was of %d bytes, told %d", len(added), n)
			}
			return keep
		}})
		want := old[:7] + added[:keep]
		if keep < 3 {
			want += old[7+keep:]
		}
		wantTree(t, after, "/a="+want)
		wantTree(t, after.Fork().CrashClone(memfs.Crash{}), "/a="+old)
		again := after.KillClone(memfs.Kill{Cut: func(int) int { t.Error("the same write was cut twice"); return 0 }})
		wantTree(t, again, "/a="+want)
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			wantTree(t, again.CrashClone(memfs.Crash{UnsyncedPct: 100, Torn: true, Rand: r}), "/a="+want)
		}
	}
}

func TestKillTearsOnlyAWriteInProgress(t *testing.T) {
	never := memfs.Kill{Cut: func(int) int { t.Error("asked to cut a finished write"); return 0 }}
	for name, then := range map[string]func(fs *memfs.FS, f vfs.File){
		"sync":     func(_ *memfs.FS, f vfs.File) { must(t, f.SyncData()) },
		"truncate": func(_ *memfs.FS, f vfs.File) { must(t, f.Truncate(1)) },
		"rename":   func(fs *memfs.FS, _ vfs.File) { must(t, fs.Rename("a", "b")) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := memfs.New()
			f := create(t, fs, "a", "xyz")
			then(fs, f)
			fs.KillClone(never)
		})
	}
}

func TestTheDeadAnswerNothing(t *testing.T) {
	fs := memfs.New()
	f := create(t, fs, "a", "xyz")
	lock, err := fs.Lock("lock")
	must(t, err)
	after := fs.KillClone(memfs.Kill{})
	_, openErr := fs.OpenFile("a", os.O_RDWR, 0)
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("q"), 0)
	_, sizeErr := f.Size()
	_, statErr := fs.Stat("a")
	_, listErr := fs.List("/")
	_, _, freeErr := fs.Free("/")
	for op, err := range map[string]error{
		"open": openErr, "read": readErr, "write": writeErr, "size": sizeErr, "stat": statErr, "list": listErr,
		"free": freeErr, "truncate": f.Truncate(0), "sync": f.Sync(), "syncData": f.SyncData(),
		"allocate": f.Allocate(0, 1), "close": f.Close(), "unlock": lock.Close(), "remove": fs.Remove("a"),
		"removeAll": fs.RemoveAll("a"), "rename": fs.Rename("a", "b"), "mkdir": fs.Mkdir("d", 0), "mkdirAll": fs.MkdirAll("d", 0), "syncDir": fs.SyncDir("/"),
	} {
		if !errors.Is(err, memfs.ErrDead) {
			t.Errorf("%s: %v, want ErrDead", op, err)
		}
	}
	wantTree(t, after, "/a=xyz", "/lock=")
	if l, err := after.Lock("lock"); err != nil {
		t.Errorf("the lock outlived its process: %v", err)
	} else {
		must(t, l.Close())
	}
	wantTree(t, fs.CrashClone(memfs.Crash{UnsyncedPct: 100}), "/a=xyz", "/lock=")
}

// pages returns n pages, each full of one letter.
func pages(letter byte, n int) []byte {
	return bytes.Repeat([]byte{letter}, n*4096)
}

// Ten old pages, all overwritten and five more appended: after the crash each
// page is new or old or, beyond the old end, zero. Over some seeds all happens.
func TestPagesSurviveAtRandom(t *testing.T) {
	seen := make(map[string]bool)
	sizes := make(map[int]bool)
	for seed := range uint64(60) {
		fs := memfs.New()
		f := create(t, fs, "a", string(pages('o', 10)))
		must(t, f.Sync())
		must(t, fs.SyncDir("/"))
		_, err := f.WriteAt(pages('n', 15), 0)
		must(t, err)
		after := fs.CrashClone(memfs.Crash{UnsyncedPct: 50, Rand: rand.New(rand.NewPCG(seed, 1))})
		b, err := vfs.ReadFile(after, "a")
		must(t, err)
		if len(b) < 10*4096 || len(b) > 15*4096 || len(b)%4096 != 0 {
			t.Fatalf("seed %d: %d bytes", seed, len(b))
		}
		sizes[len(b)/4096] = true
		for p := 0; p*4096 < len(b); p++ {
			page := b[p*4096 : (p+1)*4096]
			if len(bytes.Trim(page, string(page[:1]))) != 0 {
				t.Fatalf("seed %d: page %d is mixed", seed, p)
			}
			where := "below"
			if p >= 10 {
				where = "beyond"
			}
			seen[fmt.Sprintf("%s %q", where, page[0])] = true
		}
	}
	for _, want := range []string{`below 'n'`, `below 'o'`, `beyond 'n'`, `beyond '\x00'`} {
		if !seen[want] {
			t.Errorf("never saw %s", want)
		}
	}
	if len(seen) != 4 || len(sizes) < 5 {
		t.Errorf("saw %v and sizes %v", seen, sizes)
	}
}

func TestTornPowerLossCutsAtAnyByte(t *testing.T) {
	cuts := make(map[int]bool)
	for seed := range uint64(200) {
		fs := memfs.New()
		f := create(t, fs, "a", "0123456789")
		must(t, f.Sync())
		must(t, fs.SyncDir("/"))
		_, err := f.WriteAt([]byte("abcdefgh"), 10)
		must(t, err)
		after := fs.CrashClone(memfs.Crash{UnsyncedPct: 95, Torn: true, Rand: rand.New(rand.NewPCG(seed, 2))})
		b, err := vfs.ReadFile(after, "a")
		must(t, err)
		got := strings.TrimRight(string(b), "\x00")
		if !strings.HasPrefix("0123456789abcdefgh", got) || len(got) < 10 {
			t.Fatalf("seed %d: %q", seed, got)
		}
		cuts[len(got)-10] = true
	}
	if len(cuts) != 9 {
		t.Errorf("cuts at %v, want each of 0..8", cuts)
	}
}

// A rename takes place or not, in whatever company: the file is never lost and
// never under both names.
func TestRenameIsAtomicUnderPowerLoss(t *testing.T) {
	old, renamed := 0, 0
	for seed := range uint64(100) {
		fs := memfs.New()
		must(t, create(t, fs, "a.swap", "x").Sync())
		must(t, fs.SyncDir("/"))
		create(t, fs, "other", "")
		must(t, fs.Rename("a.swap", "a.log"))
		must(t, fs.Remove("other"))
		after := fs.CrashClone(memfs.Crash{UnsyncedPct: 50, Rand: rand.New(rand.NewPCG(seed, 3))})
		_, errOld := after.Stat("a.swap")
		_, errNew := after.Stat("a.log")
		if (errOld == nil) == (errNew == nil) {
			t.Fatalf("seed %d: %v", seed, tree(t, after, "/"))
		}
		if errOld == nil {
			old++
		} else {
			renamed++
		}
	}
	if old == 0 || renamed == 0 {
		t.Errorf("%d old, %d renamed: no chance in it", old, renamed)
	}
}

// A chain of renames is found as far as it got: each file once, whole.
func TestRenamesOfOneNameKeepTheirOrder(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(100) {
		fs := memfs.New()
		must(t, create(t, fs, "a", "old").Sync())
		must(t, create(t, fs, "x", "new").Sync())
		must(t, fs.SyncDir("/"))
		must(t, fs.Rename("a", "b"))
		must(t, fs.Rename("x", "a"))
		must(t, fs.Rename("b", "c"))
		seen[strings.Join(tree(t, fs.CrashClone(memfs.Crash{UnsyncedPct: 40, Rand: rand.New(rand.NewPCG(seed, 6))}), "/"), " ")] = true
	}
	want := []string{"/a=old /x=new", "/b=old /x=new", "/c=old /x=new", "/a=new /b=old", "/a=new /c=old"}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("never found %q", w)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("found %v", seen)
	}
}

func TestSameSeedSameDisk(t *testing.T) {
	build := func() *memfs.FS {
		fs := memfs.New()
		for i := range 20 {
			name := fmt.Sprintf("f%d", i)
			f := create(t, fs, name, string(pages(byte('a'+i), 3)))
			if i%2 == 0 {
				must(t, f.Sync())
			}
			_, err := f.WriteAt(pages('z', 2), 4096)
			must(t, err)
		}
		return fs
	}
	crash := func(seed uint64) []string {
		return tree(t, build().CrashClone(memfs.Crash{UnsyncedPct: 50, Torn: true, Rand: rand.New(rand.NewPCG(seed, 4))}), "/")
	}
	if !slices.Equal(crash(1), crash(1)) {
		t.Error("one seed, two disks")
	}
	if slices.Equal(crash(1), crash(2)) {
		t.Error("two seeds, one disk")
	}
}

func TestCapacity(t *testing.T) {
	fs := memfs.New()
	fs.SetCapacity(10)
	f := create(t, fs, "a", "0123")
	g := create(t, fs, "b", "0123")
	n, err := g.WriteAt([]byte("456789"), 4)
	if n != 2 || !vfs.IsNoSpace(err) {
		t.Errorf("wrote %d, %v, want 2 and ENOSPC", n, err)
	}
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 4 || err != nil {
		t.Errorf("overwriting needs no space: %d, %v", n, err)
	}
	if n, err := f.WriteAt([]byte("x"), 20); n != 0 || !vfs.IsNoSpace(err) {
		t.Errorf("beyond the end: %d, %v, want 0 and ENOSPC", n, err)
	}
	wantTree(t, fs, "/a=abcd", "/b=012345")
	must(t, fs.Remove("b")) // still open: its space is not free yet
	if avail, total, err := fs.Free("/"); avail != 0 || total != 10 || err != nil {
		t.Errorf("Free() = %d of %d, %v, want 0 of 10", avail, total, err)
	}
	must(t, g.Close())
	if avail, _, _ := fs.Free("/"); avail != 6 {
		t.Errorf("%d bytes free after the close, want 6", avail)
	}
	must(t, f.Truncate(1))
	if avail, _, _ := fs.Free("/"); avail != 9 {
		t.Errorf("%d bytes free after the cut, want 9", avail)
	}
	create(t, fs, "c", "xyz")
	must(t, fs.Rename("c", "a"))
	must(t, f.Close())
	if avail, _, _ := fs.Free("/"); avail != 7 {
		t.Errorf("%d bytes free after the replacement, want 7", avail)
	}
	after := fs.CrashClone(memfs.Crash{UnsyncedPct: 100})
	if avail, total, _ := after.Free("/"); avail != 7 || total != 10 {
		t.Errorf("%d of %d free after the crash, want 7 of 10", avail, total)
	}
}

func TestClock(t *testing.T) {
	fs := memfs.New()
	create(t, fs, "a", "x")
	create(t, fs, "b", "x")
	a, _ := fs.Stat("a")
	b, _ := fs.Stat("b")
	if !a.ModTime.Before(b.ModTime) {
		t.Errorf("a changed at %v, b later at %v", a.ModTime, b.ModTime)
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	fs.SetClock(func() time.Time { return at })
	create(t, fs, "c", "x")
	if c, _ := fs.Stat("c"); !c.ModTime.Equal(at) {
		t.Errorf("c changed at %v, want %v", c.ModTime, at)
	}
}

func TestDropUnsynced(t *testing.T) {
	fs := memfs.New()
	f := create(t, fs, "a", "xyz")
	must(t, f.Sync())
	_, err := f.WriteAt([]byte("QQQQQQ"), 1)
	must(t, err)
	f.(interface{ DropUnsynced() }).DropUnsynced()
	wantTree(t, fs, "/a=xyz")
}
