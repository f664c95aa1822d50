// Package model holds the nouns and numbers that every other package shares:
// identifiers, offsets, epochs, sequences and the two kinds of time. It knows
// nothing of the wire, the disk or the network, and imports nothing of ours.
package model
