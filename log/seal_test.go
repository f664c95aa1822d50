package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// FuzzSeal: whatever a seal's file holds, it is read or refused, and what is read
// is what would be written.
func FuzzSeal(f *testing.F) {
	for _, s := range []seal{{}, {final: true, size: 1 << 40, next: 7, maxTS: -1, heads: headSum{sum: 5, known: true}}} {
		b := s.encode()
		f.Add(b)
		f.Add(b[:len(b)-4])
		old := append([]byte(oldSealMagic), b[4:49]...)
		f.Add(binary.BigEndian.AppendUint32(old, digest(old)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == sealSize || len(b) == oldSealSize { // else hardly any would have a right checksum
			b = binary.BigEndian.AppendUint32(bytes.Clone(b[:len(b)-4]), digest(b[:len(b)-4]))
		}
		s, err := decodeSeal(b)
		if err != nil {
			return
		}
		again := s.encode()
		if len(b) == sealSize && s.heads.known && !bytes.Equal(again, b) {
			t.Errorf("%x is written as %x", b, again)
		}
		if x, err := decodeSeal(again); err != nil || *x != *s {
			t.Errorf("%+v comes back as %+v, %v", s, x, err)
		}
	})
}

// One flipped bit of many heads is found by what the two digests tell; of several
// no batch is accused but by a chance of one in a thousand.
func TestFlippedBit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accused := 0
	for range 1000 {
		n := 1 + r.IntN(300)
		heads := make([]byte, n*headSize)
		for i := range heads {
			heads[i] = byte(r.Uint32())
		}
		want := crc32.Checksum(heads, castagnoli)
		at, bit := r.IntN(len(heads)), r.IntN(8)
		heads[at] ^= 1 << bit
		batch, k, ok := flippedBit(crc32.Checksum(heads, castagnoli), want, int64(n))
		if !ok || int(batch) != at/headSize || k != at%headSize*8+bit {
			t.Fatalf("bit %d of byte %d of %d: batch %d, bit %d, %v", bit, at, len(heads), batch, k, ok)
		}
		heads[r.IntN(len(heads))] ^= 0x55
		if _, _, ok := flippedBit(crc32.Checksum(heads, castagnoli), want, int64(n)); ok {
			accused++
		}
	}
	if accused > 5 {
		t.Errorf("a batch is accused %d times of 1000", accused)
	}
}
