// Package partition holds the replication rules of one partition: who may write
// and read what, when a record counts as replicated, which replicas are in sync.
//
// It is pure. Partition.Step(now, input, output) takes one fact and leaves in
// the output what is to be done; it opens no file, knows no clock and blocks on
// nothing. A Partition belongs to one loop (package partition/host), which calls
// Step and NextDeadline and nobody else does.
//
// The executor of an Output keeps this order: the Write first (truncation,
// epoch start, log start, or append: at most one is outstanding, and while it is
// every other input waits inside the Partition), then Flush, then the rest.
// Answers are emitted only after the completion they need, so they may be
// released as soon as they are seen.
//
// Roles are objects (leader.go, follower.go, offline.go) with one method for
// each kind of input; become.go is the only place where the role changes.
//
// Four numbers rule a partition: LogStart ≤ LastStable ≤ HighWatermark ≤ LogEnd.
// All are exclusive ends; numbers.go has the one setter.
//
// Invariants (docs/INVARIANTS.md): 5, 7, 8, 9, 15, 16.
package partition
