// Package producer remembers what idempotent and transactional producers last
// wrote to one partition, so that a retry is recognised, a gap is refused, an
// old instance is fenced, and the first offset whose outcome is not yet known
// can be told.
//
// It is pure: no file, clock or lock. A StateManager is owned by its
// partition's loop. Its caller keeps this order for each batch: Check (leader
// only), append to the log, Update. Update can't fail and applies to every
// batch that is in the log, whoever wrote it: after a restart, a truncation or
// on a follower the state is rebuilt by Reset, Unmarshal of a snapshot, and
// Update for each batch behind it.
//
// Marshal and Unmarshal speak Kafka's producer snapshot, version 1; the page is
// docs/formats/producer-snapshot.md. Sources: KIP-98, KIP-360, KIP-447.
//
// Invariants 7 and 10.
package producer
