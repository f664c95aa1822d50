// Package assert checks facts that this process made true itself. A broken one
// means that the code is wrong, and going on would spread the damage.
//
// Bytes from disk, peers or clients never reach an assertion: whatever they
// hold is an error, not a bug (rules 2.11). A failed assertion panics with a
// *Failure. Whoever runs a partition recovers exactly that type at the
// partition's boundary and quarantines it; everywhere else it ends the process.
//
// That and Unreachable are always on. Slow runs only in builds with the tag
// invariants or under the race detector.
package assert
