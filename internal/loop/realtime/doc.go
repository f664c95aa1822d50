// Package realtime is the Runtime of a real node: the clocks of the operating
// system, a bounded set of spare goroutines, and one timer goroutine for the
// deadlines of all loops.
package realtime
