package metadata

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Hash is a digest of an image's content, for comparing images of equal offset
// at an equal metadata level on different nodes. It is not part of the offset.
type Hash [16]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Hash returns the digest of everything in the image but its offset. It costs
// nothing: Apply keeps it up to date.
func (m *Image) Hash() Hash {
	var h Hash
	binary.BigEndian.PutUint64(h[:8], m.sum.hi)
	binary.BigEndian.PutUint64(h[8:], m.sum.lo)
	return h
}

// sum128 is a sum modulo 2^128 of the digests of an image's elements. A sum
// does not depend on the order, so one change costs one subtraction and one
// addition. Each element's digest covers its key and its canonical value.
type sum128 struct{ hi, lo uint64 }

func (s *sum128) add(o sum128) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi, _ = bits.Add64(s.hi, o.hi, carry)
}

func (s *sum128) sub(o sum128) {
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, o.lo, 0)
	s.hi, _ = bits.Sub64(s.hi, o.hi, borrow)
}

// digest returns the digest of one element: its snapshot record as encoded at
// the finalized metadata level. c is a writing coder to use for it.
func (c *coder) digest(r Record) sum128 {
	c.buf = c.buf[:0]
	c.append(r)
	h := sha256.Sum256(c.buf)
	return sum128{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}
}

// VoterSetHash returns the digest of the voter set, by which members notice that
// they were started with different ones.
func (m *Image) VoterSetHash() Hash {
	c := coder{writing: true}
	only := Image{sum: c.digest(&Voters{Voters: m.voters})}
	return only.Hash()
}
