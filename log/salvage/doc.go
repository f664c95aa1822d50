// Package salvage gets out of damaged segments what is still whole: it reads any
// segment files of one partition, Kafka's or ours, over all that is no batch,
// puts the surviving batches in order, and writes them as the segments of a new
// directory or hands them to a caller. It reads its sources only. What it leaves
// out, and why, is part of what it returns.
package salvage
