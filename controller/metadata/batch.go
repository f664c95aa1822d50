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
	controlKeySize = 4

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
	builder := record.NewBuilder(record.Options{BaseOffset: b.Offset, LeaderEpoch: b.Epoch, Control: b.Control != 0})
	value := b.Value
	if value == nil {
		value = []byte{} // nil would be a null value
	}
	if b.Control != 0 {
		builder.AppendControl(b.Time, record.ControlType(b.Control), value)
	} else {
		builder.Append(b.Time, nil, value)
	}
	return append(dst, builder.Build()...)
}

// ParseBatch reads one whole batch, whose header was checked, as written by
// AppendBatch. Value aliases nothing. The CRC is checked.
func ParseBatch(raw record.Batch) (Batch, error) {
	b := Batch{Offset: raw.BaseOffset(), Epoch: raw.LeaderEpoch(), Time: raw.MaxTimestamp()}
	if err := raw.CheckCRC(); err != nil {
		return b, err
	}
	if raw.Count() != 1 || raw.LastOffsetDelta() != 0 || raw.Codec() != 0 || raw.HasProducerID() {
		return b, fmt.Errorf("metadata batch at offset %d is not one plain record: %w", b.Offset, ErrMalformed)
	}
	err := raw.Each(int64(len(raw)), func(r *record.Record) error {
		b.Value = append([]byte{}, r.Value...)
		if !raw.IsControl() {
			return nil
		}
		if len(r.Key) == controlKeySize && binary.BigEndian.Uint16(r.Key) == controlVersion {
			b.Control = int16(binary.BigEndian.Uint16(r.Key[2:]))
		}
		return nil
	})
	if err == nil && raw.IsControl() != (b.Control != 0) {
		err = fmt.Errorf("metadata batch at offset %d: control record of no known shape: %w", b.Offset, ErrMalformed)
	}
	return b, err
}
