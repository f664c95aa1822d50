// Package group is the state machine of consumer groups: who is a member, which
// generation they are in, and what offsets they have committed. One Machine holds
// all groups that one partition of __consumer_offsets is the home of. It is a
// coordinator.Machine and pure: the clock comes with each call, chance from a
// source it is given.
//
// A group has two parts. Its offsets are what the records say: a commit is shown
// once its record is committed. Its members are of one kind; the classic protocol
// (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) is in classic.go and the files
// named after what it does. The one in which the coordinator assigns (KIP-848) is
// in package consumer, and in peers.go what binds it to requests and clocks.
//
// A group without members is whatever the first that comes makes it. One with
// members changes while consumers roll from one protocol to the other: upgrade.go
// makes a classic group a consumer group when a member of the other protocol comes;
// the classic members stay, and guests.go serves them from within it; downgrade.go
// makes it classic again when only those are left.
//
// Membership of classic groups changes in memory as members come and go; a record
// is written when a generation has its assignment, and when a group becomes empty,
// and is what a new coordinator starts from. Consumer groups are what their records
// say. Groups of all kinds stand in one registry and share offsets.go.
//
// Records are Kafka's own, byte for byte, so that Kafka's tools read them and the
// directory of a Kafka broker can be taken over: see records.go and
// docs/formats/consumer_offsets.md. Keys of other kinds are passed over and left
// in the log. A record that can't be read costs its key and no other.
//
// Invariants (docs/INVARIANTS.md): 11.
package group
