package record

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/compress"
)

// Options are the header fields of a batch to build. The zero value is a plain
// CreateTime batch at offset 0 and leader epoch 0, without a producer.
type Options struct {
	Codec       Codec
	Level       int // compression level in Kafka's numbers; 0: the default
	BaseOffset  model.Offset
	LeaderEpoch model.LeaderEpoch

	// A batch has a producer if ProducerID is above 0 or Idempotent is set.
	Idempotent    bool
	ProducerID    model.ProducerID
	ProducerEpoch model.ProducerEpoch
	BaseSequence  model.Sequence
	Transactional bool

	// Control makes a control batch: use AppendControl or AppendMarker.
	Control bool
	// AppendTime, if TimestampType is LogAppendTime, is the timestamp of all.
	TimestampType TimestampType
	AppendTime    model.Timestamp
}

// Builder builds a batch in memory: for tools, tests, coordinators and the
// controller's log. Produced batches are never rebuilt with it.
type Builder struct {
	opts  Options
	recs  []byte // encoded records, before compression
	front []byte
	count int32
	next  int32 // the next record's offset delta
	first model.Timestamp
	max   model.Timestamp
}

// NewBuilder returns a builder without records.
func NewBuilder(o Options) *Builder {
	b := new(Builder)
	b.Reset(o)
	return b
}

// Reset makes the builder empty, keeping its memory.
func (b *Builder) Reset(o Options) {
	*b = Builder{opts: o, recs: b.recs[:0], front: b.front, max: model.NoTimestamp}
}

// Count is how many records were appended.
func (b *Builder) Count() int32 { return b.count }

// Size is the size of the batch in bytes, before compression.
func (b *Builder) Size() int { return HeaderSize + len(b.recs) }

// Append adds a record at the next offset. A nil key or value is null.
func (b *Builder) Append(ts model.Timestamp, key, value []byte, headers ...Header) {
	b.AppendAt(b.next, ts, key, value, headers...)
}

// AppendAt adds a record at an offset delta of its own, as batches have it
// after compaction. The batch's last offset delta becomes the last one given.
func (b *Builder) AppendAt(delta int32, ts model.Timestamp, key, value []byte, headers ...Header) {
	if b.count == 0 {
		b.first = ts
	}
	b.max = max(b.max, ts)
	f := append(b.front[:0], 0) // attributes
	f = appendVarint(f, int64(ts-b.first))
	f = appendVarint(f, int64(delta))
	b.front = f
	size := len(f) + fieldSize(key) + fieldSize(value) + varintSize(int64(len(headers)))
	for _, h := range headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + fieldSize(h.Value)
	}
	r := appendVarint(b.recs, int64(size))
	r = append(r, f...)
	r = appendField(r, key)
	r = appendField(r, value)
	r = appendVarint(r, int64(len(headers)))
	for _, h := range headers {
		r = append(appendVarint(r, int64(len(h.Key))), h.Key...)
		r = appendField(r, h.Value)
	}
	b.recs = r
	b.count++
	b.next = delta + 1
}

// SetLastOffsetDelta makes the batch span more offsets than its last record
// needs, as compaction leaves it.
func (b *Builder) SetLastOffsetDelta(delta int32) { b.next = delta + 1 }

// AppendControl adds a control record of type t.
func (b *Builder) AppendControl(ts model.Timestamp, t ControlType, value []byte) {
	b.Append(ts, AppendControlKey(nil, t), value)
}

// AppendMarker adds the end of a transaction.
func (b *Builder) AppendMarker(ts model.Timestamp, m Marker) {
	b.AppendControl(ts, m.Type, AppendMarkerValue(nil, m.CoordinatorEpoch))
}

// Build returns the batch in memory of its own; the builder can go on. The
// result is nil if the codec doesn't exist.
func (b *Builder) Build() Batch { return b.BuildTo(nil) }

// BuildTo appends the batch to dst and returns it alone, without what stood in
// dst before. The result is nil if the codec doesn't exist.
func (b *Builder) BuildTo(dst []byte) Batch {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst, err := compress.Compress(dst, b.opts.Codec, b.opts.Level, b.recs)
	if err != nil {
		return nil
	}
	n := Batch(dst[at:])
	b.header(n)
	return n
}

func (b *Builder) header(n Batch) {
	o := &b.opts
	attributes := int16(o.Codec)
	last := b.max
	if o.TimestampType == LogAppendTime {
		attributes |= bitLogAppendTime
		last = o.AppendTime
	}
	if o.Transactional {
		attributes |= bitTransactional
	}
	if o.Control {
		attributes |= bitControl
	}
	id, epoch, seq := model.NoProducerID, model.NoProducerEpoch, model.NoSequence
	if o.Idempotent || o.ProducerID > 0 {
		id, epoch, seq = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	Stamp(n, o.BaseOffset, o.LeaderEpoch)
	binary.BigEndian.PutUint32(n[posLength:], uint32(len(n)-SizePrefix))
	n[posMagic] = Magic
	n.setAttributes(attributes)
	binary.BigEndian.PutUint32(n[posLastOffsetDelta:], uint32(max(b.next-1, 0)))
	binary.BigEndian.PutUint64(n[posBaseTimestamp:], uint64(b.first))
	n.setMaxTimestamp(last)
	binary.BigEndian.PutUint64(n[posProducerID:], uint64(id))
	binary.BigEndian.PutUint16(n[posProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(n[posBaseSequence:], uint32(seq))
	binary.BigEndian.PutUint32(n[posCount:], uint32(b.count))
	n.setCRC()
}

// fieldSize is how many bytes appendField appends.
func fieldSize(f []byte) int {
	if f == nil {
		return 1
	}
	return varintSize(int64(len(f))) + len(f)
}

// appendField appends a length and the bytes; nil is null.
func appendField(dst, f []byte) []byte {
	if f == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(f))), f...)
}
