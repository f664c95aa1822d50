package compress

import (
	"encoding/binary"
	"math/bits"
)

// Primes of xxHash32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxh32 is xxHash32 with seed 0, which the LZ4 frame format uses for its
// header and block checksums.
func xxh32(b []byte) uint32 {
	h := xxPrime5
	size := uint32(len(b))
	if len(b) >= 16 {
		v := [4]uint32{xxPrime1, xxPrime2, 0, 0}
		v[0] += xxPrime2
		v[3] -= xxPrime1
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] += binary.LittleEndian.Uint32(b[4*i:]) * xxPrime2
				v[i] = bits.RotateLeft32(v[i], 13) * xxPrime1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) +
			bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	}
	h += size
	for ; len(b) >= 4; b = b[4:] {
		h += binary.LittleEndian.Uint32(b) * xxPrime3
		h = bits.RotateLeft32(h, 17) * xxPrime4
	}
	for _, c := range b {
		h += uint32(c) * xxPrime5
		h = bits.RotateLeft32(h, 11) * xxPrime1
	}
	h ^= h >> 15
	h *= xxPrime2
	h ^= h >> 13
	h *= xxPrime3
	return h ^ h>>16
}
