package osfs_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
)

// resident counts the pages of [from, to) that are in memory.
func resident(t *testing.T, f *os.File, from, to int64) (n int) {
	t.Helper()
	m, err := unix.Mmap(int(f.Fd()), 0, int(to), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	page := os.Getpagesize()
	vec := make([]byte, (len(m)+page-1)/page)
	if err := mincore(m, vec); err != nil {
		needFull(t, "mincore: %v", err)
	}
	for _, v := range vec[from/int64(page):] {
		n += int(v & 1)
	}
	return n
}

// TestReadAside: what is read is right, what was in memory stays there, and what
// was not is not there afterwards.
func TestReadAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	os1, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer os1.Close()
	if err := errors.Join(os1.Sync(), unix.Fadvise(int(os1.Fd()), 0, 0, unix.FADV_DONTNEED), unix.Fadvise(int(os1.Fd()), 0, 0, unix.FADV_RANDOM)); err != nil {
		t.Fatal(err)
	}
	hot := make([]byte, 1<<20) // somebody reads the second MiB
	if _, err := os1.ReadAt(hot, 1<<20); err != nil {
		t.Fatal(err)
	}
	hotPages, coldPages := resident(t, os1, 1<<20, 2<<20), resident(t, os1, 2<<20, 4<<20)
	if hotPages == 0 || coldPages > 0 {
		t.Skipf("%d and %d pages in memory: this file system keeps its own counsel", hotPages, coldPages)
	}
	f, err := osfs.New().OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = vfs.Aside(f)
	defer f.Close()
	got := make([]byte, len(want)+10)
	n, err := f.ReadAt(got, 0)
	if n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if h, c := resident(t, os1, 1<<20, 2<<20), resident(t, os1, 2<<20, 4<<20); h < hotPages || c > 0 {
		t.Errorf("%d of %d pages stayed, %d came", h, hotPages, c)
	}
}
