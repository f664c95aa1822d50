// Package integration tests the real binary as a process: killed at any instant,
// stopped under load, with a full or a failing disk, with damaged files, and
// with clients that mean harm. It has no product code.
//
// A cluster is several processes on the loopback. Where links are to be cut, they
// go through a proxy that tells who connects by the client.id of the first
// request. What clients were told and what they read goes into a history, and a
// checker that shares no code with the broker says what of it can't be; it also
// reads the segment files of all replicas and compares them. How long a failover
// took is logged and not asserted: that it ends is. What groups did has a history
// and a checker of its own: which offsets members found, delivered and committed.
//
// Tests that need root, loop mounts or a tracer are skipped where those are
// missing, unless TIDEMARK_TEST_ROOT=1 says that they may not be. Longer variants
// run with TIDEMARK_TEST_LONG set.
package integration
