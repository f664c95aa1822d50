// Package bench measures a running broker from outside: a load generator that
// sends requests encoded beforehand, so that the client's own cost is small
// and known, and a reader of the broker process's CPU clock. It knows nothing
// of this broker's insides; any Kafka-compatible broker can stand at the other
// end. cmd/tidemark perf runs its cells against one broker, bench/compare
// runs them against several in turn.
package bench
