package producer

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Types of control records that end a transaction. Source: KIP-98.
const (
	controlAbort  = 0
	controlCommit = 1
)

// Marker is the content of a control batch that ends a transaction.
type Marker struct {
	// Commit is false for an abort.
	Commit bool
	// CoordinatorEpoch is the epoch of the coordinator that sent it.
	CoordinatorEpoch int32
	// Timestamp is the record's own, in milliseconds.
	Timestamp model.Timestamp
}

// ReadMarker returns the marker in a control batch. It is false if there is no
// record (compaction leaves such batches), or if the first record is none that
// ends a transaction. Kafka never compresses control batches; a compressed one
// is not understood. Nothing is allocated.
func ReadMarker(b record.Batch) (Marker, bool) {
	if !b.IsControl() || b.Count() < 1 || b.Codec() != 0 {
		return Marker{}, false
	}
	f := fields{b: b.Records()}
	f.b = f.take(f.varint()) // the first record
	f.take(1)                // attributes, unused
	delta := f.varint()
	f.varint() // offset delta
	key := f.take(f.varint())
	value := f.take(f.varint())
	if f.bad || len(key) < 4 || len(value) < 6 {
		return Marker{}, false
	}
	if int16(binary.BigEndian.Uint16(key)) < 0 || int16(binary.BigEndian.Uint16(value)) < 0 {
		return Marker{}, false
	}
	kind := binary.BigEndian.Uint16(key[2:])
	if kind != controlAbort && kind != controlCommit {
		return Marker{}, false
	}
	m := Marker{
		Commit:           kind == controlCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:])),
		Timestamp:        b.BaseTimestamp() + model.Timestamp(delta),
	}
	if b.TimestampType() == record.LogAppendTime {
		m.Timestamp = b.MaxTimestamp()
	}
	return m, true
}

// fields reads the head of one record; the first fault makes it bad for good.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) take(n int64) []byte {
	if f.bad || n < 0 || n > int64(len(f.b)) {
		f.bad = true
		return nil
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}
