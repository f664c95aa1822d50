package logtest

import (
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// Spec describes a batch to build. The zero value is one record of 3 bytes at
// offset 0 and epoch 0.
type Spec struct {
	Base  model.Offset
	Epoch model.LeaderEpoch
	// Records is how many; 0 means 1.
	Records int
	// ValueSize of each record in bytes; 0 means a short text.
	ValueSize int
	// Timestamp of the first record; each later one is Step later.
	Timestamp model.Timestamp
	Step      int64
	Codec     record.Codec
	// Producer is the producer id, 0 for none.
	Producer model.ProducerID
	PEpoch   model.ProducerEpoch
	Sequence model.Sequence
	// Txn makes the batch transactional.
	Txn bool
	// Marker makes it a control batch: "commit" or "abort".
	Marker string
	// AppendTime, if not 0, makes it a LogAppendTime batch.
	AppendTime model.Timestamp
	// Keys, if not 0, gives each record its offset modulo Keys as key, and makes
	// every seventh a tombstone.
	Keys int
	// Salt makes equal batches of different histories differ.
	Salt int
}

// Batch builds the batch.
func Batch(s Spec) record.Batch {
	o := record.Options{
		Codec: s.Codec, BaseOffset: s.Base, LeaderEpoch: s.Epoch,
		Idempotent: s.Producer != 0, ProducerID: s.Producer, ProducerEpoch: s.PEpoch, BaseSequence: s.Sequence,
		Transactional: s.Txn, Control: s.Marker != "",
	}
	if s.Producer == 0 {
		o.ProducerID = 0
	}
	if s.AppendTime != 0 {
		o.TimestampType, o.AppendTime = record.LogAppendTime, s.AppendTime
	}
	b := record.NewBuilder(o)
	if s.Marker != "" {
		b.AppendMarker(s.Timestamp, record.Marker{Type: markerType(s.Marker)})
		return b.Build()
	}
	for i := range max(s.Records, 1) {
		value := fmt.Appendf(nil, "v%d.%d.%d", int64(s.Base)+int64(i), s.Epoch, s.Salt)
		for len(value) < s.ValueSize {
			value = append(value, value...)
		}
		if s.ValueSize > 0 {
			value = value[:s.ValueSize]
		}
		var key []byte
		if s.Keys > 0 {
			o := int(s.Base) + i
			if key = fmt.Appendf(nil, "k%d", o%s.Keys); o%7 == 0 {
				value = nil
			}
		}
		b.Append(s.Timestamp+model.Timestamp(int64(i)*s.Step), key, value)
	}
	return b.Build()
}

// Batches builds n batches of one record each, from base on.
func Batches(base model.Offset, n int, epoch model.LeaderEpoch) []byte {
	var set []byte
	for i := range n {
		o := base + model.Offset(i)
		set = append(set, Batch(Spec{Base: o, Epoch: epoch, Timestamp: model.Timestamp(1000 + int64(o))})...)
	}
	return set
}

func markerType(name string) record.ControlType {
	if name == "commit" {
		return record.Commit
	}
	return record.Abort
}
