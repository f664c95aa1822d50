package scan

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/model"
)

// The layout of a seal, Tidemark's own file beside a sealed segment. Package
// log has the other half; dump.TestOwnLogIsClean holds the two together.
const (
	SealMagic      = "TMS2"
	SealSize       = 57
	SealPosSize    = 5
	SealPosDigests = 37
	SealPosHeads   = 49

	oldSealMagic = "TMS1" // without the digest of heads
	oldSealSize  = 53

	sealFlags  = 4 // position of
	sealFinal  = 1
	sealHeaded = 2
)

// HeadSize is how many of a batch's first bytes its own checksum leaves out.
const HeadSize = 21

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
	// Heads is the digest of the first HeadSize bytes of all batches, one behind the
	// other, if Headed says that it is known.
	Heads  uint32
	Headed bool
	// Stored is the seal's own checksum as it stands there, Sum as it should be.
	Stored, Sum uint32
}

// DecodeSeal is false for bytes that are no seal. The checksum is not judged.
func DecodeSeal(b []byte) (s Seal, ok bool) {
	old := len(b) == oldSealSize && string(b[:len(SealMagic)]) == oldSealMagic
	if !old && (len(b) != SealSize || string(b[:len(SealMagic)]) != SealMagic) {
		return s, false
	}
	be := binary.BigEndian
	s = Seal{
		Final:     b[sealFlags]&sealFinal != 0,
		Size:      int64(be.Uint64(b[SealPosSize:])),
		Next:      model.Offset(be.Uint64(b[13:])),
		MaxTS:     model.Timestamp(be.Uint64(b[21:])),
		MaxTSLast: model.Offset(be.Uint64(b[29:])),
		Stored:    be.Uint32(b[len(b)-4:]),
		Sum:       Digest(b[:len(b)-4]),
	}
	if !old && b[sealFlags]&sealHeaded != 0 {
		s.Heads, s.Headed = be.Uint32(b[SealPosHeads:]), true
	}
	for i := range s.Indexes {
		s.Indexes[i] = be.Uint32(b[SealPosDigests+4*i:])
	}
	return s, true
}

// Digest is the checksum that seals use, CRC-32C; 0 for an absent file.
func Digest(b []byte) uint32 { return DigestOn(0, b) }

// DigestOn is the digest of what has the digest sum, and b behind it.
func DigestOn(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}
