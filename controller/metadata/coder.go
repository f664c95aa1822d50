package metadata

import (
	"encoding/binary"
	"fmt"
	"math"
)

// coder writes or reads fields in one fixed order, so that each record has one
// description of its bytes and the two directions cannot drift apart. Writing
// appends to buf; reading takes from its front. The first error sticks.
type coder struct {
	buf     []byte
	writing bool
	err     error
}

// integer is any whole number of at most 64 bits that fits an int64.
type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format+": %w", append(args, ErrMalformed)...)
	}
}

// byte reads one byte.
func (c *coder) byte() byte {
	if c.err != nil || len(c.buf) == 0 {
		c.fail("data ends early")
		return 0
	}
	b := c.buf[0]
	c.buf = c.buf[1:]
	return b
}

// uvarint reads a number; an overlong form is refused so that equal records
// have equal bytes.
func (c *coder) uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.buf)
	if n <= 0 || (n > 1 && c.buf[n-1] == 0) {
		c.fail("bad varint")
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

// count reads the number of elements of at least size bytes each; more than
// the remaining bytes can hold is refused before anything is allocated.
func (c *coder) count(size int) int {
	n := c.uvarint()
	if n > uint64(len(c.buf)/size) {
		c.fail("%d elements in %d bytes", n, len(c.buf))
		return 0
	}
	return int(n)
}

// code writes or reads one integer, zigzag encoded.
func code[T integer](c *coder, v *T) {
	if c.writing {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
		return
	}
	u := c.uvarint()
	x := int64(u>>1) ^ -int64(u&1)
	*v = T(x)
	if int64(*v) != x {
		c.fail("number %d out of range", x)
	}
}

// flag writes or reads a boolean.
func (c *coder) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	enum(c, &n, 1)
	*v = n == 1
}

// enum writes or reads a small number of at most max.
func enum[T ~uint8](c *coder, v *T, max T) {
	if c.writing {
		c.buf = append(c.buf, byte(*v))
		return
	}
	if *v = T(c.byte()); *v > max {
		c.fail("value %d above %d", *v, max)
	}
}

// str writes or reads a string.
func (c *coder) str(s *string) {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*s)))
		c.buf = append(c.buf, *s...)
		return
	}
	n := c.count(1)
	*s = string(c.buf[:n])
	c.buf = c.buf[n:]
}

// optional writes or reads a string that may be absent.
func (c *coder) optional(s **string) {
	present := *s != nil
	c.flag(&present)
	if !present || c.err != nil {
		return
	}
	if *s == nil {
		*s = new(string)
	}
	c.str(*s)
}

// uuid writes or reads 16 bytes.
func (c *coder) uuid(id *[16]byte) {
	if c.writing {
		c.buf = append(c.buf, id[:]...)
		return
	}
	if len(c.buf) < len(id) {
		c.fail("data ends early")
		return
	}
	copy(id[:], c.buf)
	c.buf = c.buf[len(id):]
}

// list writes or reads a list whose elements take at least one byte each. An
// empty list is read as nil.
func list[T any](c *coder, s *[]T, elem func(c *coder, v *T)) {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*s)))
		for i := range *s {
			elem(c, &(*s)[i])
		}
		return
	}
	n := c.count(1)
	if n == 0 {
		return
	}
	*s = make([]T, 0, min(n, math.MaxInt16))
	for range n {
		var v T
		elem(c, &v)
		if c.err != nil {
			return
		}
		*s = append(*s, v)
	}
}

// listIf is list for a field that is present only if bit is set in mask; a
// present empty list stays distinct from an absent one.
func listIf[T any](c *coder, mask, bit uint8, s *[]T, elem func(c *coder, v *T)) {
	if mask&bit == 0 {
		return
	}
	list(c, s, elem)
	if *s == nil {
		*s = []T{}
	}
}
