package scan

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
)

// The layout of a seal, Tidemark's own file beside a sealed segment. Package
// log has the other half; dump.TestOwnLogIsClean holds the two together.
const (
	SealMagic      = "TMS1"
	SealSize       = 53
	SealPosSize    = 5
	SealPosDigests = 37
	SealPosSum     = SealSize - 4
)

// Seal is what was true of a segment when it was sealed.
type Seal struct {
	// Final: nothing was to be appended any more; else it was being written.
	Final bool
	// Size is the length of the segment in bytes.
	Size int64
	// Next is the base offset of the segment behind it.
	Next model.Offset
	// MaxTS is the greatest timestamp, MaxTSLast the last offset of its batch.
	MaxTS     model.Timestamp
	MaxTSLast model.Offset
	// Indexes are the digests of .index, .timeindex and .txnindex.
	Indexes [3]uint32
	// Stored is the seal's own checksum as it stands there, Sum as it should be.
	Stored, Sum uint32
}

// DecodeSeal is false for bytes that are no seal. The checksum is not judged.
func DecodeSeal(b []byte) (s Seal, ok bool) {
	if len(b) != SealSize || string(b[:len(SealMagic)]) != SealMagic {
		return s, false
	}
	be := binary.BigEndian
	s = Seal{
		Final:     b[len(SealMagic)] == 1,
		Size:      int64(be.Uint64(b[SealPosSize:])),
		Next:      model.Offset(be.Uint64(b[13:])),
		MaxTS:     model.Timestamp(be.Uint64(b[21:])),
		MaxTSLast: model.Offset(be.Uint64(b[29:])),
		Stored:    be.Uint32(b[SealPosSum:]),
		Sum:       Digest(b[:SealPosSum]),
	}
	for i := range s.Indexes {
		s.Indexes[i] = be.Uint32(b[SealPosDigests+4*i:])
	}
	return s, true
}

// Digest is the checksum that seals use, CRC-32C; 0 for an absent file.
func Digest(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
