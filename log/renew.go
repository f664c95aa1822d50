package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// renew copies every segment that may hold something at or above the recovery
// point into a new file, durably. After a failed fsync the kernel may show bytes
// that the disk doesn't have and that it will not write again: an fsync of the same
// file would succeed and mean nothing. A crash leaves, file by file, the old one or
// the new one, with the same bytes, and the next start does it again.
func renew(fs vfs.FS, dir string, from model.Offset) error {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	var last string
	var above []string
	for _, name := range names { // sorted, and names of segments sort by base
		base, suffix, ok := parseName(name)
		switch {
		case !ok || suffix != logSuffix:
		case base < from:
			last = name
		default:
			above = append(above, name)
		}
	}
	if last != "" {
		above = append(above, last)
	}
	buf := make([]byte, scanBufferSize)
	for _, name := range above {
		if err := copyFile(fs, filepath.Join(dir, name), buf); err != nil {
			return fmt.Errorf("copy %s into a new file: %w", name, err)
		}
	}
	return fs.SyncDir(dir)
}

// copyFile puts a synced copy in the place of a file. Its name is not durable.
func copyFile(fs vfs.FS, path string, buf []byte) error {
	from, err := fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	size, err := from.Size()
	if err != nil {
		return err
	}
	temp := path + tempSuffix
	to, err := fs.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(copyAll(from, to, size, buf), to.Close()); err != nil {
		_ = fs.Remove(temp) // the first error is the one to tell
		return err
	}
	return fs.Rename(temp, path)
}

// copyAll copies size bytes and syncs them.
func copyAll(from, to vfs.File, size int64, buf []byte) error {
	for at := int64(0); at < size; {
		n := min(int64(len(buf)), size-at)
		if got, err := from.ReadAt(buf[:n], at); int64(got) < n {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if _, err := to.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += n
	}
	return to.Sync()
}
