package faultfs

import (
	"io"
	"os"

	"github.com/tidemark/tidemark/internal/vfs"
)

// FS is a file system with faults.
type FS struct {
	inner vfs.FS
	inj   Injector
}

var _ vfs.FS = (*FS)(nil)

// Wrap puts an injector before every operation of inner.
func Wrap(inner vfs.FS, inj Injector) *FS { return &FS{inner: inner, inj: inj} }

// Unwrap returns the file system below.
func (fs *FS) Unwrap() vfs.FS { return fs.inner }

// decide asks the injector, and holds the operation up if it says so.
func decide(inj Injector, op Op) *Fault {
	f := inj.Decide(op)
	if f != nil && f.hook != nil {
		f.hook(op)
	}
	return f
}

// before returns the error that the operation is to fail with.
func before(inj Injector, op Op) error {
	f := decide(inj, op)
	if f == nil || f.err == nil {
		return nil
	}
	if op.Kind == OpRename {
		return &os.LinkError{Op: "rename", Old: op.Path, New: op.NewPath, Err: f.err}
	}
	return opError(op, f)
}

func opError(op Op, f *Fault) error {
	return &os.PathError{Op: op.Kind.String(), Path: op.Path, Err: f.err}
}

// OpenFile opens a file. It is OpCreate if it may make one.
func (fs *FS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	kind := OpOpen
	if flag&os.O_CREATE != 0 {
		kind = OpCreate
	}
	if err := before(fs.inj, Op{Kind: kind, Path: name}); err != nil {
		return nil, err
	}
	f, err := fs.inner.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{inner: f, inj: fs.inj, name: name}, nil
}

// Remove unlinks a file or an empty directory.
func (fs *FS) Remove(name string) error {
	if err := before(fs.inj, Op{Kind: OpRemove, Path: name}); err != nil {
		return err
	}
	return fs.inner.Remove(name)
}

// RemoveAll removes name and all below it, as one operation.
func (fs *FS) RemoveAll(name string) error {
	if err := before(fs.inj, Op{Kind: OpRemoveAll, Path: name}); err != nil {
		return err
	}
	return fs.inner.RemoveAll(name)
}

// Rename moves a name.
func (fs *FS) Rename(oldName, newName string) error {
	if err := before(fs.inj, Op{Kind: OpRename, Path: oldName, NewPath: newName}); err != nil {
		return err
	}
	return fs.inner.Rename(oldName, newName)
}

// Mkdir makes a directory in one that is there.
func (fs *FS) Mkdir(name string, perm os.FileMode) error {
	if err := before(fs.inj, Op{Kind: OpMkdir, Path: name}); err != nil {
		return err
	}
	return fs.inner.Mkdir(name, perm)
}

// MkdirAll makes a directory and its missing parents, as one operation.
func (fs *FS) MkdirAll(name string, perm os.FileMode) error {
	if err := before(fs.inj, Op{Kind: OpMkdir, Path: name}); err != nil {
		return err
	}
	return fs.inner.MkdirAll(name, perm)
}

// List returns the base names in a directory, sorted.
func (fs *FS) List(dir string) ([]string, error) {
	if err := before(fs.inj, Op{Kind: OpList, Path: dir}); err != nil {
		return nil, err
	}
	return fs.inner.List(dir)
}

// Stat describes a name.
func (fs *FS) Stat(name string) (vfs.Info, error) {
	if err := before(fs.inj, Op{Kind: OpStat, Path: name}); err != nil {
		return vfs.Info{}, err
	}
	return fs.inner.Stat(name)
}

// SyncDir makes the names in dir durable.
func (fs *FS) SyncDir(dir string) error {
	if err := before(fs.inj, Op{Kind: OpSyncDir, Path: dir}); err != nil {
		return err
	}
	return fs.inner.SyncDir(dir)
}

// Lock takes an exclusive lock on name.
func (fs *FS) Lock(name string) (io.Closer, error) {
	if err := before(fs.inj, Op{Kind: OpLock, Path: name}); err != nil {
		return nil, err
	}
	return fs.inner.Lock(name)
}

// Locked reports whether name is locked.
func (fs *FS) Locked(name string) (bool, error) {
	if err := before(fs.inj, Op{Kind: OpLock, Path: name}); err != nil {
		return false, err
	}
	return fs.inner.Locked(name)
}

// Free returns what may still be written.
func (fs *FS) Free(dir string) (available, total int64, err error) {
	if err := before(fs.inj, Op{Kind: OpFree, Path: dir}); err != nil {
		return 0, 0, err
	}
	return fs.inner.Free(dir)
}
