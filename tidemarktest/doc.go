// Package tidemarktest runs Tidemark inside a Go test: one node or a cluster of
// several, in the test's own process, on free ports of the loopback, with their
// disks in memory unless a directory is given. Real clients connect to them.
//
//	c := tidemarktest.Start(t, tidemarktest.Options{Nodes: 3})
//	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
//
// A node can be stopped, killed and started again in the middle of the test, with
// what its disk would hold then.
package tidemarktest
