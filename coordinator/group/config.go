package group

import (
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/model"
)

// Config is the settings of groups, by Kafka's names.
type Config struct {
	// SessionMin and SessionMax bound a member's session timeout, in nanoseconds:
	// group.min.session.timeout.ms, group.max.session.timeout.ms.
	SessionMin, SessionMax model.Instant
	// InitialDelay is how long an empty group waits for more members after the
	// first: group.initial.rebalance.delay.ms.
	InitialDelay model.Instant
	// SizeMax bounds the members of a group: group.max.size.
	SizeMax int
	// MetadataMax bounds the text committed with an offset, in bytes:
	// offset.metadata.max.bytes.
	MetadataMax int
	// RetentionMs is how long offsets are kept after they lose their readers, in
	// milliseconds: offsets.retention.minutes.
	RetentionMs int64
	// CheckEvery is how often old offsets are looked for:
	// offsets.retention.check.interval.ms.
	CheckEvery model.Instant
	// CommitTimeout is how long a commit waits for its replicas:
	// offsets.commit.timeout.ms.
	CommitTimeout model.Instant

	// Consumer groups whose coordinator assigns (KIP-848):
	// group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms,
	// group.consumer.max.size.
	ConsumerSession, ConsumerHeartbeat model.Instant
	ConsumerSizeMax                    int
	// Migration is which way groups with members may change between the protocols:
	// group.consumer.migration.policy.
	Migration Migration
	// Settings returns the session timeout and the heartbeat interval of members of
	// one group whose coordinator assigns: its own if it has any, else
	// ConsumerSession and ConsumerHeartbeat. nil: no group has.
	Settings func(group string) (session, heartbeat model.Instant)
	// Topics returns the topics as this broker knows them now. It is called in
	// the partition's loop.
	Topics func() consumer.Topics
}

// Bounds that Kafka has no setting for.
const (
	// newMemberTimeout is how long a new member may wait in its first join; it
	// can't send heartbeats yet. Source: KAFKA-7610.
	newMemberTimeout = model.Instant(5 * 60 * 1e9)
	// pendingMax bounds the member ids given away and not yet used, over all
	// groups of a machine.
	pendingMax = 100_000
	// lateMax is how late a deadline may be met before the process counts as
	// having been stopped.
	lateMax = model.Instant(3e9)
	// batchRecordsMax bounds the tombstones of one batch.
	batchRecordsMax = 2_000
)

// settings are the session timeout and the heartbeat interval in a group.
func (c *Config) settings(group string) (session, heartbeat model.Instant) {
	if c.Settings == nil {
		return c.ConsumerSession, c.ConsumerHeartbeat
	}
	return c.Settings(group)
}

const nanosPerMilli = model.Instant(1e6)
