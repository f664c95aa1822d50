// Package log is the segmented log of one partition in one directory. It knows
// nothing of networks, replicas or high watermarks: it stores batches that were
// already checked and stamped, gives them back by offset or time, cuts its end,
// drops its start, and finds its way back after any kind of stop.
//
// # Ownership
//
// A Log has one writer, the loop of its partition; no method of Log may be
// called from elsewhere, but for View. A View is an immutable picture of the
// log; any goroutine may read through it. Bytes below the end of a View that
// was once published never change (invariant 14): a truncation publishes a
// shorter View and goes on in a new file, and the old bytes are cut only after
// the last reader has left (Reclaim). A FlushJob and a Drop run on any
// goroutine.
//
// # Duties of the caller
//
//   - Append gets batches that record.Validate, or the leader that a follower
//     fetched from, has vouched for. Append checks their order and their
//     headers, not their CRC.
//   - After an error that wraps ErrPoisoned the log accepts nothing more; the
//     directory is left as it is and must be opened anew, in another process.
//   - RecoveryPoint is only a promise once it is stored: the caller writes it
//     to the directory's checkpoint. It is lowered before a truncation
//     (Options.LowerRecoveryPoint) and raised after a flush (FinishFlush).
//   - StartDrop and StartSwap hand over files to be renamed; the View shows the
//     result at once. Their Run and Unlink may be called by anybody.
//     A Rewrite is work of another goroutine on a View; nothing above the
//     recovery point that the caller has stored may be compacted.
//   - Scrub and VerifySegment run beside everything else. What a scrub has made
//     anew StartMend stores. For *WrongEpochs the owner calls MendEpochs, once the
//     epoch file is kept, and StartMend.
//   - What Truncate and Open removed stays readable under Removal.Parts until
//     Reclaim, so that it can be kept and a receipt written.
//   - Truncate, DropBelow and Roll of an idle log make directory changes
//     durable before they return; they are rare.
//
// # Files
//
// Kafka's, byte for byte: <base>.log, .index, .timeindex, .txnindex, .snapshot
// and leader-epoch-checkpoint. The indexes of the segment that is being written
// live in memory and are stored when it is sealed, at a clean stop and by
// Checkpoint. One file is our own, <base>.seal: what was true of a segment when
// it was sealed (size, next offset, digests of its indexes and of what no CRC of a
// batch covers), so that a lost middle segment, a shortened file, a damaged index
// and a changed offset are noticed. A directory without seals, as Kafka leaves it,
// is read just as well.
//
// # Loading
//
// Open runs numbered passes, each a function of the disk alone, so that doing
// them twice changes nothing. How much is believed depends on how the last
// process ended (Stop). Damage is reported as *CorruptionError and then nothing
// on disk has been changed; only what a stop of that kind can explain is
// removed. See loader.go. It syncs nothing but what it has to write: what the last
// process left above the recovery point the first flush makes durable.
package log
