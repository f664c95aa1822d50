// Package clients drives Kafka clients of many languages through one table of
// behaviours.
//
// Each client has a driver: a small program in its language that reads one JSON
// object a line, does what it says with the client's own API, and answers with
// one JSON object a line. A row of the table is written once, in Go, and runs
// against every client; what a client can't do is listed with the reason beside
// the client. Versions are pinned by the package files beside the drivers, and
// what they name is installed into compat/.cache when it is first needed.
//
// With TIDEMARK_TEST_TARGET=kafka the rows run against Apache Kafka, which is
// how a row proves that it asks for what Kafka does.
package clients
