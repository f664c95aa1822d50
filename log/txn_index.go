package log

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// txnEntrySize is the size of an entry of a .txnindex file.
const txnEntrySize = 34

// txnVersion is the only version of such an entry.
const txnVersion = 0

// AbortedTxn names an aborted transaction for a reader of committed records.
type AbortedTxn struct {
	ProducerID  model.ProducerID
	FirstOffset model.Offset
}

// txnEntry is one aborted transaction of a segment: the one that holds its
// marker.
type txnEntry struct {
	producer model.ProducerID
	// first is the transaction's first offset, last that of its marker.
	first, last model.Offset
	// stable is the last stable offset after the marker: no transaction that
	// ends later begins below it.
	stable model.Offset
}

func encodeTxns(dst []byte, es []txnEntry) []byte {
	for _, e := range es {
		dst = binary.BigEndian.AppendUint16(dst, txnVersion)
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.producer))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.first))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.last))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.stable))
	}
	return dst
}

// decodeTxns reads the bytes of the .txnindex file of a segment that holds the
// offsets [base, end).
func decodeTxns(b []byte, base, end model.Offset) ([]txnEntry, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, fmt.Errorf("transaction index of %d bytes is no multiple of %d", len(b), txnEntrySize)
	}
	es := make([]txnEntry, len(b)/txnEntrySize)
	for i := range es {
		p := b[i*txnEntrySize:]
		if v := binary.BigEndian.Uint16(p); v != txnVersion {
			return nil, fmt.Errorf("transaction index entry %d has version %d", i, v)
		}
		e := txnEntry{
			producer: model.ProducerID(binary.BigEndian.Uint64(p[2:])),
			first:    model.Offset(binary.BigEndian.Uint64(p[10:])),
			last:     model.Offset(binary.BigEndian.Uint64(p[18:])),
			stable:   model.Offset(binary.BigEndian.Uint64(p[26:])),
		}
		if e.producer < 0 || e.first < 0 || e.first > e.last || e.last < base || e.last >= end {
			return nil, fmt.Errorf("transaction index entry %d (producer %d, offsets %d to %d) doesn't fit a segment of [%d, %d)",
				i, e.producer, e.first, e.last, base, end)
		}
		if i > 0 && e.last <= es[i-1].last {
			return nil, fmt.Errorf("transaction index entry %d does not rise: marker at %d after %d", i, e.last, es[i-1].last)
		}
		es[i] = e
	}
	return es, nil
}
