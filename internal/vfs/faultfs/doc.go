// Package faultfs throws faults into a file system: errors, full disks, short
// writes, failed fsyncs, slowness, flipped bits.
//
// What happens when is said by an Injector, built from predicates that compose
// and print:
//
//	faultfs.When(faultfs.And(
//		faultfs.PathMatch("*.log"),
//		faultfs.OpIn(faultfs.OpWrite),
//		faultfs.NthOp(3),
//	), faultfs.EIO())
//
// prints as (when (and (path "*.log") (op write) (nth 3)) eio). Nothing is
// drawn but from a given rand.Rand, and slowness goes through a given hook, so
// a simulator stays in charge of chance and time.
//
// A File of this package is never passed to sendfile: OSFile says there is
// none, or its reads would go past the faults.
package faultfs
