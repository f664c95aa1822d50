package log

import (
	"hash/crc32"

	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/protocol/record"
)

// headSize is how many of a batch's first bytes its own CRC says nothing of: base
// offset, length, leader epoch, magic, and the CRC itself.
const headSize = record.MagicPrefix + 4

// headSum is the digest of the heads of a segment's batches, one behind the other.
// Together with the batches' own CRCs it covers every byte of the segment. It is
// made of what was written, as it is written, so that it can tell what a disk has
// changed; only of a segment that came without one is it made of what was read. The
// zero value is unknown.
type headSum struct {
	sum   uint32
	known bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add takes the head of the next batch into account.
func (h *headSum) add(b record.Batch) {
	if h.known {
		h.sum = crc32.Update(h.sum, castagnoli, b[:headSize])
	}
}

// headSum returns the digest of a sealed segment.
func (s *segment) headSum() headSum {
	v := s.heads.Load()
	return headSum{sum: uint32(v), known: v>>32 != 0}
}

// setHeadSum notes it. An unknown one changes nothing.
func (s *segment) setHeadSum(h headSum) {
	if h.known {
		s.heads.Store(1<<32 | uint64(h.sum))
	}
}

// differs reports whether both are known and not the same.
func (h headSum) differs(other headSum) bool {
	return h.known && other.known && h.sum != other.sum && !mutant.On("log-heads-not-compared")
}

// flippedBit finds the one bit of n heads that makes got out of want: the number of
// the batch, and of the bit in its head, the bits of a byte from the lowest. ok is
// false if more than one bit differs, or the digest can't tell which.
func flippedBit(got, want uint32, n int64) (batch int64, bit int, ok bool) {
	var back [256]uint8 // the entry of the table that has this first byte
	for i, t := range castagnoli {
		back[t>>24] = uint8(i)
	}
	// The difference is taken back through the bytes behind the flipped one, and is
	// then what that bit alone makes.
	d := got ^ want
	for at := n*headSize - 1; at >= 0; at-- {
		for k := range 8 {
			if d != castagnoli[1<<k] {
				continue
			}
			if ok {
				return 0, 0, false
			}
			batch, bit, ok = at/headSize, int(at%headSize)*8+k, true
		}
		i := back[d>>24]
		d = (d^castagnoli[i])<<8 | uint32(i)
	}
	return batch, bit, ok
}
