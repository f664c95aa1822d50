// Package kafka runs Apache Kafka from its Maven artifacts: the broker, as the
// reference that the compatibility tests and golden lists come from, and the
// command line tools, as clients of whatever broker they are pointed at.
//
// The jars are resolved by Maven once (pom.xml) into compat/.cache, which is
// not part of the repository. Java 17 or newer and mvn must be on the PATH when
// the cache is empty; java alone afterwards.
package kafka
