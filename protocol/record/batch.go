package record

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// Sizes in the batch format, in bytes.
const (
	// HeaderSize is the size of a batch without records.
	HeaderSize = 61
	// SizePrefix is how many bytes must be seen to know a batch's size: the
	// base offset and the length field. The length field doesn't count them.
	SizePrefix = 12
	// MagicPrefix is how many bytes must be seen to know a batch's magic.
	MagicPrefix = 17
)

// Magic is the only batch format that is served. Source: KIP-98.
const Magic = 2

// Positions of the header's fields. All numbers are big-endian.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
)

// Bits of the attributes beside the codec.
const (
	bitLogAppendTime = 1 << 3
	bitTransactional = 1 << 4
	bitControl       = 1 << 5
	bitDeleteHorizon = 1 << 6
)

// castagnoli is the table of CRC-32C; it selects the CPU's own instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Codec is the compression of a batch's records.
type Codec = compress.Codec

// TimestampType says who set the timestamps of a batch. Source: KIP-32.
type TimestampType uint8

// The two timestamp types.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// String returns the name used by message.timestamp.type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Batch is a view of one whole batch of magic 2: len(b) == b.Size(). The bytes
// belong to whoever made the view. Accessors need len(b) ≥ HeaderSize, which
// Iter and CheckHeader grant; they check nothing themselves.
type Batch []byte

// SizeOf returns the whole size in bytes, prefix included, of the batch that b
// begins with. It needs SizePrefix bytes. The size is whatever the length
// field says and may be absurd or negative: the caller compares.
func SizeOf(b []byte) int64 {
	return int64(int32(binary.BigEndian.Uint32(b[posLength:]))) + SizePrefix
}

// BaseOffset is the offset of the batch's first record, kept even when
// compaction has removed that record.
func (b Batch) BaseOffset() model.Offset {
	return model.Offset(binary.BigEndian.Uint64(b[posBaseOffset:]))
}

// LastOffset is the offset of the batch's last record.
func (b Batch) LastOffset() model.Offset {
	return b.BaseOffset() + model.Offset(b.LastOffsetDelta())
}

// NextOffset is the offset that follows the batch.
func (b Batch) NextOffset() model.Offset { return b.LastOffset().Next() }

// Size is the batch's size in bytes by its length field.
func (b Batch) Size() int { return int(SizeOf(b)) }

// LeaderEpoch is the epoch of the leader that appended the batch, −1 from a
// producer.
func (b Batch) LeaderEpoch() model.LeaderEpoch {
	return model.LeaderEpoch(binary.BigEndian.Uint32(b[posLeaderEpoch:]))
}

// Magic is the format's number.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored CRC-32C of everything from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the batch's flags; use the named accessors.
func (b Batch) Attributes() int16 {
	return int16(binary.BigEndian.Uint16(b[posAttributes:]))
}

// Codec is the compression of the records; it may be one that doesn't exist.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & compress.Mask) }

// TimestampType says whether the producer or the broker set the time.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&bitLogAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional reports whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&bitTransactional != 0 }

// IsControl reports whether the records are markers, not data.
func (b Batch) IsControl() bool { return b.Attributes()&bitControl != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time, set by
// compaction, after which tombstones may go. Source: KIP-534.
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&bitDeleteHorizon != 0 }

// LastOffsetDelta is LastOffset − BaseOffset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// BaseTimestamp is what the records' timestamp deltas add to, in milliseconds.
func (b Batch) BaseTimestamp() model.Timestamp {
	return model.Timestamp(binary.BigEndian.Uint64(b[posBaseTimestamp:]))
}

// MaxTimestamp is the greatest timestamp of the records or, with
// LogAppendTime, the timestamp of each of them.
func (b Batch) MaxTimestamp() model.Timestamp {
	return model.Timestamp(binary.BigEndian.Uint64(b[posMaxTimestamp:]))
}

// ProducerID names the idempotent producer, NoProducerID if there is none.
func (b Batch) ProducerID() model.ProducerID {
	return model.ProducerID(binary.BigEndian.Uint64(b[posProducerID:]))
}

// HasProducerID reports whether an idempotent producer wrote the batch.
func (b Batch) HasProducerID() bool { return b.ProducerID() > model.NoProducerID }

// ProducerEpoch is the epoch of the producer, NoProducerEpoch without one.
func (b Batch) ProducerEpoch() model.ProducerEpoch {
	return model.ProducerEpoch(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence is the sequence of the first record, NoSequence without one.
func (b Batch) BaseSequence() model.Sequence {
	return model.Sequence(binary.BigEndian.Uint32(b[posBaseSequence:]))
}

// LastSequence is the sequence of the last record: it follows the last offset
// delta, not the count, so that compaction doesn't change it.
func (b Batch) LastSequence() model.Sequence {
	s := b.BaseSequence()
	if s == model.NoSequence {
		return s
	}
	return s.Add(b.LastOffsetDelta())
}

// Count is the number of records. It may be 0 after compaction, and less than
// the range of offsets: never derive an offset from it.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// Records are the encoded, maybe compressed records.
func (b Batch) Records() []byte { return b[HeaderSize:] }

// ComputeCRC hashes what the CRC covers: the attributes and all behind them.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// Stamp writes what a leader decides: the base offset and its epoch. Both lie
// before the bytes that the CRC covers.
func Stamp(b Batch, base model.Offset, epoch model.LeaderEpoch) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

func (b Batch) setCRC() { b.putCRC(b.ComputeCRC()) }

func (b Batch) putCRC(sum uint32) { binary.BigEndian.PutUint32(b[posCRC:], sum) }

func (b Batch) setMaxTimestamp(ts model.Timestamp) {
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ts))
}

func (b Batch) setAttributes(a int16) {
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(a))
}
