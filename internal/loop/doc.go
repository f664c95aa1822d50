// Package loop runs state machines that have one owner at a time and no
// goroutine of their own.
//
// A Box is a mailbox, a flag that says whether somebody owns it, and a Handler.
// Whoever has a message enters the box: the message is put in the mailbox, and
// if nobody owns the box the caller becomes the owner and drains it. So a
// produce request is decided and appended on the goroutine that read it from
// its socket, without a hand-off, and still no two goroutines are ever in one
// Handler.
//
// The protocol (rules 1.1):
//
//   - A message is always enqueued first; owning is tried after, in the same
//     critical section. Nothing overtakes the queue.
//   - An owner releases only when it sees the mailbox empty, in the critical
//     section in which it releases: no message is left without one who will
//     come for it.
//   - A Handler never runs another loop. What it wants done elsewhere it puts
//     in the Outbox. A message for another box is put in that box's mailbox at
//     once (Send), so that order between two boxes holds; the other box is
//     entered, and replies are delivered, after the release, by the one
//     trampoline at the bottom of the stack: the stack never grows with the
//     length of a chain of boxes.
//   - An owner handles its own message and at most 64 others, or works for 200
//     µs, over all boxes of one Enter. Then it releases and leaves the rest to
//     a spare goroutine (Runtime.Spare).
//   - While owning, nothing blocks: no socket, no fsync, no wait, no
//     compression.
//
// Deadlines: after each drain the owner asks the Handler for its NextDeadline
// and arms the node's timer heap if it came nearer. A deadline that moved away
// is left armed; it fires once for nothing.
//
// A Handler that panics leaves its box owned for ever. Whoever wants to survive
// a failed assertion recovers inside Handle and Tick.
//
// loop/realtime is the Runtime of a real node, loop/simtime that of the
// simulator. The box itself is checked over all interleavings of small
// schedules in model_test.go.
package loop
