package faultfs

import (
	"os"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/vfs"
)

// file is a File with faults.
type file struct {
	inner vfs.File
	inj   Injector
	name  string

	// poison is what every operation returns after an injected sync failure.
	poison atomic.Pointer[error]
}

func (f *file) check() error {
	if p := f.poison.Load(); p != nil {
		return *p
	}
	return nil
}

// before checks the poison and asks the injector.
func (f *file) before(op Op) error {
	if err := f.check(); err != nil {
		return err
	}
	return before(f.inj, op)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	op := Op{Kind: OpRead, Path: f.name, Offset: off, Len: len(p)}
	fault := decide(f.inj, op)
	if fault != nil && fault.err != nil {
		return 0, opError(op, fault)
	}
	n, err := f.inner.ReadAt(p, off)
	if fault != nil && fault.flip != nil {
		fault.flip(op, p[:n])
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	op := Op{Kind: OpWrite, Path: f.name, Offset: off, Len: len(p)}
	fault := decide(f.inj, op)
	if fault == nil || fault.err == nil {
		return f.inner.WriteAt(p, off)
	}
	if fault.keep == nil {
		return 0, opError(op, fault)
	}
	n, err := f.inner.WriteAt(p[:fault.keep(len(p))], off)
	if err != nil {
		return n, err
	}
	return n, opError(op, fault)
}

func (f *file) Truncate(size int64) error {
	if err := f.before(Op{Kind: OpTruncate, Path: f.name, Offset: size}); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

func (f *file) Sync() error { return f.sync(OpSync, f.inner.Sync) }

func (f *file) SyncData() error { return f.sync(OpSyncData, f.inner.SyncData) }

func (f *file) sync(kind OpKind, do func() error) error {
	if err := f.check(); err != nil {
		return err
	}
	op := Op{Kind: kind, Path: f.name}
	fault := decide(f.inj, op)
	if fault == nil || fault.err == nil {
		return do()
	}
	err := opError(op, fault)
	if fault.drops {
		if d, ok := f.inner.(interface{ DropUnsynced() }); ok {
			d.DropUnsynced()
		}
	}
	poison := vfs.Poisoned(f.name, err)
	f.poison.CompareAndSwap(nil, &poison)
	return err
}

func (f *file) Allocate(off, n int64) error {
	if err := f.before(Op{Kind: OpAllocate, Path: f.name, Offset: off, Len: int(n)}); err != nil {
		if vfs.IsNoSpace(err) {
			return nil // as every implementation: the hint came to nothing
		}
		return err
	}
	return f.inner.Allocate(off, n)
}

func (f *file) Size() (int64, error) {
	if err := f.before(Op{Kind: OpSize, Path: f.name}); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

// Close always closes, also when it is told to fail: a File that could not be
// closed would be left open by any caller.
func (f *file) Close() error {
	err := before(f.inj, Op{Kind: OpClose, Path: f.name})
	if innerErr := f.inner.Close(); innerErr != nil {
		return innerErr
	}
	return err
}

func (f *file) OSFile() (*os.File, bool) { return nil, false }
