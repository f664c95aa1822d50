// Package compat tests a running broker with real clients: kcat, franz-go,
// Apache Kafka's own command line tools and its log dump, Kafka Streams and Kafka
// Connect. Its tests start the broker as a process of its own, so nothing here
// imports the broker.
//
// The target is the tidemark binary. With TIDEMARK_TEST_TARGET=kafka the same
// tests run against Apache Kafka, which is how a test proves that it asks for
// what Kafka does. TIDEMARK_TEST_BINARY names a tidemark binary to use instead
// of building one. A client that is missing fails the tests that need it.
package compat
