// Package osfs is the operating system's file system behind vfs.FS: pread and
// pwrite, fsync and fdatasync, flock, statfs, fallocate. It is a shell: it
// decides nothing, but that a file whose fsync failed is never trusted again.
package osfs
