// Package consumer is the state of one consumer group whose coordinator assigns
// partitions (KIP-848): its members, what they subscribe to, the assignment that
// is aimed at, and how far each member has come towards it.
//
// There are three kinds of epoch. The group's rises when members or what they can
// read change. The target's is the group's at the time the target assignment was
// made. A member's is that of the target it has arrived at. A member that has to
// give up partitions first is told so and stays in its epoch; once it has given
// them up it moves on and gets what is free; what others still hold is given to
// it as it becomes free. So no partition has two readers.
//
// A Group changes only by Replay of records, which are Kafka's own, byte for byte
// (docs/formats/consumer_offsets.md). Heartbeat, Leave and Remove decide and
// return records. The package is pure.
package consumer
