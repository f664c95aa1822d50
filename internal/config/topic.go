package config

import "github.com/tidemark/tidemark/internal/model"

// CompressionType is a topic's compression.type: the codec that stored batches
// have, or "producer" for whatever the producer chose.
type CompressionType string

// The compression types.
const (
	CompressionProducer     CompressionType = "producer"
	CompressionUncompressed CompressionType = "uncompressed"
	CompressionGzip         CompressionType = "gzip"
	CompressionSnappy       CompressionType = "snappy"
	CompressionLZ4          CompressionType = "lz4"
	CompressionZstd         CompressionType = "zstd"
)

// TimestampType is a topic's message.timestamp.type. Source: KIP-32.
type TimestampType string

// The timestamp types.
const (
	CreateTime    TimestampType = "CreateTime"
	LogAppendTime TimestampType = "LogAppendTime"
)

// CleanupPolicy is a topic's cleanup.policy as flags. Neither set means that
// nothing is ever removed but by DeleteRecords.
type CleanupPolicy struct {
	Compact bool
	Delete  bool
}

func cleanupPolicyOf(items []string) CleanupPolicy {
	var p CleanupPolicy
	for _, s := range items {
		switch s {
		case "compact":
			p.Compact = true
		case "delete":
			p.Delete = true
		}
	}
	return p
}

// Topic is the settings in force for one topic, after all layers. It is a value:
// copy it freely.
type Topic struct {
	// CleanupPolicy says how old data goes away.
	CleanupPolicy CleanupPolicy
	// CompressionType is the codec of stored batches.
	CompressionType CompressionType
	// GzipLevel is 1 to 9, or -1 for the codec's default. Used only when the
	// broker compresses itself, as the other levels.
	GzipLevel int32
	// LZ4Level is 1 to 17.
	LZ4Level int32
	// ZstdLevel is -131072 to 22.
	ZstdLevel int32
	// MaxMessageBytes bounds one record batch as stored.
	MaxMessageBytes int32
	// MessageTimestampType says whose clock stamps records.
	MessageTimestampType TimestampType
	// BeforeMaxMs is how much older than the broker's clock a record's CreateTime
	// may be, in milliseconds.
	BeforeMaxMs int64
	// AfterMaxMs is how much newer than the broker's clock a record's CreateTime
	// may be, in milliseconds.
	AfterMaxMs int64
	// MinInsyncReplicas is the least number of in-sync replicas for acks=all.
	MinInsyncReplicas int32
	// UncleanLeaderElection lets a replica outside the ISR and ELR lead, at the
	// price of losing records.
	UncleanLeaderElection bool

	// SegmentBytes is the size at which a segment is closed.
	SegmentBytes int32
	// SegmentMs is the age, in record time, at which a segment is closed.
	SegmentMs int64
	// SegmentJitterMs is the most that is taken off SegmentMs, by chance.
	SegmentJitterMs int64
	// SegmentIndexBytes is the size at which an index is full.
	SegmentIndexBytes int32
	// IndexIntervalBytes is how much log lies between two index entries.
	IndexIntervalBytes int32
	// Preallocate reserves a segment's disk space when it is created.
	Preallocate bool
	// FileDeleteDelayMs is how long a removed segment's files stay on disk.
	FileDeleteDelayMs int64

	// FlushMessages is the number of records after which the log is synced to
	// disk; 1 syncs before each acknowledgement.
	FlushMessages int64
	// FlushMs is the longest time a record stays unsynced.
	FlushMs int64

	// RetentionMs is how old a segment's newest record may get; -1 is for ever.
	RetentionMs int64
	// RetentionBytes bounds a partition's size; -1 is unbounded.
	RetentionBytes int64

	// DeleteRetentionMs is how long a compacted topic keeps tombstones.
	DeleteRetentionMs int64
	// MinCleanableDirtyRatio is the share of uncleaned log at which a compacted
	// partition is cleaned.
	MinCleanableDirtyRatio float64
	// MinCompactionLagMs is how long a record stays as it was written.
	MinCompactionLagMs int64
	// MaxCompactionLagMs is how long a record may stay uncleaned.
	MaxCompactionLagMs int64
}

// Flushes reports whether acknowledgements wait for the disk.
func (t *Topic) Flushes() bool { return t.FlushMessages == 1 || t.FlushMs == 0 }

// CanKeepCodec reports whether a batch of the codec named producer (as in
// CompressionType) may be stored as it came.
func (t *Topic) CanKeepCodec(producer CompressionType) bool {
	return t.CompressionType == CompressionProducer || t.CompressionType == producer
}

// TimestampWindow returns the oldest and newest CreateTime that a record may
// carry at wall time now.
func (t *Topic) TimestampWindow(now model.Timestamp) (oldest, newest model.Timestamp) {
	oldest, newest = now-model.Timestamp(t.BeforeMaxMs), now+model.Timestamp(t.AfterMaxMs)
	if newest < now {
		newest = model.Timestamp(1<<63 - 1)
	}
	return oldest, newest
}
