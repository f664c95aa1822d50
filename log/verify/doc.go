// Package verify checks what lies in a log directory that no broker needs to be
// running for: every batch of every segment (header, checksum, order, leader
// epoch, and its records if asked), and everything that is derived from them
// (offset, time and transaction indexes, seals, producer snapshots, the leader
// epoch file, the offset checkpoints) against what the batches say. It reads each
// segment once, and only reads.
//
// What it finds is graded by what it costs: a note, a file that can be made anew,
// the torn end of a last write, or damage, where records are wrong or missing.
// Formats: docs/formats. Rules: docs/INVARIANTS.md 2, 10, 13.
package verify
