// Package integration tests the real binary as a process: killed at any instant,
// stopped under load, with a full or a failing disk, with damaged files, and
// with clients that mean harm. It has no product code.
//
// Tests that need root, loop mounts or a tracer are skipped where those are
// missing, unless TIDEMARK_TEST_ROOT=1 says that they may not be. Longer variants
// run with TIDEMARK_TEST_LONG set.
package integration
