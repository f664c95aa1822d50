package record

import "math/bits"

// Records are written with protobuf's zigzag varints: at most 5 bytes for 32
// bits, 10 for 64. The readers below take a position and return the one behind
// the number, or −1 if the number is cut off or doesn't fit its width.

// zigzag32 and zigzag64 undo the folding of the sign into the lowest bit.
func zigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
func zigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// varint32 is small enough to be inlined; nearly all numbers in a record have
// one byte.
func varint32(b []byte, i int) (int32, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return zigzag32(uint32(b[i])), i + 1
	}
	return longVarint32(b, i)
}

func longVarint32(b []byte, i int) (int32, int) {
	var u uint32
	for s := uint(0); uint(i) < uint(len(b)); s += 7 {
		c := b[i]
		i++
		if s == 28 && c > 0x0f {
			return 0, -1
		}
		u |= uint32(c&0x7f) << s
		if c < 0x80 {
			return zigzag32(u), i
		}
	}
	return 0, -1
}

func varint64(b []byte, i int) (int64, int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return zigzag64(uint64(b[i])), i + 1
	}
	return longVarint64(b, i)
}

func longVarint64(b []byte, i int) (int64, int) {
	var u uint64
	for s := uint(0); uint(i) < uint(len(b)); s += 7 {
		c := b[i]
		i++
		if s == 63 && c > 0x01 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << s
		if c < 0x80 {
			return zigzag64(u), i
		}
	}
	return 0, -1
}

// appendVarint appends v, of 32 or 64 bits: the encoding is the same.
func appendVarint(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// varintSize is how many bytes appendVarint appends.
func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
