// Package record reads, checks, stamps and builds record batches of magic 2,
// the one format that produce requests, segments, replicas and consumers
// share. Magic 0 and 1 are refused.
//
// Batch is a view over bytes that somebody else owns: no accessor copies or
// allocates. A leader stamps a batch (base offset and leader epoch lie outside
// the CRC) and never re-encodes it, but for the four reasons that Validate
// names: another codec wanted, wrong offset deltas, a wrong maxTimestamp, or
// LogAppendTime.
//
// Validate is the gate for bytes from clients and reports in Kafka's order and
// with Kafka's error codes. CheckHeader and CheckCRC are the gate for bytes
// from disks and peers.
//
// The package is pure: no clock, disk, goroutine or lock. What may be called
// from several goroutines at once: everything, as long as the bytes and the
// structs passed in are not shared.
package record
