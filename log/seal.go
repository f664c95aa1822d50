package log

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
)

// seal is what was true of a segment when it was sealed. It stands beside the
// segment as <base>.seal, so that a shortened file, a lost neighbour and a
// damaged index can be told from what was meant. Of the bytes of the segment it
// vouches for those that the batches' own checksums leave out (see headSum).
//
// A final seal bounds its segment: nothing is ever appended to it, and what the
// file holds beyond size was cut off, whatever stands behind it. It is durable
// before a successor takes over after a truncation. The other kind is written
// by Checkpoint for the segment that is being written, and is stale as soon as
// the segment grows.
//
// The file: magic "TMS2", flags (1 final, 2 the digest of heads is known), then
// size, next, maxTS, maxTSLast (int64 each), the three index digests (uint32 each,
// 0 for an absent file), the digest of heads (uint32), and a CRC-32C of all before
// it. Big-endian. "TMS1", of earlier versions, lacks the digest of heads.
type seal struct {
	final bool
	// size is the length of the .log file in bytes.
	size int64
	// next is the base of the segment that follows; for the last segment of a
	// log that was stopped cleanly, the log's end.
	next model.Offset
	// maxTS is the greatest timestamp, maxTSLast the last offset of its batch.
	maxTS     model.Timestamp
	maxTSLast model.Offset
	// Digests of the whole .index, .timeindex and .txnindex.
	offsetsCRC, timesCRC, txnsCRC uint32
	heads                         headSum
}

const (
	sealMagic    = "TMS2"
	sealSize     = 5 + 4*8 + 4*4 + 4
	oldSealMagic = "TMS1"
	oldSealSize  = sealSize - 4

	sealFinal = 1
	sealHeads = 2
)

var errNoSeal = errors.New("not a seal")

// digest is the checksum used in seals; an absent file and an empty one have 0.
func digest(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func (s *seal) encode() []byte {
	b := make([]byte, 0, sealSize)
	b = append(b, sealMagic...)
	flags := byte(0)
	if s.final {
		flags |= sealFinal
	}
	if s.heads.known {
		flags |= sealHeads
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(s.size))
	b = binary.BigEndian.AppendUint64(b, uint64(s.next))
	b = binary.BigEndian.AppendUint64(b, uint64(s.maxTS))
	b = binary.BigEndian.AppendUint64(b, uint64(s.maxTSLast))
	b = binary.BigEndian.AppendUint32(b, s.offsetsCRC)
	b = binary.BigEndian.AppendUint32(b, s.timesCRC)
	b = binary.BigEndian.AppendUint32(b, s.txnsCRC)
	b = binary.BigEndian.AppendUint32(b, s.heads.sum)
	return binary.BigEndian.AppendUint32(b, digest(b))
}

func decodeSeal(b []byte) (*seal, error) {
	old := len(b) == oldSealSize && string(b[:4]) == oldSealMagic
	if !old && (len(b) != sealSize || string(b[:4]) != sealMagic) {
		return nil, errNoSeal
	}
	body := b[:len(b)-4]
	if binary.BigEndian.Uint32(b[len(b)-4:]) != digest(body) || b[4]&^(sealFinal|sealHeads) != 0 {
		return nil, errNoSeal
	}
	s := &seal{
		final:      b[4]&sealFinal != 0,
		size:       int64(binary.BigEndian.Uint64(b[5:])),
		next:       model.Offset(binary.BigEndian.Uint64(b[13:])),
		maxTS:      model.Timestamp(binary.BigEndian.Uint64(b[21:])),
		maxTSLast:  model.Offset(binary.BigEndian.Uint64(b[29:])),
		offsetsCRC: binary.BigEndian.Uint32(b[37:]),
		timesCRC:   binary.BigEndian.Uint32(b[41:]),
		txnsCRC:    binary.BigEndian.Uint32(b[45:]),
	}
	if !old && b[4]&sealHeads != 0 {
		s.heads = headSum{sum: binary.BigEndian.Uint32(b[49:]), known: true}
	}
	if s.size < 0 || s.next < 0 {
		return nil, errNoSeal
	}
	return s, nil
}
