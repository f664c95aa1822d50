package vfstest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
)

// New makes a file system for one test, and names an empty directory in it.
type New func(t *testing.T) (fs vfs.FS, root string)

// env is one test's file system.
type env struct {
	*testing.T
	fs   vfs.FS
	root string
}

// Conformance runs the suite.
func Conformance(t *testing.T, newFS New) {
	for _, c := range []struct {
		name string
		run  func(e *env)
	}{
		{"ReadAndWrite", readAndWrite},
		{"ReadAtEnds", readAtEnds},
		{"Gap", gap},
		{"Truncate", truncate},
		{"OpenFlags", openFlags},
		{"AccessModes", accessModes},
		{"Closed", closed},
		{"NegativeOffset", negativeOffset},
		{"Directories", directories},
		{"Rename", rename},
		{"RenameDirectory", renameDirectory},
		{"RemoveOpen", removeOpen},
		{"RemoveAll", removeAll},
		{"TwoHandles", twoHandles},
		{"SyncAndAllocate", syncAndAllocate},
		{"Lock", lock},
		{"Free", free},
		{"Helpers", helpers},
		{"Concurrent", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, root := newFS(t)
			c.run(&env{T: t, fs: fs, root: root})
		})
	}
}

func (e *env) path(parts ...string) string {
	return filepath.Join(append([]string{e.root}, parts...)...)
}

func (e *env) open(name string, flag int) vfs.File {
	e.Helper()
	f, err := e.fs.OpenFile(e.path(name), flag, 0o644)
	if err != nil {
		e.Fatalf("open %s: %v", name, err)
	}
	e.Cleanup(func() { _ = f.Close() })
	return f
}

func (e *env) create(name, content string) vfs.File {
	e.Helper()
	f := e.open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
	e.write(f, content, 0)
	return f
}

func (e *env) write(f vfs.File, content string, off int64) {
	e.Helper()
	if n, err := f.WriteAt([]byte(content), off); n != len(content) || err != nil {
		e.Fatalf("write %q at %d: %d, %v", content, off, n, err)
	}
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("got %v, want %v", err, want)
	}
}

// content checks a file's size and bytes.
func (e *env) content(name, want string) {
	e.Helper()
	got, err := vfs.ReadFile(e.fs, e.path(name))
	if err != nil {
		e.Fatalf("read %s: %v", name, err)
	}
	if string(got) != want {
		e.Errorf("%s holds %q, want %q", name, got, want)
	}
	info, err := e.fs.Stat(e.path(name))
	e.ok(err)
	if info.Size != int64(len(want)) || info.IsDir || info.Name != filepath.Base(name) {
		e.Errorf("Stat(%s) = %+v, want %d bytes", name, info, len(want))
	}
}

func (e *env) names(dir string, want ...string) {
	e.Helper()
	got, err := e.fs.List(e.path(dir))
	e.ok(err)
	if !slices.Equal(got, want) {
		e.Errorf("List(%s) = %v, want %v", dir, got, want)
	}
}

func readAndWrite(e *env) {
	f := e.create("a", "hello")
	e.content("a", "hello")
	e.write(f, "LL", 2)
	e.content("a", "heLLo")
	e.write(f, "oXY", 4)
	e.content("a", "heLLoXY")
	if size, err := f.Size(); size != 7 || err != nil {
		e.Errorf("Size() = %d, %v, want 7", size, err)
	}
	if n, err := f.WriteAt(nil, 100); n != 0 || err != nil {
		e.Errorf("an empty write: %d, %v", n, err)
	}
	e.content("a", "heLLoXY")
	big := bytes.Repeat([]byte("0123456789abcdef"), 3000)
	e.write(f, string(big), 0)
	e.content("a", string(big))
}

func readAtEnds(e *env) {
	f := e.create("a", "hello")
	b := make([]byte, 4)
	for _, c := range []struct {
		off  int64
		want string
		err  error
	}{{0, "hell", nil}, {1, "ello", nil}, {2, "llo", io.EOF}, {5, "", io.EOF}, {9, "", io.EOF}} {
		n, err := f.ReadAt(b, c.off)
		if string(b[:n]) != c.want || !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
			e.Errorf("ReadAt %d: %q, %v, want %q, %v", c.off, b[:n], err, c.want, c.err)
		}
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		e.Errorf("an empty read: %d, %v", n, err)
	}
}

func gap(e *env) {
	f := e.create("a", "x")
	e.write(f, "y", 9000)
	e.content("a", "x"+string(make([]byte, 8999))+"y")
}

func truncate(e *env) {
	f := e.create("a", "hello")
	e.ok(f.Truncate(2))
	e.content("a", "he")
	e.ok(f.Truncate(4))
	e.content("a", "he\x00\x00")
	e.write(f, "z", 4)
	e.content("a", "he\x00\x00z")
	e.ok(f.Truncate(0))
	e.content("a", "")
	if err := f.Truncate(-1); err == nil {
		e.Error("Truncate(-1) succeeded")
	}
}

func openFlags(e *env) {
	_, err := e.fs.OpenFile(e.path("none"), os.O_RDWR, 0)
	e.is(err, os.ErrNotExist)
	_, err = e.fs.OpenFile(e.path("none", "deeper"), os.O_CREATE|os.O_RDWR, 0o644)
	e.is(err, os.ErrNotExist)
	e.create("a", "hello")
	_, err = e.fs.OpenFile(e.path("a"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	e.is(err, os.ErrExist)
	_, err = e.fs.OpenFile(e.path("a"), os.O_RDWR|os.O_APPEND, 0)
	e.is(err, os.ErrInvalid)
	if _, err = e.fs.OpenFile(e.path("a", "b"), os.O_CREATE|os.O_RDWR, 0o644); err == nil {
		e.Error("opened a file below a file")
	}
	e.open("a", os.O_CREATE|os.O_RDWR)
	e.content("a", "hello")
	e.open("a", os.O_RDWR|os.O_TRUNC)
	e.content("a", "")
	if _, err = e.fs.OpenFile(e.root, os.O_RDWR, 0); err == nil {
		e.Error("opened a directory for writing")
	}
}

func accessModes(e *env) {
	e.create("a", "hello")
	r := e.open("a", os.O_RDONLY)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		e.Error("wrote through a File opened for reading")
	}
	if err := r.Truncate(0); err == nil {
		e.Error("truncated through a File opened for reading")
	}
	w := e.open("a", os.O_WRONLY)
	e.write(w, "J", 0)
	if _, err := w.ReadAt(make([]byte, 1), 0); err == nil {
		e.Error("read through a File opened for writing")
	}
	e.content("a", "Jello")
}

func closed(e *env) {
	f := e.create("a", "hello")
	e.ok(f.Close())
	_, err := f.ReadAt(make([]byte, 1), 0)
	e.is(err, os.ErrClosed)
	_, err = f.WriteAt([]byte("x"), 0)
	e.is(err, os.ErrClosed)
	e.is(f.Truncate(0), os.ErrClosed)
	e.is(f.Sync(), os.ErrClosed)
	e.is(f.SyncData(), os.ErrClosed)
	e.is(f.Close(), os.ErrClosed)
	_, err = f.Size()
	e.is(err, os.ErrClosed)
	e.content("a", "hello")
}

func negativeOffset(e *env) {
	f := e.create("a", "hello")
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || errors.Is(err, io.EOF) {
		e.Errorf("ReadAt -1: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		e.Error("WriteAt -1 succeeded")
	}
	e.content("a", "hello")
}

func directories(e *env) {
	e.names("")
	e.ok(e.fs.MkdirAll(e.path("d", "e", "f"), 0o755))
	e.ok(e.fs.MkdirAll(e.path("d", "e"), 0o755))
	e.create("d/b", "1")
	e.create("d/a", "2")
	e.ok(e.fs.Mkdir(e.path("d", "c"), 0o755))
	e.names("d", "a", "b", "c", "e")
	for _, taken := range []string{"a", "c", "e"} {
		e.is(e.fs.Mkdir(e.path("d", taken), 0o755), os.ErrExist)
	}
	e.is(e.fs.Mkdir(e.path("none", "x"), 0o755), os.ErrNotExist)
	if err := e.fs.Mkdir(e.path("d", "a", "x"), 0o755); err == nil {
		e.Error("made a directory in a file")
	}
	e.ok(e.fs.Remove(e.path("d", "c")))
	info, err := e.fs.Stat(e.path("d"))
	e.ok(err)
	if !info.IsDir || info.Name != "d" || info.Size != 0 {
		e.Errorf("Stat(d) = %+v", info)
	}
	_, err = e.fs.Stat(e.path("none"))
	e.is(err, os.ErrNotExist)
	_, err = e.fs.List(e.path("none"))
	e.is(err, os.ErrNotExist)
	e.is(e.fs.SyncDir(e.path("none")), os.ErrNotExist)
	if _, err := e.fs.List(e.path("d", "a")); err == nil {
		e.Error("listed a file")
	}
	if err := e.fs.MkdirAll(e.path("d", "a", "x"), 0o755); err == nil {
		e.Error("made a directory below a file")
	}
	if err := e.fs.Remove(e.path("d")); err == nil {
		e.Error("removed a directory that is not empty")
	}
	e.ok(e.fs.Remove(e.path("d", "a")))
	e.is(e.fs.Remove(e.path("d", "a")), os.ErrNotExist)
	e.ok(e.fs.Remove(e.path("d", "e", "f")))
	e.names("d", "b", "e")
	e.names("d/e")
}

func rename(e *env) {
	f := e.create("a", "from a")
	e.create("b", "from b")
	e.ok(e.fs.Rename(e.path("a"), e.path("b")))
	e.content("b", "from a")
	e.names("", "b")
	e.write(f, "F", 0) // the File follows its file
	e.content("b", "From a")
	e.is(e.fs.Rename(e.path("a"), e.path("c")), os.ErrNotExist)
	e.ok(e.fs.Rename(e.path("b"), e.path("b")))
	e.content("b", "From a")
	e.ok(e.fs.MkdirAll(e.path("d"), 0o755))
	if err := e.fs.Rename(e.path("b"), e.path("d")); err == nil {
		e.Error("a file replaced a directory")
	}
	e.ok(e.fs.Rename(e.path("b"), e.path("d", "c")))
	e.content("d/c", "From a")
	e.is(e.fs.Rename(e.path("d", "c"), e.path("none", "c")), os.ErrNotExist)
}

func renameDirectory(e *env) {
	e.ok(e.fs.MkdirAll(e.path("d", "e"), 0o755))
	e.create("d/e/x", "1")
	e.ok(e.fs.Rename(e.path("d"), e.path("g")))
	e.content("g/e/x", "1")
	e.names("", "g")
	if err := e.fs.Rename(e.path("g"), e.path("g", "e", "h")); err == nil {
		e.Error("a directory moved into itself")
	}
	e.ok(e.fs.MkdirAll(e.path("full", "y"), 0o755))
	if err := e.fs.Rename(e.path("g"), e.path("full")); err == nil {
		e.Error("a directory replaced one that is not empty")
	}
	e.create("file", "")
	if err := e.fs.Rename(e.path("g"), e.path("file")); err == nil {
		e.Error("a directory replaced a file")
	}
}

func removeOpen(e *env) {
	f := e.create("a", "hello")
	e.ok(e.fs.Remove(e.path("a")))
	b := make([]byte, 5)
	if n, err := f.ReadAt(b, 0); n != 5 || (err != nil && err != io.EOF) {
		e.Errorf("read of a removed file: %d, %v", n, err)
	}
	e.write(f, "J", 0)
	e.create("a", "new")
	e.content("a", "new")
	e.ok(f.Close())
	e.content("a", "new")
}

func removeAll(e *env) {
	e.ok(e.fs.MkdirAll(e.path("d", "e"), 0o755))
	e.create("d/e/x", "1")
	e.create("d/y", "2")
	e.create("z", "3")
	e.ok(e.fs.RemoveAll(e.path("d")))
	e.names("", "z")
	e.ok(e.fs.RemoveAll(e.path("d")))
	e.ok(e.fs.RemoveAll(e.path("d", "e")))
	e.ok(e.fs.RemoveAll(e.path("z")))
	e.names("")
}

func twoHandles(e *env) {
	w := e.create("a", "hello")
	r := e.open("a", os.O_RDONLY)
	e.write(w, "XX", 3)
	b := make([]byte, 5)
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		e.Fatal(err)
	}
	if string(b) != "helXX" {
		e.Errorf("the other File sees %q", b)
	}
	e.ok(w.Truncate(1))
	if size, err := r.Size(); size != 1 || err != nil {
		e.Errorf("the other File's size is %d, %v", size, err)
	}
}

func syncAndAllocate(e *env) {
	f := e.create("a", "hello")
	e.ok(f.Allocate(5, 1<<20))
	e.ok(f.Allocate(0, 0))
	e.content("a", "hello") // the size is kept
	e.ok(f.SyncData())
	e.ok(f.Sync())
	e.ok(e.fs.SyncDir(e.root))
	e.write(f, "!", 5)
	e.content("a", "hello!")
}

func lock(e *env) {
	l, err := e.fs.Lock(e.path(".lock"))
	e.ok(err)
	_, err = e.fs.Lock(e.path(".lock"))
	e.is(err, vfs.ErrLocked)
	for name, want := range map[string]bool{".lock": true, ".lock2": false, "none": false} {
		if held, err := e.fs.Locked(e.path(name)); err != nil || held != want {
			e.Errorf("%s: locked %v, %v; want %v", name, held, err, want)
		}
	}
	other, err := e.fs.Lock(e.path(".lock2"))
	e.ok(err)
	e.ok(other.Close())
	e.ok(l.Close())
	l, err = e.fs.Lock(e.path(".lock"))
	e.ok(err)
	e.ok(l.Close())
	if _, err := e.fs.Lock(e.path("none", ".lock")); err == nil {
		e.Error("locked a name in a directory that is not there")
	}
}

func free(e *env) {
	available, total, err := e.fs.Free(e.root)
	e.ok(err)
	if available < 0 || total <= 0 || available > total {
		e.Errorf("Free() = %d of %d", available, total)
	}
	_, _, err = e.fs.Free(e.path("none"))
	e.is(err, os.ErrNotExist)
}

func helpers(e *env) {
	_, err := vfs.ReadFile(e.fs, e.path("a"))
	e.is(err, os.ErrNotExist)
	e.ok(vfs.WriteFileAtomic(e.fs, e.path("a"), []byte("one")))
	e.content("a", "one")
	e.ok(vfs.WriteFileAtomic(e.fs, e.path("a"), nil))
	e.content("a", "")
	e.create("b"+vfs.TempSuffix, "a leftover longer than the new content")
	e.ok(vfs.WriteFileAtomic(e.fs, e.path("b"), []byte("two")))
	e.content("b", "two")
	e.names("", "a", "b")
	if err := vfs.WriteFileAtomic(e.fs, e.path("none", "a"), nil); err == nil {
		e.Error("wrote into a directory that is not there")
	}
}

func concurrent(e *env) {
	f := e.create("a", string(make([]byte, 64)))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			b := make([]byte, 8)
			for range 50 {
				_, _ = f.WriteAt(bytes.Repeat([]byte{byte(i)}, 8), int64(i*8))
				if _, err := f.ReadAt(b, int64(i*8)); err != nil || b[0] != byte(i) || b[7] != byte(i) {
					e.Errorf("writer %d reads %v, %v", i, b, err)
					return
				}
				name := e.path("n" + strconv.Itoa(i))
				if err := vfs.WriteFileAtomic(e.fs, name, b); err != nil {
					e.Error(err)
					return
				}
				if _, err := e.fs.List(e.root); err != nil {
					e.Error(err)
				}
			}
		})
	}
	all.Wait()
	e.names("", "a", "n0", "n1", "n2", "n3")
}
