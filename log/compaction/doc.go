// Package compaction decides what is left of a log that keeps the latest record
// of each key: which part of it is cleaned next, which segments become one, and
// which records survive. It is pure: it reads no file, no clock and draws
// nothing; whoever cleans hands over numbers and batches and gets batches back.
//
// A cleaning has two passes. The first reads the dirty section, what came since
// the last cleaning, into an OffsetMap: key to the offset of its latest record.
// The second reads the log from its start to the end of that section through a
// Pass, which drops every record that a later one of its key has superseded.
// Offsets never change, and order neither.
//
// A tombstone, a record without value, survives its key's older records for a
// while, so that a reader who is under way learns of the deletion: the first
// cleaning that meets it writes into its batch when it may go (the delete
// horizon, KIP-534), a cleaning after that time drops it. The markers that end
// transactions go the same way, once no record of their transaction is left.
// Records of aborted transactions go at once.
//
// A batch without records stays as a header where it is the last one of a
// producer that is known, since it tells the producer's sequence, and where it is
// the last one of the cleaning, since it tells where the section ends.
//
// Keys are told apart by a keyed hash of 128 bits (SipHash-2-4): that two keys
// have the same is taken to be impossible, as in Kafka, and with the secret of
// the process nobody can choose two that do. Source: KIP-354 and KIP-58 (lags),
// KIP-534 (horizon), and Apache Kafka's cleaner for everything else.
package compaction
