package osfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/internal/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Conformance(t, func(t *testing.T) (vfs.FS, string) { return osfs.New(), t.TempDir() })
}

func TestLockNamesItsHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	l, err := osfs.New().Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = osfs.New().Lock(name)
	if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v, want ErrLocked that names process %d", err, os.Getpid())
	}
}

// needFull ends a test that can't run here; where nothing may be skipped, as a
// failure.
func needFull(t *testing.T, why string, args ...any) {
	t.Helper()
	if os.Getenv("TIDEMARK_TEST_ROOT") == "1" {
		t.Fatalf(why, args...)
	}
	t.Skipf(why, args...)
}

// /dev/full takes an open and refuses an fsync: a file whose fsync fails, as
// good as any.
func TestFailedSyncPoisons(t *testing.T) {
	for name, sync := range map[string]func(vfs.File) error{"Sync": vfs.File.Sync, "SyncData": vfs.File.SyncData} {
		t.Run(name, func(t *testing.T) {
			f, err := osfs.New().OpenFile("/dev/full", os.O_RDWR, 0)
			if err != nil {
				needFull(t, "no /dev/full: %v", err)
			}
			defer f.Close()
			first := sync(f)
			if first == nil {
				needFull(t, "this system syncs /dev/full")
			}
			if errors.Is(first, vfs.ErrPoisoned) {
				t.Errorf("the first error is the cause itself, got %v", first)
			}
			_, readErr := f.ReadAt(make([]byte, 1), 0)
			_, writeErr := f.WriteAt([]byte("x"), 0)
			_, sizeErr := f.Size()
			for op, err := range map[string]error{
				"ReadAt": readErr, "WriteAt": writeErr, "Size": sizeErr, "Truncate": f.Truncate(0),
				"Sync": f.Sync(), "SyncData": f.SyncData(), "Allocate": f.Allocate(0, 1),
			} {
				if !errors.Is(err, vfs.ErrPoisoned) || !errors.Is(err, unix.EINVAL) {
					t.Errorf("%s after the failed sync: %v, want ErrPoisoned and the cause", op, err)
				}
			}
		})
	}
}

func TestWriteToFullDisk(t *testing.T) {
	f, err := osfs.New().OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		needFull(t, "no /dev/full: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); !vfs.IsNoSpace(err) {
		t.Errorf("got %v, want ENOSPC", err)
	}
}

func TestAllocateKeepsSizeAndTakesBlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := osfs.New().OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Allocate(0, 1<<50); err != nil {
		t.Errorf("more than the disk has must be no error, got %v", err)
	}
	if err := f.Allocate(0, 1<<16); err != nil {
		t.Fatal(err)
	}
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("size %d, %v after Allocate, want 0", size, err)
	}
}

func TestOSFileIsTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := osfs.New().OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, ok := f.OSFile()
	if !ok || o.Name() != name {
		t.Errorf("OSFile() = %v, %v", o, ok)
	}
}
