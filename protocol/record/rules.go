package record

import (
	"math"

	"github.com/tidemark/tidemark/internal/model"
)

// Error codes that Validate rejects with. Source: Kafka's Errors.
const (
	CodeUnknownServerError         int16 = -1
	CodeCorruptMessage             int16 = 2
	CodeMessageTooLarge            int16 = 10
	CodeInvalidTimestamp           int16 = 32
	CodeUnsupportedCompressionType int16 = 76
	CodeInvalidRecord              int16 = 87
)

// Limits and defaults.
const (
	// DefaultMaxBatchBytes is the default of max.message.bytes.
	DefaultMaxBatchBytes = 1048588
	// DefaultDecompressedMax is how many bytes a batch may decompress to.
	DefaultDecompressedMax = 64 << 20
	// DefaultAfterMaxMs is the default of message.timestamp.after.max.ms.
	DefaultAfterMaxMs = 3600000
	// MaxRecordErrors is how many record errors a Rejection lists. Kafka lists
	// all; a small request could ask for a large answer then.
	MaxRecordErrors = 1024
)

// Rules are a topic's settings as Validate needs them.
type Rules struct {
	// Version is that of the Produce request.
	Version int16
	// MaxBatchBytes is max.message.bytes; ≤ 0 means no limit.
	MaxBatchBytes int32
	// DecompressedMax bounds the decompressed records of a batch, in bytes; 0
	// means DefaultDecompressedMax. Kafka has no such bound.
	DecompressedMax int64
	// Compacted says that cleanup.policy includes compact: keys are needed.
	Compacted bool
	// KeepCodec is compression.type=producer; else batches get Codec.
	KeepCodec bool
	Codec     Codec
	// Level is the target codec's level, in Kafka's numbers; 0: its default.
	Level int
	// TimestampType is message.timestamp.type.
	TimestampType TimestampType
	// BeforeMaxMs and AfterMaxMs bound how far a CreateTime timestamp may lie
	// before and after Now.
	BeforeMaxMs int64
	AfterMaxMs  int64
	Now         model.Timestamp
}

// DefaultRules are those of a topic without settings of its own, for the
// newest Produce version.
func DefaultRules(now model.Timestamp) Rules {
	return Rules{
		Version:       math.MaxInt16,
		MaxBatchBytes: DefaultMaxBatchBytes,
		KeepCodec:     true,
		BeforeMaxMs:   math.MaxInt64,
		AfterMaxMs:    DefaultAfterMaxMs,
		Now:           now,
	}
}

// outOfRange reports whether a timestamp is too far from Now. The subtraction
// may wrap, as it does in Kafka.
func (r *Rules) outOfRange(ts int64) bool {
	diff := int64(r.Now) - ts
	return diff > r.BeforeMaxMs || -diff > r.AfterMaxMs
}

func (r *Rules) decompressedMax() int64 {
	if r.DecompressedMax > 0 {
		return r.DecompressedMax
	}
	return DefaultDecompressedMax
}

// target is the codec that a batch must have in the log.
func (r *Rules) target(b Batch) Codec {
	if r.KeepCodec {
		return b.Codec()
	}
	return r.Codec
}

func (r *Rules) tooLarge(size int) bool {
	return r.MaxBatchBytes > 0 && size > int(r.MaxBatchBytes)
}

// RecordError says what is wrong with one record, Index counting from the
// first of the batch. Source: KIP-467.
type RecordError struct {
	Index   int32
	Message string
}

// Rejection is why a partition's records were not taken: the partition's part
// of the Produce response.
type Rejection struct {
	// Code is Kafka's error code.
	Code int16
	// Message is for the client's log.
	Message string
	// Records lists the first MaxRecordErrors records that are at fault, if
	// the fault lies in single records.
	Records []RecordError
	// Early: Kafka finds this before it asks the partition, so it comes before
	// errors such as NOT_LEADER_OR_FOLLOWER. All others come after them.
	Early bool
}

// Prepared is a validated batch, ready to be stamped and appended.
type Prepared struct {
	// Batch is checked and has its final bytes but for Stamp and, under
	// LogAppendTime, StampAppendTime.
	Batch Batch
	// Records is how many records it holds, which is also how many offsets it
	// takes.
	Records int32
	// Owned says that Batch was rebuilt in memory of its own; else it aliases
	// what was given to Validate.
	Owned bool

	tailCRC   uint32 // of the bytes behind maxTimestamp
	tailShift uint32 // crcShift of their length; 0: not computed
}

// StampAppendTime makes ts the timestamp of all records and sets the CRC. It
// costs the same whatever the batch's size, if Validate ran with
// LogAppendTime.
func (p *Prepared) StampAppendTime(ts model.Timestamp) {
	b := p.Batch
	b.setAttributes(b.Attributes() | bitLogAppendTime)
	b.setMaxTimestamp(ts)
	if p.tailShift == 0 {
		b.setCRC()
		return
	}
	b.putCRC(crcCombine(b.headCRC(), p.tailCRC, p.tailShift))
}
