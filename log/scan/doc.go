// Package scan reads the batches of segment files whatever state they are in:
// forward, through one window, and over bytes that are no batch to the next one
// that is beyond doubt. It decides nothing: what a fault means for a log is for
// packages log (at a start), dump, verify and salvage (for a person) to say.
//
// It shares no code with package log on purpose: what it finds is a second
// opinion on what package log wrote. Formats: docs/formats.
package scan
