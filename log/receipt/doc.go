// Package receipt keeps what a truncation takes off a log: a receipt that says
// what left, when and why, in a journal that is only appended to, and the bytes
// themselves, as long as there is room for them.
//
// A Store is one node's. Its directory (tidemark.kept.dir) holds
//
//	receipts-<first id>.jsonl   the journal: one receipt a line, in JSON
//	<id>/receipt.json           the same receipt, beside
//	<id>/<offset>.log, …        the bytes it is of
//
// # Order on disk
//
// Keep returns only when the copy and then the line in the journal are durable;
// whoever takes bytes away calls it first. A process that dies in between finds the
// bytes where they were, and does it again: a copy without a line is dropped at the
// next start, and a line without a removal leads to a second receipt for the same
// bytes, which says so (Again) and keeps nothing twice.
//
// # What gives way
//
// Kept bytes are bounded by size and age, the oldest go first, and on a full disk
// they all do. Nothing that goes wrong here keeps a log from being cut: a receipt
// that can't be written is held in memory, counted, and tried again.
package receipt
