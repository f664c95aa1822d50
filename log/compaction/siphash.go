package compaction

import (
	"encoding/binary"
	"math/bits"
)

// Secret is the key of the hash. Without knowing it nobody finds two keys of
// records with the same hash.
type Secret [2]uint64

// sum returns SipHash-2-4 of b in its variant of 128 bits. Source: Aumasson and
// Bernstein, "SipHash: a fast short-input PRF".
func (k *Secret) sum(b []byte) (h1, h2 uint64) {
	s := sip{
		k[0] ^ 0x736f6d6570736575,
		k[1] ^ 0x646f72616e646f6d ^ 0xee,
		k[0] ^ 0x6c7967656e657261,
		k[1] ^ 0x7465646279746573,
	}
	last := uint64(len(b)) << 56
	for len(b) >= 8 {
		s.word(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s.word(last)
	s[2] ^= 0xee
	h1 = s.end()
	s[1] ^= 0xdd
	return h1, s.end()
}

type sip [4]uint64

// word takes eight bytes in.
func (s *sip) word(m uint64) {
	s[3] ^= m
	s.round()
	s.round()
	s[0] ^= m
}

// end finishes one half of the sum.
func (s *sip) end() uint64 {
	s.round()
	s.round()
	s.round()
	s.round()
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

func (s *sip) round() {
	v0, v1, v2, v3 := s[0], s[1], s[2], s[3]
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	s[0], s[1], s[2], s[3] = v0, v1, v2, v3
}
