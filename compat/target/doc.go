// Package target starts the broker that the compatibility tests talk to: the
// tidemark binary, or Apache Kafka when TIDEMARK_TEST_TARGET=kafka. Either can
// be stopped in order, killed, and started again on the data it left.
package target
