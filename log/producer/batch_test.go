package producer

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// spec describes one batch for tests, written byte by byte here so that the
// tests don't depend on the builder of the product.
type spec struct {
	id         model.ProducerID
	epoch      model.ProducerEpoch
	seq        model.Sequence
	base       model.Offset
	n          int32 // offsets in the batch, at least 1
	ts         model.Timestamp
	txn        bool
	control    bool
	commit     bool
	coord      int32
	empty      bool // compaction has taken the records
	appendTime bool // LogAppendTime
}

// batch encodes s. A data batch has no record bytes: the state never reads
// them.
func (s spec) batch() record.Batch {
	be := binary.BigEndian
	b := make([]byte, record.HeaderSize)
	be.PutUint64(b[0:], uint64(s.base))
	b[16] = record.Magic
	var attributes uint16
	if s.appendTime {
		attributes |= 1 << 3
	}
	if s.txn {
		attributes |= 1 << 4
	}
	if s.control {
		attributes |= 1 << 5
	}
	be.PutUint16(b[21:], attributes)
	be.PutUint32(b[23:], uint32(max(s.n, 1)-1))
	be.PutUint64(b[27:], uint64(s.ts))
	be.PutUint64(b[35:], uint64(s.ts))
	be.PutUint64(b[43:], uint64(s.id))
	be.PutUint16(b[51:], uint16(s.epoch))
	be.PutUint32(b[53:], uint32(s.seq))
	if !s.empty {
		be.PutUint32(b[57:], uint32(max(s.n, 1)))
		if s.control {
			b = append(b, s.marker()...)
		}
	}
	be.PutUint32(b[8:], uint32(len(b)-record.SizePrefix))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// marker encodes the one record of a control batch.
func (s spec) marker() []byte {
	kind := byte(0) // abort
	if s.commit {
		kind = 1
	}
	body := []byte{0, 0, 0}               // attributes, timestamp delta, offset delta
	body = append(body, 8, 0, 0, 0, kind) // key of 4 bytes: version, type
	body = append(body, 12, 0, 0)         // value of 6 bytes: version
	body = binary.BigEndian.AppendUint32(body, uint32(s.coord))
	body = append(body, 0) // headers
	return append([]byte{byte(len(body) << 1)}, body...)
}

// data is a plain batch of n records.
func data(id model.ProducerID, epoch model.ProducerEpoch, seq model.Sequence, base model.Offset, n int32) spec {
	return spec{id: id, epoch: epoch, seq: seq, base: base, n: n, ts: 1000 + model.Timestamp(base)}
}

// inTxn is the same inside a transaction.
func inTxn(id model.ProducerID, epoch model.ProducerEpoch, seq model.Sequence, base model.Offset, n int32) spec {
	s := data(id, epoch, seq, base, n)
	s.txn = true
	return s
}

// end is a marker at offset base.
func end(id model.ProducerID, epoch model.ProducerEpoch, base model.Offset, commit bool, coord int32) spec {
	return spec{
		id: id, epoch: epoch, seq: model.NoSequence, base: base, n: 1, ts: 1000 + model.Timestamp(base),
		txn: true, control: true, commit: commit, coord: coord,
	}
}

// stampSeq moves a batch to another offset and sequence. The CRC is not kept:
// the state doesn't look at it.
func stampSeq(b record.Batch, base model.Offset, seq model.Sequence) {
	record.Stamp(b, base, 0)
	binary.BigEndian.PutUint32(b[53:], uint32(seq))
}
