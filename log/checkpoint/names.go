package checkpoint

// Names of files in a log directory.
const (
	// RecoveryPointFile holds, for each partition, the offset below which its
	// log is known to be durable.
	RecoveryPointFile = "recovery-point-offset-checkpoint"
	// LogStartFile holds the log start of each partition whose log begins
	// inside its first segment (DeleteRecords).
	LogStartFile = "log-start-offset-checkpoint"
	// HighWatermarkFile holds the high watermark of each partition. It is a
	// hint for the restart and never a reason to cut.
	HighWatermarkFile = "replication-offset-checkpoint"
	// CleanerFile holds, for each compacted partition, the first offset that
	// compaction has not yet seen.
	CleanerFile = "cleaner-offset-checkpoint"
	// CleanShutdownFile marks an orderly stop.
	CleanShutdownFile = ".kafka_cleanshutdown"
	// MetaPropertiesFile says whose directory this is.
	MetaPropertiesFile = "meta.properties"
	// LockFile is locked by the process that uses the directory.
	LockFile = ".lock"
)

// Names of files in a partition's directory.
const (
	// EpochFile holds the start offset of each leader epoch.
	EpochFile = "leader-epoch-checkpoint"
	// PartitionMetadataFile holds the topic's id.
	PartitionMetadataFile = "partition.metadata"
)

// FileBytesMax bounds what a reader takes into memory. A million partitions
// with the longest topic names need about 270 MB.
const FileBytesMax = 512 << 20
