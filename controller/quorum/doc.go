// Package quorum runs the metadata quorum of a node: the consensus library
// go.etcd.io/raft over a segment log, the image that committed entries add up
// to, and, while this node leads, the active controller.
//
// A Node is a controller: a voter, or one that follows without a vote because it
// was not added yet, was removed, or can't believe its disk. An Observer is a
// broker that is no controller: it pulls what was committed from any controller.
// Both are one loop each. Commands are posted to a Node's mailbox, so that no
// connection waits for the fsync of a metadata change on its own goroutine;
// everything else (raft, log, controller) is touched by that loop only. Image
// and Describe are published values that any goroutine may read.
//
// What is promised: a command is answered only after its entry is committed
// and applied, an error says that it is not known to be; images are published
// in the order of their offsets; a voter never speaks before what it says is on
// its disk; a node that lost what it promised takes another name and does not
// vote; the image that Config.Started announces is not older than anything that
// was committed before the start.
//
// What the carrier (package broker) does: it brings the bodies of private
// requests (KeyRaft, KeyPull, KeyProbe; docs/formats/private.md) to
// Node.AnswerPrivate of other nodes, and tells Node.PeerLost when a controller
// refuses connections. It may lose, repeat and reorder what it carries.
//
// Layout on disk (docs/formats/metadata.md, private.md): the directory
// __cluster_metadata-0 of the metadata log directory holds the segments of the
// log, quorum-state, and snapshots named <end offset>-<term>.checkpoint; of a
// node that follows, snapshots and the file observed; of one that took part in a
// bootstrap or has taken another name, quorum-identity.
//
// Invariant 12 (docs/INVARIANTS.md) is kept here. The tests run clusters of
// nodes on one heap with a seed (cluster_test.go); QUORUM_SEEDS=0-1000 runs
// more of them.
//
// The library draws its election timeouts from crypto/rand, which a simulator
// seeds through testing/cryptotest or a replaced rand.Reader. A single voter
// never waits for such a timeout: it campaigns at once.
package quorum
