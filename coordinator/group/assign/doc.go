// Package assign decides which member of a consumer group reads which partitions,
// for groups whose coordinator assigns (KIP-848): who subscribes to what goes in,
// a target assignment comes out. It is pure, and its results depend on nothing
// but its input.
//
// Both assignors give each partition of a subscribed topic to exactly one member
// that subscribes to it, and nothing to a member that does not.
package assign
