package memfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/internal/vfs"
)

// ErrDead is returned by a disk, and by every File open on it, once it was
// cloned by CrashClone or KillClone: the process that used it is gone.
var ErrDead = errors.New("the process that used this disk is gone")

// FS is a disk in memory. All methods may be called from any goroutine.
//
// Names with and without a leading slash are the same.
type FS struct {
	// mu guards everything here and in the nodes.
	mu   sync.RWMutex
	root *node
	dead bool

	// pending are the changes of names that no SyncDir has made durable yet,
	// in the order in which they were made.
	pending []nameOp

	// writer is the file that was written to last of all, if nothing was done
	// to it since: the one whose write a kill may tear.
	writer *node

	locks map[string]bool // clean names that are locked now

	// capacity is the size of the disk in bytes, 0 for no bound; used is what
	// the live content of files with a name or an open File takes of it.
	capacity int64
	used     int64

	clock func() time.Time
	ticks int64 // changes so far; the default clock
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty disk without a bound. Its root directory exists.
func New() *FS {
	return &FS{root: newDir(), locks: make(map[string]bool)}
}

// SetCapacity bounds the disk to n bytes of file content; 0 removes the bound.
// A write that does not fit stores what fits and fails with ENOSPC.
func (fs *FS) SetCapacity(n int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.capacity = n
}

// SetClock sets where modification times come from. Without it they rise by a
// microsecond with each change, from the start of the year 2000.
func (fs *FS) SetClock(clock func() time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.clock = clock
}

func (fs *FS) now() time.Time {
	if fs.clock != nil {
		return fs.clock()
	}
	fs.ticks++
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(fs.ticks) * time.Microsecond)
}

// OpenFile opens a file with os.O_* flags but O_APPEND.
func (fs *FS) OpenFile(name string, flag int, _ os.FileMode) (vfs.File, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if flag&os.O_APPEND != 0 {
		return nil, pathError("open", name, os.ErrInvalid)
	}
	dir, base, err := fs.parent("open", name)
	if err != nil {
		return nil, err
	}
	n := dir.live[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, syscall.ENOENT)
	case n == nil:
		n = &node{modTime: fs.now()}
		fs.change(nameOp{kind: opCreate, dir: dir, name: base, node: n})
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, pathError("open", name, syscall.EEXIST)
	case n.isDir():
		return nil, pathError("open", name, syscall.EISDIR)
	}
	write := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if flag&os.O_TRUNC != 0 && write {
		fs.resize(n, 0)
	}
	n.opens++
	return &file{fs: fs, node: n, name: name, read: flag&os.O_WRONLY == 0, write: write}, nil
}

// Remove unlinks a file or an empty directory.
func (fs *FS) Remove(name string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, base, err := fs.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.live[base]
	switch {
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case n.isDir() && len(n.live) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	fs.change(nameOp{kind: opRemove, dir: dir, name: base, node: n})
	return nil
}

// RemoveAll removes name and all below it.
func (fs *FS) RemoveAll(name string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, base, err := fs.parent("remove", name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if n := dir.live[base]; n != nil {
		fs.removeTree(dir, base, n)
	}
	return nil
}

func (fs *FS) removeTree(dir *node, base string, n *node) {
	for _, child := range slices.Clone(n.listed) {
		fs.removeTree(n, child, n.live[child])
	}
	fs.change(nameOp{kind: opRemove, dir: dir, name: base, node: n})
}

// Rename moves a name in one step.
func (fs *FS) Rename(oldName, newName string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from, oldBase, err := fs.parent("rename", oldName)
	if err != nil {
		return err
	}
	to, newBase, err := fs.parent("rename", newName)
	if err != nil {
		return err
	}
	n, target := from.live[oldBase], to.live[newBase]
	switch {
	case n == nil:
		return linkError(oldName, newName, syscall.ENOENT)
	case n == target:
		return nil
	case n.isDir() && within(newName, oldName):
		return linkError(oldName, newName, syscall.EINVAL)
	case target != nil && target.isDir() && !n.isDir():
		return linkError(oldName, newName, syscall.EISDIR)
	case target != nil && !target.isDir() && n.isDir():
		return linkError(oldName, newName, syscall.ENOTDIR)
	case target != nil && len(target.live) > 0:
		return linkError(oldName, newName, syscall.ENOTEMPTY)
	}
	fs.change(nameOp{kind: opRename, from: from, oldName: oldBase, dir: to, name: newBase, node: n})
	return nil
}

// Mkdir makes a directory in one that is there.
func (fs *FS) Mkdir(name string, _ os.FileMode) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir, base, err := fs.parent("mkdir", name)
	if err != nil {
		return err
	}
	if dir.live[base] != nil {
		return pathError("mkdir", name, syscall.EEXIST)
	}
	n := newDir()
	n.modTime = fs.now()
	fs.change(nameOp{kind: opCreate, dir: dir, name: base, node: n})
	return nil
}

// MkdirAll makes a directory and its missing parents.
func (fs *FS) MkdirAll(name string, _ os.FileMode) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.dead {
		return pathError("mkdir", name, ErrDead)
	}
	dir := fs.root
	for _, part := range split(name) {
		n := dir.live[part]
		if n == nil {
			n = newDir()
			n.modTime = fs.now()
			fs.change(nameOp{kind: opCreate, dir: dir, name: part, node: n})
		}
		if !n.isDir() {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = n
	}
	return nil
}

// List returns the base names in a directory, sorted.
func (fs *FS) List(dir string) ([]string, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n, err := fs.find("list", dir)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, pathError("list", dir, syscall.ENOTDIR)
	}
	return slices.Clone(n.listed), nil
}

// Content returns all bytes of a file. They may not be changed, and never
// change: what is written later goes elsewhere. Two calls that return bytes at
// the same address return the same bytes, as far as both go.
func (fs *FS) Content(name string) ([]byte, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, err := fs.find("read", name)
	if err != nil {
		return nil, err
	}
	if n.isDir() {
		return nil, pathError("read", name, syscall.EISDIR)
	}
	return n.share(), nil
}

// Stat describes a name.
func (fs *FS) Stat(name string) (vfs.Info, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n, err := fs.find("stat", name)
	if err != nil {
		return vfs.Info{}, err
	}
	base := filepath.Base(filepath.Clean(name))
	return vfs.Info{Name: base, Size: int64(len(n.data)), IsDir: n.isDir(), ModTime: n.modTime}, nil
}

// SyncDir makes the names in dir durable.
func (fs *FS) SyncDir(dir string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, err := fs.find("sync", dir)
	if err != nil {
		return err
	}
	if !n.isDir() {
		return pathError("sync", dir, syscall.ENOTDIR)
	}
	fs.commit(n)
	return nil
}

// Lock takes an exclusive lock on name. A clone holds none.
func (fs *FS) Lock(name string) (io.Closer, error) {
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	key := clean(name)
	if fs.locks[key] {
		_ = f.(*file).closeLocked()
		return nil, fmt.Errorf("lock %s: %w", name, vfs.ErrLocked)
	}
	fs.locks[key] = true
	return &lock{file: f.(*file), key: key}, nil
}

// Locked reports whether name is locked.
func (fs *FS) Locked(name string) (bool, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.locks[clean(name)], nil
}

// lock is a held lock.
type lock struct {
	file *file
	key  string
}

func (l *lock) Close() error {
	fs := l.file.fs
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if err := l.file.closeLocked(); err != nil {
		return err
	}
	delete(fs.locks, l.key)
	return nil
}

// unbounded is what a disk without capacity says of its size.
const unbounded = 1 << 50

// Free returns what may still be written, and the capacity.
func (fs *FS) Free(dir string) (available, total int64, err error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if _, err := fs.find("statfs", dir); err != nil {
		return 0, 0, err
	}
	total = fs.capacity
	if total == 0 {
		total = unbounded
	}
	return max(0, total-fs.used), total, nil
}

// find returns the node that a name has now.
func (fs *FS) find(op, name string) (*node, error) {
	if fs.dead {
		return nil, pathError(op, name, ErrDead)
	}
	return fs.root.walk(op, name, clean(name), live)
}

// walk follows a clean name from a directory down through one kind of names.
func (n *node) walk(op, name, path string, of names) (*node, error) {
	for path != "" {
		if !n.isDir() {
			return nil, pathError(op, name, syscall.ENOTDIR)
		}
		var part string
		part, path, _ = strings.Cut(path, "/")
		if n = of(n)[part]; n == nil {
			return nil, pathError(op, name, syscall.ENOENT)
		}
	}
	return n, nil
}

// parent returns the directory that holds, or would hold, a name.
func (fs *FS) parent(op, name string) (dir *node, base string, err error) {
	path := clean(name)
	if fs.dead {
		return nil, "", pathError(op, name, ErrDead)
	}
	if path == "" {
		return nil, "", pathError(op, name, syscall.EBUSY) // the root itself
	}
	last := strings.LastIndexByte(path, '/')
	dir, err = fs.root.walk(op, name, path[:max(last, 0)], live)
	if err != nil {
		return nil, "", err
	}
	if !dir.isDir() {
		return nil, "", pathError(op, name, syscall.ENOTDIR)
	}
	return dir, path[last+1:], nil
}

// clean returns a name without anything needless, "" for the root.
func clean(name string) string {
	name = strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/")
	if name == "." {
		return ""
	}
	return name
}

func split(name string) []string {
	if name = clean(name); name == "" {
		return nil
	}
	return strings.Split(name, "/")
}

// within reports whether name lies at or below dir.
func within(name, dir string) bool {
	n, d := split(name), split(dir)
	return len(n) >= len(d) && slices.Equal(n[:len(d)], d)
}

func sortedNames(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m { // order-free: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func pathError(op, name string, err error) error {
	return &os.PathError{Op: op, Path: name, Err: err}
}

func linkError(oldName, newName string, err error) error {
	return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
}
