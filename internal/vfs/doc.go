// Package vfs is the least file system a log needs: positioned reads and
// writes, names in directories, and the two kinds of sync that make them last.
//
// It exists so that one log, one recovery and one controller can run on a real
// disk (osfs), on a disk in memory that can lose power (memfs), and on either
// with faults thrown in (faultfs). vfstest holds what all of them must do.
//
// The rules every implementation keeps:
//
//   - A write is not durable before Sync or SyncData returned nil; a created,
//     renamed or removed name is not durable before SyncDir of its directory
//     returned nil. The two are independent.
//   - A failed Sync or SyncData poisons the File: the kernel may have dropped
//     the dirty pages and marked them clean, so a later success would prove
//     nothing. Every later operation but Close returns ErrPoisoned, wrapping
//     the cause (rules 2.9: a failed fsync is never retried on the same file).
//   - ReadAt and WriteAt have the meaning of io.ReaderAt and io.WriterAt: a
//     short count comes with an error. Files are opened without O_APPEND.
//   - Errors satisfy errors.Is with os.ErrNotExist, os.ErrExist, os.ErrClosed
//     and the syscall error numbers where the operating system would give them.
//
// A File may be used by several goroutines at once; who may write where is the
// caller's business.
package vfs
