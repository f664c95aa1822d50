// Package fetcher holds the rules by which a broker fetches from one leading
// broker the partitions that it follows there: one request at a time, within one
// fetch session (KIP-227), for as many partitions as there are.
//
// It is pure. Fetcher.Step(now, input, output) takes one fact and leaves in the
// output the request to send and what the answer brought for each partition. It
// opens no connection and knows no log: where a partition stands is what its
// partition.Partition has told last, by partition.Follow and partition.Progress,
// and what an answer is worth is decided there. A Fetcher belongs to one loop
// (package partition/host).
//
// A partition is in one of these states:
//
//   - Fetching: it is in the next request.
//   - Applying: its answer is with the partition, which has not told yet.
//   - Truncating: it is out of the leader's range, whose bounds are asked for.
//   - Delayed: after a failure, until a deadline.
//   - Failed: the leader says that the epoch is over. A registration ends that.
//
// While answers are being applied the next fetch waits a moment, so that it can
// carry what they bring; what takes longer, such as a slow fsync, is left out of
// it and joins a later one.
//
// An answer counts only for the partitions that are still as they were when the
// request was sent, and a partition takes it only in the position that was asked
// with.
package fetcher
