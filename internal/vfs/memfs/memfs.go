package memfs

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"

	"github.com/tidemark/tidemark/internal/vfs"
)

// FS is a disk in memory. All methods may be called from any goroutine.
type FS struct{}

// Crash says how cruel a power loss is.
type Crash struct {
	// UnsyncedPct is the chance in percent that an unsynced 4 KiB page, or an
	// unsynced name, is found after the crash.
	UnsyncedPct int
	// Torn lets the last unsynced write of a file be cut at any byte.
	Torn bool
	// Rand makes the choices.
	Rand *rand.Rand
}

// New returns an empty disk without a bound.
func New() *FS { return &FS{} }

var _ vfs.FS = (*FS)(nil)

var errEmpty = errors.ErrUnsupported

// OpenFile opens a file.
func (*FS) OpenFile(string, int, os.FileMode) (vfs.File, error) { return nil, errEmpty }

// Remove unlinks a file or an empty directory.
func (*FS) Remove(string) error { return errEmpty }

// RemoveAll removes name and all below it.
func (*FS) RemoveAll(string) error { return errEmpty }

// Rename moves a name.
func (*FS) Rename(string, string) error { return errEmpty }

// MkdirAll makes a directory and its parents.
func (*FS) MkdirAll(string, os.FileMode) error { return errEmpty }

// List returns the base names in a directory, sorted.
func (*FS) List(string) ([]string, error) { return nil, errEmpty }

// Stat describes a name.
func (*FS) Stat(string) (vfs.Info, error) { return vfs.Info{}, errEmpty }

// SyncDir makes the names in dir durable.
func (*FS) SyncDir(string) error { return errEmpty }

// Lock takes an exclusive lock.
func (*FS) Lock(string) (io.Closer, error) { return nil, errEmpty }

// Free returns what may still be written.
func (*FS) Free(string) (available, total int64, err error) { return 0, 0, errEmpty }

// CrashClone returns the disk as found after a power loss.
func (*FS) CrashClone(Crash) *FS { return New() }
