// Package memfs is a disk in memory that can lose power.
//
// Each file keeps the content that readers see and the content that was synced;
// each directory keeps the names that readers see and the names that were
// synced. CrashClone makes the disk that a machine finds after a power loss:
// synced content and names for sure, and of the rest a random part. KillClone
// makes the one that a process finds after it alone was killed: all that was
// written is there, but perhaps not the whole of its last write.
//
// A clone is a new FS; the one it was made from, and every File open in it,
// returns errors from then on, as the process that used them is gone.
//
// Given the same calls and the same seed, the same bytes come out.
package memfs
