// Package dump shows what stands in the files of a log directory, as text or
// as lines of JSON: segments (batches, and records if asked), offset, time and
// transaction indexes, producer snapshots, checkpoints, partition.metadata,
// meta.properties and the clean-shutdown mark. The metadata log and its
// snapshots are shown as the batches that they are.
//
// The facts, their names and their order are those of Kafka's DumpLogSegments,
// so that the two outputs can be compared line by line. What is wrong in a
// file is told in lines of its own, with its position: checksums that fail,
// offsets that fall, index entries that point elsewhere, bytes that belong to
// no batch. After damage the reader looks for the next whole batch and goes on
// from there; it never stops at the first fault.
//
// Files are only read. The package is used by the command line and by tests;
// the formats are described in docs/formats.
package dump
