// Package quorum runs the metadata quorum of a node: the consensus library
// go.etcd.io/raft over a segment log, the image that committed entries add up
// to, and, while this node leads, the active controller.
//
// A Node is one loop. Commands are posted to its mailbox, so that no connection
// waits for the fsync of a metadata change on its own goroutine; everything
// else (raft, log, controller) is touched by that loop only. Image and Describe
// are published values that any goroutine may read.
//
// What is promised: a command is answered only after its entry is committed
// and applied, an error says that it is not known to be; images are published
// in the order of their offsets; a voter never speaks before what it says is on
// its disk.
//
// Layout on disk (docs/formats/metadata.md): the directory
// __cluster_metadata-0 of the metadata log directory holds the segments of the
// log, quorum-state, and snapshots named <end offset>-<term>.checkpoint.
//
// The library draws its election timeouts from crypto/rand, which a simulator
// seeds through testing/cryptotest or a replaced rand.Reader. A single voter
// never waits for such a timeout: it campaigns at once.
package quorum
