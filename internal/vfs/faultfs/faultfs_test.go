package faultfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/internal/vfs/vfstest"
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

func TestConformanceWithoutFaults(t *testing.T) {
	vfstest.Conformance(t, func(*testing.T) (vfs.FS, string) {
		return faultfs.Wrap(memfs.New(), faultfs.None()), "/"
	})
}

func TestPrinting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	inj := faultfs.First(
		faultfs.When(faultfs.And(
			faultfs.PathMatch("*.log"),
			faultfs.OpIn(faultfs.OpWrite, faultfs.OpSyncData),
			faultfs.Not(faultfs.Under("/kept")),
			faultfs.NthOp(3),
		), faultfs.EIO()),
		faultfs.NewToggle(faultfs.When(faultfs.Or(faultfs.Mutations(), faultfs.FromNth(9)), faultfs.ENOSPC(7))),
		faultfs.When(faultfs.Randomly(r, 0.5), faultfs.Latency(time.Second, nil)),
	)
	want := `(first (when (and (path "*.log") (op write syncdata) (not (under "/kept")) (nth 3)) eio)` +
		` (toggle (when (or (mutations) (from 9)) (enospc 7))) (when (randomly 0.5%) (latency 1s)))`
	if got := inj.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPredicates(t *testing.T) {
	write := func(path string) faultfs.Op { return faultfs.Op{Kind: faultfs.OpWrite, Path: path} }
	move := faultfs.Op{Kind: faultfs.OpRename, Path: "/d/a", NewPath: "/e/b.log"}
	for _, c := range []struct {
		p    faultfs.Predicate
		op   faultfs.Op
		want bool
	}{
		{faultfs.PathMatch("*.log"), write("/d/x.log"), true},
		{faultfs.PathMatch("*.log"), write("/d/x.index"), false},
		{faultfs.PathMatch("/d/*"), write("/d/x"), true},
		{faultfs.PathMatch("/d/*"), write("/d/x/y"), false},
		{faultfs.PathMatch("*.log"), move, true},
		{faultfs.PathMatch("["), write("["), false},
		{faultfs.Under("/d"), write("/d"), true},
		{faultfs.Under("/d"), write("/d/x/y"), true},
		{faultfs.Under("/d"), write("/dx"), false},
		{faultfs.Under("/"), write("/d"), true},
		{faultfs.Under("/e"), move, true},
		{faultfs.OpIn(faultfs.OpRead), write("x"), false},
		{faultfs.OpIn(faultfs.OpRead, faultfs.OpWrite), write("x"), true},
		{faultfs.Mutations(), write("x"), true},
		{faultfs.Mutations(), faultfs.Op{Kind: faultfs.OpStat}, false},
		{faultfs.Not(faultfs.Always()), write("x"), false},
		{faultfs.And(), write("x"), true},
		{faultfs.Or(), write("x"), false},
		{faultfs.Or(faultfs.OpIn(faultfs.OpRead), faultfs.Always()), write("x"), true},
	} {
		if got := c.p.Match(c.op); got != c.want {
			t.Errorf("%s of %s: %v, want %v", c.p, c.op, got, c.want)
		}
	}
}

func TestNthCountsWhatReachesIt(t *testing.T) {
	var failed []int
	fs := faultfs.Wrap(memfs.New(), faultfs.When(faultfs.And(
		faultfs.OpIn(faultfs.OpWrite), faultfs.PathMatch("a"), faultfs.NthOp(3)), faultfs.EIO()))
	a, b := create(t, fs, "a", "x"), create(t, fs, "b", "x") // a's first write
	for i := range 5 {
		if _, err := b.WriteAt([]byte("y"), 0); err != nil {
			t.Errorf("b: %v", err)
		}
		if _, err := a.WriteAt([]byte("y"), 0); err != nil {
			failed = append(failed, i+2)
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("a: %v, want EIO", err)
			}
		}
	}
	if !slices.Equal(failed, []int{3}) {
		t.Errorf("writes %v of a failed, want the third", failed)
	}
}

func TestRandomlyRepeatsWithItsSeed(t *testing.T) {
	draw := func(seed uint64) (hits []int) {
		p := faultfs.Randomly(rand.New(rand.NewPCG(seed, 0)), 20)
		for i := range 200 {
			if p.Match(faultfs.Op{}) {
				hits = append(hits, i)
			}
		}
		return hits
	}
	if a := draw(1); !slices.Equal(a, draw(1)) || slices.Equal(a, draw(2)) || len(a) < 20 || len(a) > 60 {
		t.Errorf("20%% of 200 by seed 1: %v", a)
	}
}

func TestShortWrites(t *testing.T) {
	for _, c := range []struct {
		fault *faultfs.Fault
		n     int
		err   error
	}{
		{faultfs.EIO(), 0, syscall.EIO},
		{faultfs.ShortWrite(2), 2, syscall.EIO},
		{faultfs.ShortWrite(99), 4, syscall.EIO},
		{faultfs.ENOSPC(3), 3, syscall.ENOSPC},
		{faultfs.Fail(syscall.EROFS), 0, syscall.EROFS},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			mem := memfs.New()
			toggle := faultfs.NewToggle(faultfs.When(faultfs.OpIn(faultfs.OpWrite), c.fault))
			f := create(t, faultfs.Wrap(mem, toggle), "a", "0123456789")
			toggle.On()
			if n, err := f.WriteAt([]byte("abcde"), 10); n != c.n || !errors.Is(err, c.err) {
				t.Errorf("wrote %d, %v, want %d, %v", n, err, c.n, c.err)
			}
			toggle.Off()
			b, err := vfs.ReadFile(mem, "a")
			if want := "0123456789" + "abcde"[:c.n]; string(b) != want || err != nil {
				t.Errorf("the file holds %q, %v, want %q", b, err, want)
			}
			if n, err := f.WriteAt([]byte("abcde"), 10); n != 5 || err != nil {
				t.Errorf("with the faults off: %d, %v", n, err)
			}
		})
	}
	mem := memfs.New()
	f := create(t, faultfs.Wrap(mem, faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.FromNth(2)),
		faultfs.ShortWriteAnywhere(rand.New(rand.NewPCG(1, 1))))), "a", "")
	seen := make(map[int]bool)
	for range 100 {
		n, err := f.WriteAt([]byte("abcde"), 0)
		if err == nil || n > 4 {
			t.Fatalf("wrote %d, %v", n, err)
		}
		seen[n] = true
	}
	if len(seen) != 5 {
		t.Errorf("lengths %v, want each of 0..4", seen)
	}
}

func TestFsyncFailurePoisonsAndForgets(t *testing.T) {
	for _, c := range []struct {
		fault *faultfs.Fault
		left  string // what another reader then sees
	}{{faultfs.FsyncFails(), "old"}, {faultfs.EIO(), "new!"}} {
		t.Run(c.fault.String(), func(t *testing.T) {
			mem := memfs.New()
			fs := faultfs.Wrap(mem, faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), faultfs.NthOp(2)), c.fault))
			f := create(t, fs, "a", "old")
			must(t, f.Sync())
			_, err := f.WriteAt([]byte("new!"), 0)
			must(t, err)
			if err := f.SyncData(); !errors.Is(err, syscall.EIO) || errors.Is(err, vfs.ErrPoisoned) {
				t.Errorf("the failing sync: %v, want plain EIO", err)
			}
			_, readErr := f.ReadAt(make([]byte, 1), 0)
			_, writeErr := f.WriteAt([]byte("x"), 0)
			_, sizeErr := f.Size()
			for op, err := range map[string]error{"read": readErr, "write": writeErr, "size": sizeErr, "truncate": f.Truncate(0),
				"sync again": f.Sync(), "syncdata again": f.SyncData(), "allocate": f.Allocate(0, 1)} {
				if !errors.Is(err, vfs.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
					t.Errorf("%s: %v, want ErrPoisoned and EIO", op, err)
				}
			}
			must(t, f.Close())
			if b, err := vfs.ReadFile(fs, "a"); string(b) != c.left || err != nil {
				t.Errorf("another reader sees %q, %v, want %q", b, err, c.left)
			}
		})
	}
}

func TestBitFlips(t *testing.T) {
	mem := memfs.New()
	create(t, mem, "a", "\x00\x00\x00\x00")
	open := func(fault *faultfs.Fault) vfs.File {
		f, err := faultfs.Wrap(mem, faultfs.When(faultfs.OpIn(faultfs.OpRead), fault)).OpenFile("a", os.O_RDONLY, 0)
		must(t, err)
		return f
	}
	b := make([]byte, 3)
	f := open(faultfs.BitFlipAt(2, 0x81))
	for _, c := range []struct {
		off  int64
		want string
	}{{0, "\x00\x00\x81"}, {1, "\x00\x81\x00"}} {
		if _, err := f.ReadAt(b, c.off); err != nil || string(b) != c.want {
			t.Errorf("read at %d: %q, %v, want %q", c.off, b, err, c.want)
		}
	}
	if _, err := f.ReadAt(b[:1], 3); err != nil || b[0] != 0 {
		t.Errorf("a read beside the flip: %q, %v", b[:1], err)
	}
	f = open(faultfs.BitFlip(rand.New(rand.NewPCG(1, 1))))
	for range 20 {
		_, err := f.ReadAt(b, 0)
		must(t, err)
		ones := 0
		for _, x := range b {
			for ; x != 0; x &= x - 1 {
				ones++
			}
		}
		if ones != 1 {
			t.Errorf("read %x, want one bit set", b)
		}
	}
	if c, err := vfs.ReadFile(mem, "a"); string(c) != "\x00\x00\x00\x00" || err != nil {
		t.Errorf("the file itself changed: %q, %v", c, err)
	}
}

func TestHooksRunBefore(t *testing.T) {
	mem := memfs.New()
	var trace []string
	fs := faultfs.Wrap(mem, faultfs.First(
		faultfs.When(faultfs.OpIn(faultfs.OpRename), faultfs.Latency(3*time.Second, func(op faultfs.Op, d time.Duration) {
			_, err := mem.Stat(op.Path)
			trace = append(trace, fmt.Sprint(op, " ", d, " ", err == nil))
		})),
		faultfs.When(faultfs.OpIn(faultfs.OpRemove), faultfs.Stall(func(op faultfs.Op) {
			_, err := mem.Stat(op.Path)
			trace = append(trace, fmt.Sprint(op, " ", err == nil))
		})),
	))
	create(t, fs, "a", "")
	must(t, fs.Rename("a", "b"))
	must(t, fs.Remove("b"))
	if want := []string{"rename a b 3s true", "remove b true"}; !slices.Equal(trace, want) {
		t.Errorf("got %q, want %q", trace, want)
	}
}

func TestEveryOperationCanFail(t *testing.T) {
	toggle := faultfs.NewToggle(faultfs.When(faultfs.Always(), faultfs.EIO()))
	fs := faultfs.Wrap(memfs.New(), toggle)
	f, g := create(t, fs, "a", "x"), create(t, fs, "g", "x")
	toggle.On()
	_, openErr := fs.OpenFile("a", os.O_RDWR, 0)
	_, createErr := fs.OpenFile("c", os.O_CREATE|os.O_RDWR, 0)
	_, listErr := fs.List("/")
	_, statErr := fs.Stat("a")
	_, lockErr := fs.Lock("lock")
	_, _, freeErr := fs.Free("/")
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("y"), 0)
	_, sizeErr := f.Size()
	for op, err := range map[string]error{
		"open": openErr, "create": createErr, "list": listErr, "stat": statErr, "lock": lockErr, "free": freeErr,
		"read": readErr, "write": writeErr, "size": sizeErr, "truncate": f.Truncate(0), "allocate": f.Allocate(0, 1),
		"remove": fs.Remove("a"), "removeall": fs.RemoveAll("a"), "rename": fs.Rename("a", "b"), "mkdir": fs.Mkdir("d", 0), "mkdirall": fs.MkdirAll("d", 0),
		"syncdir": fs.SyncDir("/"), "sync": f.Sync(), "syncdata": g.SyncData(), "close": g.Close(),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", op, err)
		}
	}
	if _, err := g.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a Close that was told to fail left the file open")
	}
	toggle.Off()
	if names, err := fs.List("/"); err != nil || !slices.Equal(names, []string{"a", "g"}) {
		t.Errorf("the failed operations left %v, %v", names, err)
	}
}

// Crash at every operation of an atomic replacement, by power loss and by kill:
// the content is the old or the new, whole, and the next attempt works.
func TestWriteFileAtomicSurvivesACrashAtEveryOp(t *testing.T) {
	counter := faultfs.NewCounter(faultfs.Mutations())
	must(t, vfs.WriteFileAtomic(faultfs.Wrap(memfs.New(), counter), "a", []byte("new content")))
	if counter.Count() != 5 {
		t.Fatalf("%s, want create, write, sync, rename, syncdir", counter)
	}
	outcomes := make(map[string]int)
	for k := int64(1); k <= counter.Count(); k++ {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, uint64(k)))
			mem := memfs.New()
			must(t, vfs.WriteFileAtomic(mem, "a", []byte("old")))
			var after *memfs.FS
			crash := faultfs.Stall(func(faultfs.Op) {
				if seed%2 == 0 {
					after = mem.CrashClone(memfs.Crash{UnsyncedPct: 50, Torn: true, Rand: r})
				} else {
					after = mem.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(r)})
				}
			})
			err := vfs.WriteFileAtomic(faultfs.Wrap(mem, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.NthOp(k)), crash)),
				"a", []byte("new content"))
			if !errors.Is(err, memfs.ErrDead) {
				t.Fatalf("op %d: %v, want ErrDead", k, err)
			}
			b, err := vfs.ReadFile(after, "a")
			if err != nil || string(b) != "old" && string(b) != "new content" {
				t.Fatalf("op %d seed %d: %q, %v", k, seed, b, err)
			}
			outcomes[string(b)]++
			must(t, vfs.WriteFileAtomic(after, "a", []byte("third")))
			if b, err := vfs.ReadFile(after.CrashClone(memfs.Crash{}), "a"); string(b) != "third" || err != nil {
				t.Fatalf("op %d seed %d, after another write: %q, %v", k, seed, b, err)
			}
		}
	}
	if outcomes["old"] == 0 || outcomes["new content"] == 0 {
		t.Errorf("outcomes %v: the crashes are not where the change happens", outcomes)
	}
}

// Fail at every operation of an atomic replacement: the error is told, the old
// content or the new stands, and before the rename nothing is left beside it.
func TestWriteFileAtomicFailsCleanly(t *testing.T) {
	for k := int64(1); k <= 5; k++ {
		mem := memfs.New()
		must(t, vfs.WriteFileAtomic(mem, "a", []byte("old")))
		fs := faultfs.Wrap(mem, faultfs.When(faultfs.And(faultfs.Mutations(), faultfs.NthOp(k)), faultfs.ENOSPC(1)))
		if err := vfs.WriteFileAtomic(fs, "a", []byte("new")); !vfs.IsNoSpace(err) {
			t.Errorf("op %d: %v, want ENOSPC", k, err)
		}
		want := "old"
		if k == 5 {
			want = "new"
		}
		names, err := mem.List("/")
		must(t, err)
		if b, err := vfs.ReadFile(mem, "a"); string(b) != want || err != nil || !slices.Equal(names, []string{"a"}) {
			t.Errorf("op %d: %q, %v among %v, want %q alone", k, b, err, names, want)
		}
	}
}
