package log

import (
	"math/rand/v2"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Config is what a topic's configuration says about its log. It may change at
// any time (SetConfig).
type Config struct {
	// SegmentBytes: a segment that would grow beyond it is sealed first.
	SegmentBytes int32
	// IndexBytes bounds an index file; a full index seals the segment.
	IndexBytes int32
	// IndexIntervalBytes is how many bytes lie at least between two entries.
	IndexIntervalBytes int32
	// SegmentMs: an append to an older segment seals it first. Milliseconds.
	SegmentMs int64
	// SegmentJitterMs is the most by which SegmentMs is shortened, drawn for
	// each segment, so that not all partitions roll at once. Milliseconds.
	SegmentJitterMs int64
	// PreallocateBytes is the most that is reserved ahead of the end of the
	// segment being written; 0 reserves nothing. The file's size doesn't change.
	PreallocateBytes int64
}

// Kafka's defaults, for fields that are zero.
const (
	defaultSegmentBytes  = 1 << 30
	defaultIndexBytes    = 10 << 20
	defaultIndexInterval = 4096
	defaultSegmentMs     = 7 * 24 * 60 * 60 * 1000
)

// withDefaults fills what must not be zero. An interval of 0 is legal (every
// batch but the first is indexed), so it is kept.
func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = defaultSegmentBytes
	}
	if c.IndexBytes <= 0 {
		c.IndexBytes = defaultIndexBytes
	}
	if c.SegmentMs <= 0 {
		c.SegmentMs = defaultSegmentMs
	}
	return c
}

// DefaultConfig is what Kafka gives a topic that configures nothing.
func DefaultConfig() Config {
	return Config{IndexIntervalBytes: defaultIndexInterval}.withDefaults()
}

// Stop says how the process that wrote the directory ended, and with it what
// the end of the log may look like.
type Stop uint8

// The three kinds of stop.
const (
	// StopClean: everything was flushed and the indexes stored. Nothing but the
	// end of the last segment is looked at.
	StopClean Stop = iota
	// StopProcess: the process died, the kernel lived. Everything that was
	// written is there, but the last write may be torn. Anything else is damage.
	StopProcess
	// StopPower: the machine died, or nothing is known. Above the recovery
	// point any byte may be missing or old: the log ends before the first bad
	// one.
	StopPower
)

// String returns clean, process or power.
func (s Stop) String() string {
	switch s {
	case StopClean:
		return "clean"
	case StopProcess:
		return "process"
	}
	return "power"
}

// Options say which log to open, and what is known about it.
type Options struct {
	FS vfs.FS
	// Dir is the partition's directory. It is created if absent; making its own
	// entry durable is the caller's business.
	Dir       string
	Partition model.TopicPartition
	Config    Config
	// Rand draws the jitter of segments. Nil: no jitter.
	Rand *rand.Rand
	Stop Stop
	// RecoveryPoint is the offset below which everything was once durable, as
	// the directory's checkpoint says; 0 if it says nothing.
	RecoveryPoint model.Offset
	// LogStart is the checkpointed start of the log, 0 if there is none. An
	// empty directory starts there.
	LogStart model.Offset
	// CleanedTo is the offset below which the log was compacted, as Kafka's
	// cleaner checkpoint says; 0 if there is none. Holes between segments below
	// it are compaction's work.
	CleanedTo model.Offset
	// Dense: the topic is not compacted, so that offsets have no gaps but where a
	// follower was cut.
	Dense bool
	// Fresh: the directory was just made and holds nothing of a log. Nothing is
	// looked for in it, and nothing synced; the caller does that before the first
	// append.
	Fresh bool
	// Anew: nothing beside the segments that were durable is believed: all of them
	// are scanned, and what is derived from them is made anew. Damage among them is
	// damage all the same.
	Anew bool
	// Renew: an fsync of the log has failed in an earlier process. What may not have
	// become durable is copied into new files before anything is believed of it.
	Renew bool
	Now   model.Now
	// Checked, if not nil, is told that the batches have been read, before what that
	// asks for is written: who bounds how many logs are read at a time lets the next
	// one begin. Not every Open calls it.
	Checked func()
	// Files bounds open files and cached indexes over all logs that share it.
	// Nil: the log has its own.
	Files *FileCache
	// LowerRecoveryPoint makes a lower recovery point durable. Truncate calls it
	// before it removes anything that was counted as durable (rules of
	// recovery: a promise is taken back before it is broken). Nil if the caller
	// keeps no recovery point, or lowers it by itself before it calls Truncate
	// (see Log.LowerRecoveryPoint).
	LowerRecoveryPoint func(to model.Offset) error
	// Keep is told of everything that a truncation, or the load, is about to take
	// off the log's end, before any of it is gone: when it returns, the bytes may
	// go. It may read the files that the Removal names, and waits for the disk. What
	// retention, DeleteRecords and compaction take is not told. Nil: nobody keeps.
	Keep func(r *Removal)
}

// LoadReport says what Open found and did.
type LoadReport struct {
	// Created: there was no log.
	Created bool
	// Removed is what was cut, oldest offset first. The bytes stay readable
	// until Reclaim.
	Removed []Removal
	// Rebuilt names the files that were made anew from the segments.
	Rebuilt []string
	// Ignored names files that don't belong to a log and were left alone.
	Ignored []string
	// Scanned counts the bytes whose CRC was checked.
	Scanned int64
	// Replayed counts the batches that went through the producers' state.
	Replayed int64
}

// AppendInfo says where an append went.
type AppendInfo struct {
	// First and Last are the first and last offset of the appended batches.
	First, Last model.Offset
	// NextOffset is the new end of the log.
	NextOffset model.Offset
	// Bytes is the size of the set.
	Bytes int
	// Batches is the number of batches in the set.
	Batches int
	// MaxTimestamp is the greatest of the set, NoTimestamp if none has one.
	MaxTimestamp model.Timestamp
	// Rolled tells that a new segment was begun for this set.
	Rolled bool
}
