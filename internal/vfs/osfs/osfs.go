package osfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/internal/vfs"
)

// FS is the operating system's file system. Its zero value is ready; relative
// names are relative to the working directory of the process.
type FS struct{}

// New returns the operating system's file system.
func New() FS { return FS{} }

var _ vfs.FS = FS{}

// OpenFile opens a file with os.O_* flags but O_APPEND.
func (FS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrInvalid}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{f: f}, nil
}

// Remove unlinks a file or an empty directory.
func (FS) Remove(name string) error { return os.Remove(name) }

// RemoveAll removes name and all below it.
func (FS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename moves a name in one step.
func (FS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Mkdir makes a directory in one that is there.
func (FS) Mkdir(name string, perm os.FileMode) error { return os.Mkdir(name, perm) }

// MkdirAll makes a directory and its missing parents.
func (FS) MkdirAll(name string, perm os.FileMode) error { return os.MkdirAll(name, perm) }

// List returns the base names in a directory, sorted.
func (FS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a name.
func (FS) Stat(name string) (vfs.Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return vfs.Info{}, err
	}
	info := vfs.Info{Name: st.Name(), IsDir: st.IsDir(), ModTime: st.ModTime()}
	if !info.IsDir {
		info.Size = st.Size()
	}
	return info, nil
}

// SyncDir makes the names in dir durable.
func (FS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close()
		return err
	}
	return d.Close()
}

// Lock takes the exclusive locks of both kinds that lockers of a data directory
// use on name (see lock), and writes the process id into it, so
// that the error a second process gets can name the first.
func (FS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		holder := readHolder(f)
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("lock %s: %w%s", name, vfs.ErrLocked, holder)
		}
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	// What stands in the file is a help to a reader, the flock is the lock:
	// a failure to write it (a full disk) does not take the lock away.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}

// Locked reports whether somebody holds what Lock would take. It opens the file for
// reading only and changes nothing; a file that is not there is not locked.
func (FS) Locked(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	held, err := locked(f)
	return held, errors.Join(err, f.Close())
}

func readHolder(f *os.File) string {
	var b [20]byte
	n, _ := f.ReadAt(b[:], 0)
	pid := strings.TrimSpace(string(b[:n]))
	if pid == "" {
		return ""
	}
	return " (process " + pid + ")"
}

// Free asks the file system that holds dir.
func (FS) Free(dir string) (available, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(dir), &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
