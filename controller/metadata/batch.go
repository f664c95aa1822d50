package metadata

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// The control records of the metadata log and of snapshots. Their keys have
// Kafka's shape, {version int16, type int16}; type numbers below 100 are
// Kafka's, the others are ours. Source: KIP-595, KIP-630.
const (
	controlVersion = 0

	ControlSnapshotHeader int16 = 3
	ControlSnapshotFooter int16 = 4
	// ControlNewTerm is the empty entry with which a leader opens its term.
	ControlNewTerm int16 = 100
	// ControlConfChange and ControlConfChangeV2 carry a change of the voters in
	// the consensus library's own encoding.
	ControlConfChange   int16 = 101
	ControlConfChangeV2 int16 = 102
)

// Batch is a record batch of one record, the only shape that the metadata log
// and snapshots have.
type Batch struct {
	Offset model.Offset
	Epoch  model.LeaderEpoch
	Time   model.Timestamp
	// Control is the type of a control record, or 0 for data.
	Control int16
	Value   []byte
}

// AppendBatch appends the record batch of b to dst.
func AppendBatch(dst []byte, b Batch) []byte {
	var key []byte
	var attributes uint16
	if b.Control != 0 {
		key = binary.BigEndian.AppendUint16(key, controlVersion)
		key = binary.BigEndian.AppendUint16(key, uint16(b.Control))
		attributes = 1 << 5
	}
	rec := []byte{0, 0, 0} // attributes, timestamp delta 0, offset delta 0
	if key == nil {
		rec = binary.AppendVarint(rec, -1)
	} else {
		rec = append(binary.AppendVarint(rec, int64(len(key))), key...)
	}
	rec = binary.AppendVarint(rec, int64(len(b.Value)))
	size := len(rec) + len(b.Value) + 1 // and the number of headers

	at := len(dst)
	dst = append(dst, make([]byte, record.HeaderSize)...)
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(append(dst, rec...), b.Value...)
	dst = append(dst, 0)

	h := dst[at:]
	be := binary.BigEndian
	be.PutUint64(h, uint64(b.Offset))
	be.PutUint32(h[8:], uint32(len(h)-record.SizePrefix))
	be.PutUint32(h[12:], uint32(b.Epoch))
	h[16] = record.Magic
	be.PutUint16(h[21:], attributes)
	be.PutUint64(h[27:], uint64(b.Time))
	be.PutUint64(h[35:], uint64(b.Time))
	be.PutUint64(h[43:], ^uint64(0)) // no producer: id, epoch and sequence −1
	be.PutUint16(h[51:], ^uint16(0))
	be.PutUint32(h[53:], ^uint32(0))
	be.PutUint32(h[57:], 1)
	be.PutUint32(h[17:], record.Batch(h).ComputeCRC())
	return dst
}

// ParseBatch reads one whole batch, whose header was checked, as written by
// AppendBatch. Value aliases it. The CRC is checked.
func ParseBatch(raw record.Batch) (Batch, error) {
	b := Batch{Offset: raw.BaseOffset(), Epoch: raw.LeaderEpoch(), Time: raw.MaxTimestamp()}
	if err := raw.CheckCRC(); err != nil {
		return b, err
	}
	bad := func(what string) (Batch, error) {
		return b, fmt.Errorf("metadata batch at offset %d: %s: %w", b.Offset, what, ErrMalformed)
	}
	if raw.Count() != 1 || raw.LastOffsetDelta() != 0 || raw.Codec() != 0 {
		return bad("not one plain record")
	}
	rest := raw.Records()
	next := func() int64 {
		v, n := binary.Varint(rest)
		if n <= 0 {
			rest = nil
			return -2
		}
		rest = rest[n:]
		return v
	}
	if size := next(); size != int64(len(rest)) || size < 3 {
		return bad("record size")
	}
	rest = rest[1:] // attributes
	if next() != 0 || next() != 0 {
		return bad("record deltas")
	}
	keyLen := next()
	if keyLen < -1 || keyLen > int64(len(rest)) {
		return bad("key size")
	}
	if keyLen >= 0 {
		key := rest[:keyLen]
		rest = rest[keyLen:]
		if raw.IsControl() {
			if len(key) < 4 {
				return bad("control key")
			}
			b.Control = int16(binary.BigEndian.Uint16(key[2:]))
		}
	}
	if raw.IsControl() != (b.Control != 0) {
		return bad("control record without a type")
	}
	valueLen := next()
	if valueLen < 0 || valueLen != int64(len(rest))-1 || rest[valueLen] != 0 {
		return bad("value size")
	}
	b.Value = rest[:valueLen]
	return b, nil
}
