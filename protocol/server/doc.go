// Package server is the net towards clients and other brokers: it accepts
// connections, cuts frames out of what arrives, has them decoded, hands each
// request to a Handler, and writes the answers in the order of the requests.
//
// # Who runs what
//
// A connection has one goroutine. It reads, decodes and calls Handler.Handle
// inline, request after request; answers given before Handle returns are
// gathered and written when the read buffer runs dry. A handler that can't
// answer yet keeps the *Request and returns; whoever answers it later, from any
// goroutine, releases it and every answer that waited behind it, in order. There
// is no goroutine per request. Such a late answer is written at once if the
// socket takes it without waiting; what the socket does not take is left to a
// goroutine that lives until it is written. So answering never blocks, but it
// does make a system call: answer after a loop was released, not while owning it.
//
// # Frames
//
// A request's byte slices alias the frame it came in, and the connection reuses
// that memory after Handle returns. Who keeps them longer calls Request.Retain
// before Handle returns and Release when done; strings of Request.Msg are copies
// and safe. Under the build tag invariants memory that is given back is filled
// with 0xDB, so that a slice kept by mistake shows.
//
// # Order of effects
//
// Requests of a connection reach the handler in order of arrival, one at a time,
// so an effect that is made before Handle returns, or by entering a loop before
// Handle returns, is in order too. A request whose effect must wait for
// something first (a produce that awaits the transaction coordinator's word
// before its append, a SASL step that awaits a check, a change of a fetch
// session) calls Request.Barrier before Handle returns: no later request of the
// connection is handled until it is answered or calls Lift. Kafka handles one
// request of a connection at a time, so a barrier is never stricter than Kafka,
// and it is what keeps a producer's later batches behind an earlier one that
// waits before its append.
//
// # Bounds
//
// Everything is bounded: a frame's size by API, the requests in flight of a
// connection, the bytes of frames in memory of a node, the time a peer may take
// to finish a frame or to read an answer. Memory for a frame is taken as its
// bytes arrive, never because a length was announced, and a connection that
// waits for a request holds no buffer at all.
package server
