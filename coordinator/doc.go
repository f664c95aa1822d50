// Package coordinator runs state machines whose state is the records of one
// partition: consumer groups today, transactions later.
//
// A Runtime rides on a partition that this broker leads. Calls come in; the
// Machine answers them or leaves records to write; the records are appended to
// the partition; once they are in the log they are replayed into the machine, in
// the same turn of the partition's loop; once they are committed the machine is
// told, and answers who waited for them. The machine shows others only what is
// committed.
//
// The rules:
//
//   - One append is outstanding at most. A call that comes meanwhile waits, so
//     that no call is decided on a state that the log may not get.
//   - A write that was appended and timed out stays pending: it may still be
//     committed, and is invisible until then.
//   - Any doubt about what the log holds ends in loading it anew: records that
//     this runtime did not write, or an append that ends elsewhere than expected.
//   - What was loaded is served once it is known to be committed: the leader before
//     may have acknowledged what lies above a watermark that is from long ago.
//   - When the leadership ends, everything that waits is answered with
//     NOT_COORDINATOR and the machine is dropped.
//
// The package is pure: it has no goroutine, lock or clock, and does not know
// that a partition is behind it. The shell (package broker) calls it in the
// partition's loop, carries out Out, and loads: a Loader is fed the log's bytes
// in slices off the loop, and its machine is handed over when it is complete.
package coordinator
