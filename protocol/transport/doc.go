// Package transport carries requests from one node of the cluster to another:
// replica fetches, Raft messages, heartbeats, forwarded commands.
//
// # Who runs what
//
// A Peer sends requests to one node over one connection at a time. It is a state
// machine in a loop.Box: no goroutine, no clock of its own, chance from the rand
// it is given, so that the simulator repeats what it does. A Dialer opens the
// byte streams below it. The one of TCP has two goroutines a connection, one
// that reads and one that writes; the simulator's has none.
//
// Send may be called from anywhere but within a loop. The request is encoded and
// given to the stream by whoever owns the peer's box; the socket is written to
// by the stream's own goroutine, which takes all that has come since its last
// write in one. An answer is taken apart and told to the Receiver on the
// goroutine that read it, after the box was released.
//
// # The life of a request
//
// It waits until there is a connection and room among those in flight, is
// written, and is answered. Each is told exactly once, with the answer or with
// an error:
//
//	ErrFull         as many wait as may (QueueMax)
//	ErrClosed       the peer was closed
//	ErrUnsupported  the two nodes have no version of this API in common
//	ErrTimeout      no answer in time
//	ErrLost         the connection went down, or could not be made
//	ErrMalformed    the answer can't be read
//
// ErrLost that also is ErrTimeout is a connection that went down, or was not
// made, because something else took too long. An error that also is ErrNotSent
// says that the node can't have seen the request; with any other it may have
// acted on it. Nothing is sent twice: who wants another try sends again.
//
// # The life of a connection
//
// It is opened when the first request waits. First ApiVersions is asked: each
// request then goes in the highest version that both nodes know. Kafka answers
// in the order of the requests, so the order is what relates the two; the
// correlation id is a check of it. Therefore a request that times out takes the
// connection with it, and with that all others in flight: an answer that comes
// late must not be taken for the next one's.
//
// A connection that went down is opened again after a delay that doubles with
// each failure in a row and has a fifth of itself as jitter. A failed attempt
// fails all that wait, since their senders may know a better node; a connection
// that is lost fails what was in flight, and leaves to the next attempt what was
// never sent.
//
// # Memory
//
// An answer is read into one pooled Buffer, which its byte fields alias. The
// Receiver releases it, once, when it has done with them. An answer of more than
// FrameMax closes the stream.
package transport
