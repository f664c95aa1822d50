// Package scrub decides which sealed segment of a log directory is verified next,
// and how fast. It knows segments by name and size only; package log reads them, and
// partition/host brings the two together. Nothing here waits, and the time is an
// argument.
//
// A segment that was never verified comes before all others; then the one whose last
// verification is longest ago. What a Book knows is kept over restarts as a small
// file (see Book.Marshal), which may be lost: then more is verified than must be.
package scrub
