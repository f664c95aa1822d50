// Package protocol turns bytes on the wire into Kafka requests and answers back
// into bytes. It holds what every part of a broker must agree on: the frame and
// header layouts, the one table of APIs and the versions served of each, the
// error codes, the bounded decoding of requests, and the encoder of the one
// response that is written by hand, Fetch.
//
// The package is pure: it knows no socket, disk, clock or lock. Sockets and the
// order of answers are protocol/server's business.
//
// Decoding is in two steps. A guard first walks the body against the schema of
// its API and version, without allocating, and adds up what the decoder would
// allocate; a body that is malformed, or would cost more than MaxAmplification
// times its own length, is refused. Only then does kmsg build the request.
// Byte slices of a decoded request alias the body, so whoever keeps one past
// the life of the frame copies it.
//
// docs/APIS.md is generated from the table: run go generate ./protocol.
package protocol
