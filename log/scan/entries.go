package scan

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
)

// Sizes of index entries, in bytes.
const (
	OffsetEntrySize = 8
	TimeEntrySize   = 12
	AbortedSize     = 34
)

// DecodeOffsetEntry reads an entry of an offset index of the segment at base:
// the last offset of the batch that begins at position pos.
func DecodeOffsetEntry(base model.Offset, e []byte) (last model.Offset, pos int64) {
	return base + model.Offset(int32(binary.BigEndian.Uint32(e))), int64(binary.BigEndian.Uint32(e[4:]))
}

// DecodeTimeEntry reads an entry of a time index of the segment at base: the
// greatest timestamp so far, and the last offset of the batch that brought it.
func DecodeTimeEntry(base model.Offset, e []byte) (ts model.Timestamp, last model.Offset) {
	return model.Timestamp(binary.BigEndian.Uint64(e)), base + model.Offset(int32(binary.BigEndian.Uint32(e[8:])))
}

// Aborted is one entry of a transaction index: an aborted transaction whose
// marker lies in the segment.
type Aborted struct {
	Version    int16
	ProducerID model.ProducerID
	// First is the transaction's first offset, Last that of its marker, Stable
	// the last stable offset behind it.
	First, Last, Stable model.Offset
}

// DecodeAborted reads an entry of a transaction index.
func DecodeAborted(e []byte) Aborted {
	be := binary.BigEndian
	return Aborted{
		Version:    int16(be.Uint16(e)),
		ProducerID: model.ProducerID(be.Uint64(e[2:])),
		First:      model.Offset(be.Uint64(e[10:])),
		Last:       model.Offset(be.Uint64(e[18:])),
		Stable:     model.Offset(be.Uint64(e[26:])),
	}
}
