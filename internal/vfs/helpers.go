package vfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// TempSuffix ends the name of a file that WriteFileAtomic has not yet renamed.
// A leftover one was cut short by a crash and may be removed.
const TempSuffix = ".tmp"

// ReadFile returns the whole content of a file.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", name, err)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !(err == io.EOF && int64(n) == size) {
		return nil, fmt.Errorf("read %s, %d of %d bytes: %w", name, n, size, err)
	}
	return b, nil
}

// AsideReader is a File that can be read without leaving in memory what was not
// there before. See Aside.
type AsideReader interface {
	ReadAside(p []byte, off int64) (int, error)
}

// Aside returns f, read so if it can be. It is for a handle that nobody else uses:
// the kernel reads nothing ahead for it any more.
func Aside(f File) File {
	if r, ok := f.(AsideReader); ok {
		return aside{f, r}
	}
	return f
}

type aside struct {
	File
	r AsideReader
}

func (a aside) ReadAt(p []byte, off int64) (int, error) { return a.r.ReadAside(p, off) }

// WriteFileAtomic replaces the content of a file so that a crash at any moment
// leaves the old content or the new one: a temporary file beside it is written
// and fsynced, renamed over name, and the directory is fsynced. On an error
// before the rename the old content stands and the temporary file is removed.
func WriteFileAtomic(fs FS, name string, data []byte) error {
	tmp := name + TempSuffix
	if err := writeAndSync(fs, tmp, data); err != nil {
		_ = fs.Remove(tmp) // the first error is the one to tell
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		_ = fs.Remove(tmp)
		return err
	}
	return fs.SyncDir(filepath.Dir(name))
}

func writeAndSync(fs FS, name string, data []byte) error {
	f, err := write(fs, name, data)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return fmt.Errorf("sync %s: %w", name, err)
	}
	return f.Close()
}

// write makes a file of the given content and leaves it open.
func write(fs FS, name string, data []byte) (File, error) {
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if n, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write %s, %d of %d bytes: %w", name, n, len(data), err)
	}
	return f, nil
}

// WriteFile makes a file. A crash may leave any part of it, or nothing.
func WriteFile(fs FS, name string, data []byte) error {
	f, err := write(fs, name, data)
	if err != nil {
		return err
	}
	return f.Close()
}
