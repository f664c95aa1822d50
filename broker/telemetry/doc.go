// Package telemetry decides about what clients tell of themselves (KIP-714): who is
// to push which metrics how often, and which pushes are taken.
//
// A Registry is one broker's memory of client instances. It is pure: the clock, new
// ids and the subscriptions are handed in, and what a push carries is not looked at.
// It holds at most so many instances, each for a few of its push intervals; one that
// was forgotten is made anew by its next request, with the same subscription id, so
// that clients notice neither that nor a change of brokers.
//
// The rules, and the order of the errors, are those that Apache Kafka 4.3.1 shows.
package telemetry
