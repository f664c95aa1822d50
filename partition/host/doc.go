// Package host runs the partitions of one broker. It is the shell around package
// partition: it owns the log directories, opens the logs, and carries out what
// the pure core asks for.
//
// A Hosted is one partition: a loop.Box around a partition.Partition, its log's
// write side and what rides on them. Whoever has a message enters it; a produce
// is decided, appended and usually answered on the goroutine that read it from
// its connection. After each change the Hosted publishes a State, an immutable
// snapshot with the log's View: a fetch or a ListOffsets reads that and needs no
// message.
//
// ReplicaManager holds the Hosteds of a broker, creates and removes them as
// images of the cluster's metadata come, and writes the checkpoints. Dirs is the
// set of log directories with their locks, identities and the evidence of how
// the process stopped before.
//
// A fetchLoop fetches from one leader what follows it here: a loop around a
// fetcher.Fetcher and a connection that Deps.Leaders opens. Answers go through the
// partitions' loops and come back as progress; the bytes of an answer are held
// until they are appended. A write that cuts a log (cut.go) is done by the
// directory's flusher; until it is done the log is its, and messages for the
// partition are parked.
//
// Retention raises a log's start in its loop, and has files renamed by the flusher
// once the checkpoint holds that start (retention.go, drop.go). The cleaner compacts
// (cleaner.go): it reads a View and writes files of its own; the loop only shows a
// finished segment in the place of its sources (swap.go). The scrubber verifies sealed
// segments (scrubber.go), through handles of its own; the loop only says what the log
// looks like and has stored what was made anew.
//
// What a start finds unsynced is synced behind it, a few partitions at a time
// (tails.go).
//
// Goroutines: a flusher for each log directory, loaders while starting and
// stopping, the cleaner's while there is something to compact, the scrubbers' while
// there is something to verify. Everything periodic
// runs on the Runtime's spares. Locks: the index of partitions, the index of fetch
// loops, a Hosted's list of unanswered produces, a directory's checkpoint files and
// the list of what it is to lower, that of logs to be synced, the fetch session cache, the cleaner's; none is
// held while another is taken, but for the cleaner's, under which that of a
// cleaning is, and so for a scrubber's, under which its counters' may be too.
//
// Files that it writes beside Kafka's are described in docs/formats.
package host
