// Package logtest helps tests of everything that stands on a log: it builds
// batches, keeps a model of a log that is a plain list of batches, and checks a
// log and its directory against both, by other means than the log itself uses.
package logtest
