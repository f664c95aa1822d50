// Package epoch knows where each leader epoch of one partition's log begins,
// and answers the two questions replication builds on it: up to where does
// this log agree with a log that ends in epoch E, and how far must a follower
// cut its log after the leader's answer.
//
// It is pure: no file, clock or lock. A Cache is owned by its partition's loop
// and only touched from there. The file that holds its entries belongs to
// log/checkpoint; the order in which that file and the log become durable
// belongs to package log.
//
// Sources: KIP-101 (epochs instead of high watermarks), KIP-279 (the answer
// names an epoch), KIP-595 and KIP-392 (truncation on fetch).
//
// Invariant 2: entries strictly rise in epoch and in start offset, and equal
// what the batch headers of the log say.
package epoch
