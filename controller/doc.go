// Package controller holds the decisions of the active controller: which
// metadata records a command turns into and what is answered.
//
// The shape is "records out, replay in": Handle reads the image and computes
// records and a reply but changes nothing that the cluster agrees on; Replay,
// fed with committed records only, is the one place where that state moves.
// Beside the image a Controller keeps soft state (when brokers were last
// heard, which of them are leaving) that a new active controller rebuilds.
//
// The package knows neither raft nor the log nor the network: controller/quorum
// runs it, proposes its records and keeps its replies until the commit. It is
// pure; a Controller belongs to the loop of its node.
//
// Sources: KIP-631 (registration, heartbeats), KIP-455 (reassignment fields),
// KIP-966 (eligible leaders), the Kafka protocol for error codes.
package controller
