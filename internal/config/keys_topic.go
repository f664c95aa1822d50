package config

import "math"

const (
	hourMs   = 3600 * 1000
	minuteMs = 60 * 1000
)

func same(name string) []Synonym { return []Synonym{{Name: name}} }

// topicKeys is every topic setting that Kafka 4.3 has, by meaning.
var topicKeys = []Key{
	{Name: "cleanup.policy", Type: List, Default: "delete", Want: oneOf("compact", "delete"), Scope: ScopeTopic,
		Synonyms: same("log.cleanup.policy"), topic: func(t *Topic) any { return &t.CleanupPolicy },
		Doc: "How old data goes away: delete drops whole segments by age and size, compact keeps the last record of each key; both may be given. An empty list keeps everything."},
	{Name: "compression.type", Type: String, Default: "producer", Want: compressionWant, Scope: ScopeTopic,
		Synonyms: same("compression.type"), topic: func(t *Topic) any { return &t.CompressionType },
		Doc: "Codec of stored batches. producer stores what arrives; any other value makes the broker compress again what differs, which costs CPU on each produce."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Want: betweenOr(1, 9, -1), Scope: ScopeTopic,
		Synonyms: same("compression.gzip.level"), topic: func(t *Topic) any { return &t.GzipLevel },
		Doc: "Effort of gzip when the broker compresses; -1 is the codec's default."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Want: between(1, 17), Scope: ScopeTopic,
		Synonyms: same("compression.lz4.level"), topic: func(t *Topic) any { return &t.LZ4Level },
		Doc: "Effort of LZ4 when the broker compresses."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Want: between(-131072, 22), Scope: ScopeTopic,
		Synonyms: same("compression.zstd.level"), topic: func(t *Topic) any { return &t.ZstdLevel },
		Doc: "Effort of zstd when the broker compresses."},
	{Name: "max.message.bytes", Type: Int, Default: "1048588", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("message.max.bytes"), topic: func(t *Topic) any { return &t.MaxMessageBytes },
		Doc: "Largest record batch, as stored, that a produce may carry. Consumers always get a partition's first batch whole, whatever their own limits."},
	{Name: "message.timestamp.type", Type: String, Default: "CreateTime", Want: timestampTypeWant, Scope: ScopeTopic,
		Synonyms: same("log.message.timestamp.type"), topic: func(t *Topic) any { return &t.MessageTimestampType },
		Doc: "CreateTime keeps the producer's timestamps; LogAppendTime replaces them by the leader's clock at append."},
	{Name: "message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.message.timestamp.before.max.ms"), topic: func(t *Topic) any { return &t.BeforeMaxMs },
		Doc: "How far a record's CreateTime may lie behind the broker's clock before the batch is refused with INVALID_TIMESTAMP."},
	{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.message.timestamp.after.max.ms"), topic: func(t *Topic) any { return &t.AfterMaxMs },
		Doc: "How far a record's CreateTime may lie ahead of the broker's clock before the batch is refused with INVALID_TIMESTAMP."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Want: atLeast(1), Scope: ScopeTopic,
		Synonyms: same("min.insync.replicas"), topic: func(t *Topic) any { return &t.MinInsyncReplicas },
		Doc: "Least number of in-sync replicas with which an acks=all produce is accepted. A value above the replica count counts as the replica count."},
	{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Scope: ScopeTopic,
		Synonyms: same("unclean.leader.election.enable"), topic: func(t *Topic) any { return &t.UncleanLeaderElection },
		Doc: "Lets a replica that may lack acknowledged records become leader when no other is left. Each such election drops records and is told in a receipt."},

	{Name: "segment.bytes", Type: Int, Default: "1073741824", Want: atLeast(1 << 20), Scope: ScopeTopic,
		Synonyms: same("log.segment.bytes"), topic: func(t *Topic) any { return &t.SegmentBytes },
		Doc: "Size at which a segment file is closed and a new one begun."},
	{Name: "internal.segment.bytes", Type: Int, Null: true, Want: atLeast(14), Scope: ScopeTopic, Internal: true,
		topic: func(t *Topic) any { return &t.SegmentBytes },
		Doc:   "Overrides segment.bytes without its lower bound. For tests that need many small segments."},
	{Name: "segment.ms", Type: Long, Default: "604800000", Want: atLeast(1), Scope: ScopeTopic,
		Synonyms: []Synonym{{Name: "log.roll.ms"}, {Name: "log.roll.hours", Scale: hourMs}}, topic: func(t *Topic) any { return &t.SegmentMs },
		Doc: "Age, by record timestamps, at which a segment is closed by the next append."},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: []Synonym{{Name: "log.roll.jitter.ms"}, {Name: "log.roll.jitter.hours", Scale: hourMs}}, topic: func(t *Topic) any { return &t.SegmentJitterMs },
		Doc: "Most that is taken off segment.ms, by chance for each segment, so that partitions do not roll all at once."},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", Want: atLeast(4), Scope: ScopeTopic,
		Synonyms: same("log.index.size.max.bytes"), topic: func(t *Topic) any { return &t.SegmentIndexBytes },
		Doc: "Size at which an index is full, which closes its segment."},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.index.interval.bytes"), topic: func(t *Topic) any { return &t.IndexIntervalBytes },
		Doc: "Bytes of log between two index entries. Smaller finds offsets with less reading and makes larger indexes."},
	{Name: "preallocate", Type: Bool, Default: "false", Scope: ScopeTopic,
		Synonyms: same("log.preallocate"), topic: func(t *Topic) any { return &t.Preallocate },
		Doc: "Reserves the disk space of a whole segment when it is created."},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.segment.delete.delay.ms"), topic: func(t *Topic) any { return &t.FileDeleteDelayMs },
		Doc: "How long the files of a removed segment or topic stay on disk."},
	{Name: "flush.messages", Type: Long, Default: "9223372036854775807", Want: atLeast(1), Scope: ScopeTopic,
		Synonyms: same("log.flush.interval.messages"), topic: func(t *Topic) any { return &t.FlushMessages },
		Doc: "Records after which the log is synced to disk. 1 syncs before every acknowledgement, shared by all produces that wait at that moment."},
	{Name: "flush.ms", Type: Long, Default: "9223372036854775807", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: []Synonym{{Name: "log.flush.interval.ms"}, {Name: "log.flush.scheduler.interval.ms"}}, topic: func(t *Topic) any { return &t.FlushMs },
		Doc: "Longest time that a record stays unsynced."},

	{Name: "retention.ms", Type: Long, Default: "604800000", Want: atLeast(-1), Scope: ScopeTopic,
		Synonyms: []Synonym{{Name: "log.retention.ms"}, {Name: "log.retention.minutes", Scale: minuteMs}, {Name: "log.retention.hours", Scale: hourMs}},
		topic:    func(t *Topic) any { return &t.RetentionMs },
		Doc:      "How old the newest record of a segment may get before the segment is removed, under the delete policy; -1 keeps segments for ever."},
	{Name: "retention.bytes", Type: Long, Default: "-1", Scope: ScopeTopic,
		Synonyms: same("log.retention.bytes"), topic: func(t *Topic) any { return &t.RetentionBytes },
		Doc: "Size above which a partition's oldest segments are removed, under the delete policy; -1 sets no bound."},

	{Name: "delete.retention.ms", Type: Long, Default: "86400000", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.cleaner.delete.retention.ms"), topic: func(t *Topic) any { return &t.DeleteRetentionMs },
		Doc: "How long a compacted topic keeps tombstones after they were first compacted, so that a reader from the start sees every deletion."},
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Want: between(0, 1), Scope: ScopeTopic,
		Synonyms: same("log.cleaner.min.cleanable.ratio"), topic: func(t *Topic) any { return &t.MinCleanableDirtyRatio },
		Doc: "Share of a compacted partition that must be uncleaned before it is cleaned."},
	{Name: "min.compaction.lag.ms", Type: Long, Default: "0", Want: atLeast(0), Scope: ScopeTopic,
		Synonyms: same("log.cleaner.min.compaction.lag.ms"), topic: func(t *Topic) any { return &t.MinCompactionLagMs },
		Doc: "How long a record of a compacted topic stays as it was written."},
	{Name: "max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Want: atLeast(1), Scope: ScopeTopic,
		Synonyms: same("log.cleaner.max.compaction.lag.ms"), topic: func(t *Topic) any { return &t.MaxCompactionLagMs },
		Doc: "How long a record of a compacted topic may stay uncleaned."},

	{Name: "leader.replication.throttled.replicas", Type: List, Default: "", Want: checked(throttledReplicas), Scope: ScopeTopic, Ignored: noThrottle},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "", Want: checked(throttledReplicas), Scope: ScopeTopic, Ignored: noThrottle},
	{Name: "remote.storage.enable", Type: Bool, Default: "false", Scope: ScopeTopic, Ignored: noTiers},
	{Name: "remote.log.copy.disable", Type: Bool, Default: "false", Scope: ScopeTopic, Ignored: noTiers},
	{Name: "remote.log.delete.on.disable", Type: Bool, Default: "false", Scope: ScopeTopic, Ignored: noTiers},
	{Name: "local.retention.ms", Type: Long, Default: "-2", Want: atLeast(-2), Scope: ScopeTopic, Synonyms: same("log.local.retention.ms"), Ignored: noTiers},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", Want: atLeast(-2), Scope: ScopeTopic, Synonyms: same("log.local.retention.bytes"), Ignored: noTiers},
}

var (
	compressionWant   = oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
	timestampTypeWant = oneOf("CreateTime", "LogAppendTime")
	unbounded         = math.Inf(1)
)
