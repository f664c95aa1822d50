package memfs

import (
	"io"
	"os"
	"syscall"
)

// file is an open File. Its state is guarded by the disk's mutex.
type file struct {
	fs     *FS
	node   *node
	name   string // as it was opened, for errors
	read   bool
	write  bool
	closed bool
}

// check is called first by every operation, with the mutex held.
func (f *file) check(op string, write bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, os.ErrClosed)
	case f.fs.dead:
		return pathError(op, f.name, ErrDead)
	case write && !f.write:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	switch {
	case !f.read:
		return 0, pathError("read", f.name, syscall.EBADF)
	case off < 0:
		return 0, pathError("read", f.name, os.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case off >= int64(len(f.node.data)):
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, os.ErrInvalid)
	}
	fits := f.fs.fitting(f.node, off, len(p))
	if fits > 0 {
		f.fs.store(f.node, p[:fits], off)
	}
	if fits < len(p) {
		return fits, pathError("write", f.name, syscall.ENOSPC)
	}
	return fits, nil
}

// fitting returns how many of n bytes at off the disk has room for.
func (fs *FS) fitting(nd *node, off int64, n int) int {
	size := int64(len(nd.data))
	grow := off + int64(n) - size
	if fs.capacity == 0 || grow <= 0 {
		return n
	}
	room := max(0, fs.capacity-fs.used)
	if grow <= room {
		return n
	}
	return int(min(int64(n), max(0, size+room-off)))
}

// store writes and keeps the account of used bytes.
func (fs *FS) store(n *node, p []byte, off int64) {
	before := len(n.data)
	n.write(p, off)
	fs.used += int64(len(n.data) - before)
	n.modTime = fs.now()
	fs.writer = n
}

// resize truncates and keeps the account of used bytes.
func (fs *FS) resize(n *node, size int64) {
	before := int64(len(n.data))
	n.resize(size)
	fs.used += size - before
	n.modTime = fs.now()
	fs.writer = nil
}

func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, os.ErrInvalid)
	}
	if size != int64(len(f.node.data)) {
		f.fs.resize(f.node, size)
	}
	return nil
}

func (f *file) Sync() error { return f.sync("sync") }

func (f *file) SyncData() error { return f.sync("fdatasync") }

func (f *file) sync(op string) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check(op, false); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// DropUnsynced makes the file forget everything since the last Sync, for
// readers too: what a kernel does with dirty pages that it failed to write.
// faultfs calls it.
func (f *file) DropUnsynced() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	before := len(f.node.data)
	f.node.dropUnsynced()
	f.fs.used += int64(len(f.node.data) - before)
}

// Allocate does nothing: no space of this disk is reserved before it is used.
func (f *file) Allocate(_, _ int64) error {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.check("fallocate", true)
}

func (f *file) Size() (int64, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *file) OSFile() (*os.File, bool) { return nil, false }

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.closeLocked()
}

func (f *file) closeLocked() error {
	if f.closed {
		return pathError("close", f.name, os.ErrClosed)
	}
	f.closed = true
	if f.fs.dead {
		return pathError("close", f.name, ErrDead)
	}
	f.node.opens--
	f.fs.release(f.node)
	return nil
}
