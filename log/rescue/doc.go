// Package rescue takes over the log directories of stopped Apache Kafka brokers:
// it looks at what they hold, chooses the replica of each partition that knows
// most, and copies it into the empty log directory of a node of ours, with the
// topics' ids, settings and numbers of partitions as far as Kafka's own metadata
// log tells them. The directories are only read. The batches are judged by
// package log when the node starts, as after a loss of power.
//
// What was imported from where stays in the log directory as a manifest
// (docs/formats/private.md): until the node has metadata of its own it is where
// the topics' settings are.
package rescue
