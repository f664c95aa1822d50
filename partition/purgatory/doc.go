// Package purgatory keeps operations of one partition that wait: produces for
// an offset to become replicated or durable, deletes for the low watermark,
// fetches for the readable end to move.
//
// It is pure and owned by the partition's loop. Nothing here decides what an
// operation is answered; it only says, in a fixed order, which operations have
// what they waited for and which ran out of time. The nodes are embedded in
// the waiting operations, so that waiting allocates nothing but the heaps'
// own growth.
package purgatory
