// Package metadata holds what the cluster agrees on, as values: the records of
// the metadata log, the immutable Image they add up to, the Delta between two
// images, their byte codec, the snapshot file and the hash by which nodes
// compare images.
//
// What it does not do: decide. Which records to write is the controller's
// business (package controller); when they are committed is the quorum's
// (package controller/quorum).
//
// Everything here is pure. An Image may be read from any goroutine without a
// lock; an Edit belongs to whoever made it. Slices and maps reached from an
// Image are shared and must not be written to.
//
// Bytes: docs/formats/metadata.md. Invariants kept here (docs/INVARIANTS.md):
// 6 (ISR within the assignment, leader none or in the ISR, epochs rise) is
// checked at every partition record; 12 (equal images at equal offsets) is what
// Hash compares.
package metadata
