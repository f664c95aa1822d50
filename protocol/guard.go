package protocol

import (
	"encoding/binary"
	"fmt"
)

const (
	// MaxAmplification bounds how many bytes decoding may allocate for each
	// byte of a request's body.
	MaxAmplification = 20

	// costFree is what decoding may allocate whatever the body's length, so
	// that small requests are not judged by rounding.
	costFree = 64 << 10

	// What one unknown tagged field costs kmsg, which keeps it in a map made
	// for the struct it stands in: the map with its first group of slots, and
	// each further field at the map's worst load. Measured with kmsg 1.15.1
	// and Go 1.26.
	costTagMap = 448
	costTag    = 128

	// knownTagFree is the length up to which a known tagged field is taken to
	// hold what its schema says; above it, it is charged as if it were filled
	// with unknown tags.
	knownTagFree = 1024
)

// Guard walks a request's body by the schema of its API and version, without
// allocating, and returns an error if the body ends early, if a length or count
// is impossible, or if decoding it would allocate more than MaxAmplification
// times its length (and a small constant). It takes a few nanoseconds a field.
//
// It exists because a decoder sizes an array by the count that stands before
// its elements: 100 MiB that claim to be two-byte topics of a Produce request
// would have kmsg ask for 3 GiB before it finds the claim to be false.
func Guard(key, version int16, body []byte) error {
	w := walk{src: body, limit: costFree + MaxAmplification*int64(len(body))}
	if api, ok := Lookup(key); ok {
		w.flexible = version >= api.Flexible
	}
	if !guardRequest(&w, key, version) {
		return ErrUnsupported
	}
	if w.err != nil {
		return fmt.Errorf("at byte %d of %d: %w", len(body)-len(w.src), len(body), w.err)
	}
	return nil
}

// walk is a position in a body. After the first error it stands still and every
// method does nothing, so that callers check once, at the end.
type walk struct {
	src      []byte
	flexible bool
	cost     int64 // bytes the decoder will allocate for what was passed
	limit    int64 // of cost; 0: none
	err      error
}

func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// charge adds n things of so many bytes to the cost.
func (w *walk) charge(n, size int) {
	w.cost += int64(n) * int64(size)
	if w.cost > w.limit && w.limit > 0 {
		w.fail(ErrTooCostly)
	}
}

// skip passes a field of n bytes.
func (w *walk) skip(n int) {
	if w.err != nil {
		return
	}
	if n > len(w.src) {
		w.err = ErrShort
		return
	}
	w.src = w.src[n:]
}

// uvarint passes an unsigned varint of at most five bytes.
func (w *walk) uvarint() uint32 {
	if w.err != nil {
		return 0
	}
	if len(w.src) > 0 && w.src[0] < 0x80 {
		n := uint32(w.src[0])
		w.src = w.src[1:]
		return n
	}
	v, n := binary.Uvarint(w.src)
	switch {
	case n == 0:
		w.err = ErrShort
	case n < 0 || n > 5 || v > 1<<32-1:
		w.err = ErrMalformed
	}
	if w.err != nil {
		return 0
	}
	w.src = w.src[n:]
	return uint32(v)
}

// size passes a varint that counts bytes or things of at least a byte that
// follow, less one if lessOne; it is at most the bytes left.
func (w *walk) size(lessOne int64) int {
	n := int64(w.uvarint()) - lessOne
	if n > int64(len(w.src)) {
		w.fail(ErrShort)
		return 0
	}
	return int(n)
}

// length passes the length of a string (wide false) or of bytes or an array
// (wide true) in its fixed or compact form; -1 is null.
func (w *walk) length(wide, nullable bool) int {
	var n int
	switch {
	case w.err != nil:
		return 0
	case w.flexible:
		n = w.size(1)
	case wide:
		if len(w.src) < 4 {
			w.err = ErrShort
			return 0
		}
		n = int(int32(binary.BigEndian.Uint32(w.src)))
		w.src = w.src[4:]
	default:
		if len(w.src) < 2 {
			w.err = ErrShort
			return 0
		}
		n = int(int16(binary.BigEndian.Uint16(w.src)))
		w.src = w.src[2:]
	}
	if w.err != nil {
		return 0
	}
	if n < -1 || n == -1 && !nullable {
		w.err = ErrMalformed
		return 0
	}
	if n > len(w.src) {
		w.err = ErrShort
		return 0
	}
	return n
}

// str passes a string, which decoding copies.
func (w *walk) str() {
	n := w.length(false, false)
	w.charge(1, (n+7)&^7)
	w.skip(n)
}

// nullStr passes a string that may be null and is decoded into a pointer.
func (w *walk) nullStr() {
	if n := w.length(false, true); n >= 0 {
		w.charge(1, sizeString+(n+7)&^7)
		w.skip(n)
	}
}

// nullBytes passes bytes that may be null; decoding aliases them.
func (w *walk) nullBytes() {
	if n := w.length(true, true); n > 0 {
		w.skip(n)
	}
}

// array passes the count of an array whose elements take size bytes each once
// decoded, and returns it; 0 after an error.
func (w *walk) array(size int) int {
	n := w.length(true, false)
	w.charge(n, size)
	return n
}

// nullArray is array where null is allowed; it returns 0 for null.
func (w *walk) nullArray(size int) int {
	n := w.length(true, true)
	if n <= 0 {
		return 0
	}
	w.charge(n, size)
	return n
}

// fixed passes an array of n-byte elements of which decoding makes an array of
// the same size.
func (w *walk) fixed(n int) { w.skip(w.array(n) * n) }

// tags ends a struct: in flexible versions it passes the tagged fields. known
// has bit k set if the schema gives tag k a meaning at this place.
func (w *walk) tags(known uint32) {
	if !w.flexible || w.err != nil {
		return
	}
	if len(w.src) > 0 && w.src[0] == 0 {
		w.src = w.src[1:]
		return
	}
	w.someTags(known)
}

func (w *walk) someTags(known uint32) {
	unknown := 0
	for n := w.size(0); n > 0 && w.err == nil; n-- {
		tag, size := w.uvarint(), w.size(0)
		w.skip(size)
		switch {
		case tag >= 32 || known&(1<<tag) == 0:
			if unknown == 0 {
				w.charge(1, costTagMap)
			}
			w.charge(1, costTag)
			unknown++
		case size > knownTagFree:
			w.charge(size, costTagMap/3)
		default:
			w.charge(1, size)
		}
	}
}
