// Package proc starts other programs for the compatibility tests: brokers that
// run on, and clients that run to their end. It keeps what they print and never
// leaves one behind.
package proc
