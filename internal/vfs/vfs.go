package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// ErrLocked says that another process, or another holder in this one, has the
// lock that Lock was asked for.
var ErrLocked = errors.New("locked by another process")

// ErrPoisoned is returned by every operation on a File but Close after a Sync
// or SyncData of it failed. It is wrapped together with the first cause.
var ErrPoisoned = errors.New("file is poisoned by a failed fsync")

// FS is a tree of directories and files. Names are paths in the style of the
// operating system; a relative one is relative to the root that the
// implementation was made with.
type FS interface {
	// OpenFile opens a file with os.O_* flags. O_APPEND is refused with
	// os.ErrInvalid: every write of ours has a position.
	OpenFile(name string, flag int, perm os.FileMode) (File, error)

	// Remove unlinks a file or an empty directory. Open Files of it live on.
	Remove(name string) error

	// RemoveAll removes name and all below it; a missing name is no error.
	RemoveAll(name string) error

	// Rename gives oldName's file or directory the name newName, replacing a
	// file that has it, in one step as seen by any reader.
	Rename(oldName, newName string) error

	// Mkdir makes a directory in one that is there; os.ErrExist if its name is taken.
	Mkdir(name string, perm os.FileMode) error

	// MkdirAll makes a directory and its missing parents.
	MkdirAll(name string, perm os.FileMode) error

	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)

	// Stat describes a name.
	Stat(name string) (Info, error)

	// SyncDir makes the names in dir durable, not the content of the files.
	SyncDir(dir string) error

	// Lock takes an exclusive lock on name, creating the file if need be, and
	// holds it until the Closer is closed or the process dies. A lock that is
	// held elsewhere is ErrLocked at once, never a wait.
	Lock(name string) (io.Closer, error)

	// Locked reports whether another holder has the lock that Lock would take,
	// and changes nothing. A name that doesn't exist is not locked.
	Locked(name string) (bool, error)

	// Free returns the bytes that a plain user may still write below dir, and
	// the size of the file system that holds it.
	Free(dir string) (available, total int64, err error)
}

// File is one open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Truncate sets the size; a longer one reads as zeros.
	Truncate(size int64) error

	// Sync makes content and all metadata durable (fsync).
	Sync() error

	// SyncData makes content durable, and the size if it grew (fdatasync).
	SyncData() error

	// Allocate asks for disk blocks for n bytes from off without changing the
	// size (fallocate, KEEP_SIZE). It is a hint: where the disk is full or the
	// call unknown it does nothing and returns nil.
	Allocate(off, n int64) error

	// Size returns the present length in bytes.
	Size() (int64, error)

	// OSFile returns the operating system's file for sendfile, if there is
	// one that may be read past this interface.
	OSFile() (*os.File, bool)
}

// Info describes one name.
type Info struct {
	Name    string // base name
	Size    int64  // bytes; 0 for a directory
	IsDir   bool
	ModTime time.Time // of the last change of the content
}

// IsNoSpace reports whether err says that the disk or the quota is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsIOError reports whether err says that the disk failed at a call, or that the
// kernel makes no sense of what it holds. A full disk, and what somebody has to be
// allowed or has set a limit to, are no such thing.
func IsIOError(err error) bool {
	return slices.ContainsFunc(ioErrors[:], func(e syscall.Errno) bool { return errors.Is(err, e) }) || isSystemIOError(err)
}

// ioErrors are those that every system has.
var ioErrors = [...]syscall.Errno{
	syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.EBADMSG, syscall.EILSEQ, syscall.ETIMEDOUT, syscall.EROFS,
}

// Poisoned wraps the cause of a failed fsync for every later operation.
func Poisoned(name string, cause error) error {
	return fmt.Errorf("%s: %w: %w", name, ErrPoisoned, cause)
}
