// Package sim runs a whole broker in a simulated world: one goroutine, one heap
// of events, a disk in memory, clients that write down what they were told, and
// checkers that compare it with what is there. Everything is drawn from one
// seed, so a seed that fails fails again.
//
// The broker is the production one: broker.New with a World of ours. Its loops,
// its spares and its timers run from the heap; its disk is faultfs over memfs;
// its writes and fsyncs are done when the simulator says so; requests come in
// as encoded frames through server.LocalConn, the same decoding and dispatch as
// from a socket.
//
// A run has two phases. In the safety phase anything goes: kills, power
// failures, torn writes, failed fsyncs, full disks, slow disks, jumping clocks,
// cut connections, topics that come and go, bits that flip on disks. In the liveness phase the world is
// healed, and within some virtual time every partition that was not honestly
// damaged must be led and every client must have finished.
//
// Faults come one by one, as stories of several around one partition, and as
// reflexes to what the metadata has just said: see story.go. Each act of the
// nemesis has chance of its own, by its kind and number, and can be left out
// alone.
//
// A seed has to be cheap, since it takes thousands: the disks share what nobody
// has changed, what was read of a segment file is not read again, and a trace is
// made only for who reads it.
//
// The checkers decide by themselves: they have their own reader of segment
// files and checkpoints and take nothing from the product but what it publishes
// and answers. The numbers in failures are those of docs/INVARIANTS.md.
package sim
