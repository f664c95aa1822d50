package config

// logKeys are the settings of log directories and the broker-wide defaults of
// topic settings.
var logKeys = []Key{
	{Name: "log.dir", Type: List, Default: "./tidemark-data/log", Want: notEmpty(), broker: nowhere,
		Doc: "Directory of partitions, read when log.dirs is not set."},
	{Name: "log.dirs", Type: List, Null: true, broker: nowhere,
		Doc: "Directories of partitions, comma separated. A partition lies in one of them. Not set means log.dir, and that not set means log under tidemark.data.dir."},
	{Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", Want: atLeast(1), Update: ClusterWide, broker: func(b *Broker) any { return &b.Storage.RecoveryThreads },
		Doc: "Logs of one directory that load at once when the broker starts."},
	{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Want: atLeast(1), broker: func(b *Broker) any { return &b.Storage.RetentionCheckInterval },
		Doc: "How often segments that retention lets go are looked for."},
	{Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "60000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Storage.RecoveryPointInterval },
		Doc: "How often the offset up to which each log is surely on disk is written down. Loading after a crash checks what lies beyond."},
	{Name: "log.flush.start.offset.checkpoint.interval.ms", Type: Int, Default: "60000", Want: atLeast(0), broker: func(b *Broker) any { return &b.Storage.LogStartInterval },
		Doc: "How often the first offset of each log is written down."},
	{Name: "replica.high.watermark.checkpoint.interval.ms", Type: Long, Default: "5000", broker: func(b *Broker) any { return &b.Storage.HighWatermarkInterval },
		Doc: "How often the high watermark of each log is written down."},
	{Name: "log.dir.failure.timeout.ms", Type: Long, Default: "30000", Want: atLeast(1), broker: func(b *Broker) any { return &b.Storage.DirFailureTimeout },
		Doc: "How long a broker with a failed log directory waits for the controller to take note before it stops."},
	{Name: "log.flush.scheduler.interval.ms", Type: Long, Default: "9223372036854775807", broker: func(b *Broker) any { return &b.Storage.FlushCheckInterval },
		Doc: "How often logs are looked at for flush.ms, and flush.ms itself when nothing sets it."},

	{Name: "log.cleanup.policy", Type: List, Default: "delete", Want: oneOf("compact", "delete"), Update: ClusterWide, broker: topicDefault,
		Doc: "cleanup.policy of topics that set none."},
	{Name: "compression.type", Type: String, Default: "producer", Want: compressionWant, Update: ClusterWide, broker: topicDefault,
		Doc: "Codec of stored batches of topics that do not say; producer stores what arrives."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Want: betweenOr(1, 9, -1), Update: ClusterWide, broker: topicDefault,
		Doc: "Effort of gzip when the broker compresses, for topics that do not say; -1 is the codec's default."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Want: between(1, 17), Update: ClusterWide, broker: topicDefault,
		Doc: "Effort of LZ4 when the broker compresses, for topics that do not say."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Want: between(-131072, 22), Update: ClusterWide, broker: topicDefault,
		Doc: "Effort of zstd when the broker compresses, for topics that do not say."},
	{Name: "message.max.bytes", Type: Int, Default: "1048588", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "max.message.bytes of topics that set none."},
	{Name: "log.message.timestamp.type", Type: String, Default: "CreateTime", Want: timestampTypeWant, Update: ClusterWide, broker: topicDefault,
		Doc: "message.timestamp.type of topics that set none."},
	{Name: "log.message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "message.timestamp.before.max.ms of topics that set none."},
	{Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "message.timestamp.after.max.ms of topics that set none."},

	{Name: "log.segment.bytes", Type: Int, Default: "1073741824", Want: atLeast(1 << 20), Update: ClusterWide, broker: topicDefault,
		Doc: "segment.bytes of topics that set none."},
	{Name: "log.roll.ms", Type: Long, Null: true, Want: atLeast(1), Update: ClusterWide, broker: topicDefault,
		Doc: "segment.ms of topics that set none. Not set means log.roll.hours."},
	{Name: "log.roll.hours", Type: Int, Default: "168", Want: atLeast(1), broker: topicDefault,
		Doc: "segment.ms of topics that set none, in hours; log.roll.ms wins over it."},
	{Name: "log.roll.jitter.ms", Type: Long, Null: true, Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "segment.jitter.ms of topics that set none. Not set means log.roll.jitter.hours."},
	{Name: "log.roll.jitter.hours", Type: Int, Default: "0", Want: atLeast(0), broker: topicDefault,
		Doc: "segment.jitter.ms of topics that set none, in hours; log.roll.jitter.ms wins over it."},
	{Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Want: atLeast(4), Update: ClusterWide, broker: topicDefault,
		Doc: "segment.index.bytes of topics that set none."},
	{Name: "log.index.interval.bytes", Type: Int, Default: "4096", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "index.interval.bytes of topics that set none."},
	{Name: "log.preallocate", Type: Bool, Default: "false", Update: ClusterWide, broker: topicDefault,
		Doc: "preallocate of topics that set none."},
	{Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "file.delete.delay.ms of topics that set none."},
	{Name: "log.flush.interval.messages", Type: Long, Default: "9223372036854775807", Want: atLeast(1), Update: ClusterWide, broker: topicDefault,
		Doc: "flush.messages of topics that set none."},
	{Name: "log.flush.interval.ms", Type: Long, Null: true, Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "flush.ms of topics that set none. Not set means log.flush.scheduler.interval.ms."},

	{Name: "log.retention.ms", Type: Long, Null: true, Want: checked(retentionTime), Update: ClusterWide, broker: topicDefault,
		Doc: "retention.ms of topics that set none. Not set means log.retention.minutes; -1 keeps segments for ever."},
	{Name: "log.retention.minutes", Type: Int, Null: true, Want: checked(retentionTime), broker: topicDefault,
		Doc: "retention.ms of topics that set none, in minutes. Not set means log.retention.hours."},
	{Name: "log.retention.hours", Type: Int, Default: "168", Want: checked(retentionTime), broker: topicDefault,
		Doc: "retention.ms of topics that set none, in hours; log.retention.ms and log.retention.minutes win over it."},
	{Name: "log.retention.bytes", Type: Long, Default: "-1", Update: ClusterWide, broker: topicDefault,
		Doc: "retention.bytes of topics that set none; -1 sets no bound."},

	{Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "delete.retention.ms of topics that set none."},
	{Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", Want: between(0, 1), Update: ClusterWide, broker: topicDefault,
		Doc: "min.cleanable.dirty.ratio of topics that set none."},
	{Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", Want: atLeast(0), Update: ClusterWide, broker: topicDefault,
		Doc: "min.compaction.lag.ms of topics that set none."},
	{Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Want: atLeast(1), Update: ClusterWide, broker: topicDefault,
		Doc: "max.compaction.lag.ms of topics that set none."},
}

// retentionTime refuses 0 and what lies below -1: a broker-wide retention of
// nothing is always a slip.
func retentionTime(value string) string {
	if n, err := parseInt(value); err == nil && (n == 0 || n < -1) {
		return "-1 or a number ≥ 1"
	}
	return ""
}
