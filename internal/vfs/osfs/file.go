package osfs

import (
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/internal/vfs"
)

// file is one open file of the operating system.
type file struct {
	f *os.File

	// poison is the error of the first failed fsync, wrapped for the caller.
	// Invariant: once set it never changes.
	poison atomic.Pointer[poison]
	// aside: ReadAside has told the kernel how the file is read.
	aside atomic.Bool
}

type poison struct{ err error }

func (f *file) check() error {
	if p := f.poison.Load(); p != nil {
		return p.err
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.f.ReadAt(p, off)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.f.WriteAt(p, off)
}

func (f *file) Truncate(size int64) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.f.Truncate(size)
}

func (f *file) Sync() error {
	if err := f.check(); err != nil {
		return err
	}
	return f.latch(f.f.Sync())
}

func (f *file) SyncData() error {
	if err := f.check(); err != nil {
		return err
	}
	return f.latch(f.onFd("fdatasync", unix.Fdatasync))
}

// latch poisons the file if an fsync failed. Closed is no verdict of the disk.
func (f *file) latch(err error) error {
	if err == nil || errors.Is(err, os.ErrClosed) {
		return err
	}
	f.poison.CompareAndSwap(nil, &poison{vfs.Poisoned(f.f.Name(), err)})
	return err
}

// Allocate asks for blocks. A full disk shows itself at the write, where it can
// be handled; here it only means that the hint came to nothing.
func (f *file) Allocate(off, n int64) error {
	if err := f.check(); err != nil {
		return err
	}
	if n <= 0 {
		return nil
	}
	err := f.onFd("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS),
		errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return nil
	}
	return err
}

func (f *file) Size() (int64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *file) Close() error { return f.f.Close() }

func (f *file) OSFile() (*os.File, bool) { return f.f, true }

// onFd runs a system call on the descriptor, keeping it from being closed and
// reused meanwhile.
func (f *file) onFd(op string, call func(fd int) error) error {
	rc, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := rc.Control(func(fd uintptr) {
		for {
			callErr = call(int(fd))
			if !errors.Is(callErr, unix.EINTR) {
				return
			}
		}
	}); err != nil {
		// The only reason not to run the call: the file is closed.
		return &os.PathError{Op: op, Path: f.f.Name(), Err: os.ErrClosed}
	}
	if callErr != nil {
		return &os.PathError{Op: op, Path: f.f.Name(), Err: callErr}
	}
	return nil
}
