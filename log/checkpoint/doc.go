// Package checkpoint reads and writes the small text files that stand beside
// the segments, byte for byte in the form that Apache Kafka gives them:
//
//	in each log directory       meta.properties, .kafka_cleanshutdown,
//	                            recovery-point-offset-checkpoint,
//	                            log-start-offset-checkpoint,
//	                            replication-offset-checkpoint,
//	                            cleaner-offset-checkpoint
//	in each partition directory leader-epoch-checkpoint, partition.metadata
//
// Every write is atomic and durable when it returns (temporary file, fsync,
// rename, fsync of the directory), so that a crash leaves the old content or
// the new. Every reader treats a missing or empty file as "nothing known" and
// malformed content as a *FormatError that names file and line. No content is
// trusted beyond its form: the caller decides what a malformed file means, and
// for all files but meta.properties the answer is to go on as if it were
// missing (a recovery point of 0, a log start of 0, a high watermark of 0,
// epochs rebuilt from batch headers).
//
// The pages with the layouts are in docs/formats/checkpoints.md. The package
// holds no state, so that any goroutine may call it, as long as two don't
// write the same file at once.
package checkpoint
