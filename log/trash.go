package log

import (
	"errors"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/vfs"
)

// trash is what left the log and is still on disk: readers may be in it, and a
// receipt may have to be written first.
type trash struct {
	// doomed are files that were renamed and await their unlinking.
	doomed []*segmentFile
	// cuts are files that are longer than their segments.
	cuts []pendingCut
}

// pendingCut is a file that is to be cut to size.
type pendingCut struct {
	file *segmentFile
	size int64
}

// discard turns what is planned for a file into its unlinking.
func (t *trash) discard(f *segmentFile) {
	cuts := t.cuts[:0]
	for _, c := range t.cuts {
		if c.file != f {
			cuts = append(cuts, c)
		}
	}
	t.cuts = cuts
	t.doomed = append(t.doomed, f)
}

// Reclaim cuts and unlinks what Truncate, DropBelow and Open have removed, where
// no reader is left in it, and returns how many removals must wait for a later
// call. After it the bytes of a Removal are gone.
func (l *Log) Reclaim() (left int, err error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	var errs error
	cuts, doomed := l.trash.cuts, l.trash.doomed
	l.trash = trash{}
	for _, c := range cuts {
		done, err := c.file.cut(c.size)
		errs = errors.Join(errs, err)
		if !done {
			l.trash.cuts = append(l.trash.cuts, c)
		}
	}
	for _, f := range doomed {
		done, err := f.unlink()
		errs = errors.Join(errs, err)
		if !done {
			l.trash.doomed = append(l.trash.doomed, f)
		}
	}
	return len(l.trash.cuts) + len(l.trash.doomed), errs
}

// RenameDir moves the partition's directory, which is how a topic's deletion or
// a stray directory begins (see RetiredDirName). Readers go on. The names in the
// parent are durable when it returns.
func (l *Log) RenameDir(name string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.settle(); err != nil {
		return err
	}
	parent := filepath.Dir(l.dir)
	to := filepath.Join(parent, name)
	files := append([]*segmentFile(nil), l.trash.doomed...)
	for _, s := range l.segments {
		files = append(files, s.file)
	}
	if err := renameDir(l.fs, l.dir, to, files); err != nil {
		return err
	}
	l.dir = to
	for i, p := range l.flush.side {
		l.flush.side[i] = filepath.Join(to, filepath.Base(p))
	}
	return l.fs.SyncDir(parent)
}

// RemoveDir deletes a partition's directory that no log is open in.
func RemoveDir(fs vfs.FS, dir string) error {
	if err := fs.RemoveAll(dir); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(dir))
}
