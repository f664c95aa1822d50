package record

// CRCs of two pieces combine into the CRC of both in a row, without the bytes:
// crc(a‖b) = crc(a)·x^(8·len(b)) ⊕ crc(b), in polynomials over GF(2) modulo
// the CRC's own. Numbers are bit-reversed, as the CRC itself is: bit 31 is x⁰.

// crcPoly is the polynomial of CRC-32C, reversed.
const crcPoly = 0x82f63b78

// crcOne is the polynomial 1.
const crcOne = 1 << 31

// crcPowers holds x^(2^i).
var crcPowers = makeCRCPowers()

func makeCRCPowers() (t [40]uint32) {
	t[0] = crcOne >> 1
	for i := 1; i < len(t); i++ {
		t[i] = crcMultiply(t[i-1], t[i-1])
	}
	return t
}

// crcMultiply multiplies two polynomials.
func crcMultiply(a, b uint32) (p uint32) {
	for ; a != 0; a <<= 1 {
		if a&crcOne != 0 {
			p ^= b
		}
		b = b>>1 ^ crcPoly&-(b&1)
	}
	return p
}

// crcShift returns x^(8·n), the factor that moves a CRC over n bytes.
func crcShift(n int) uint32 {
	p := uint32(crcOne)
	for i := 3; n != 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			p = crcMultiply(crcPowers[i], p)
		}
	}
	return p
}

// crcCombine returns the CRC of a piece with CRC head followed by a piece with
// CRC tail, where shift is crcShift of the second piece's length.
func crcCombine(head, tail, shift uint32) uint32 { return crcMultiply(shift, head) ^ tail }
