package record

// What can be wrong with a record. Texts are constants: a hostile batch must
// not cost an allocation for each of its records.
const (
	whyLength      = "record length is cut off or malformed"
	whyShort       = "record length is too small for a record"
	whyEnd         = "bytes end before the last record does"
	whyTimestamp   = "timestamp delta is malformed"
	whyOffset      = "offset delta is malformed"
	whyKey         = "key length is malformed or passes the record"
	whyValue       = "value length is malformed or passes the record"
	whyHeaderCount = "header count is malformed or passes the record"
	whyHeaderKey   = "header key length is malformed or passes the record"
	whyHeaderValue = "header value length is malformed or passes the record"
	whyRemainder   = "record is longer than its fields"
	whyTrailing    = "bytes follow the last record"
	whyNegative    = "record length is negative"
)

// headMax is the most bytes that a record's length, attributes, timestamp
// delta, offset delta and key length take.
const headMax = 5 + 1 + 10 + 5 + 5

// recordMin is the least a record's length field can say: attributes, two
// deltas, two lengths and a count of one byte each.
const recordMin = 6

// head is the front of a record: all that validation and rebuilding look at.
type head struct {
	timestampDelta int64
	offsetDelta    int32
	keySize        int32 // −1: null
	size           int   // of the whole record, its length field included
	body           int   // position of the key's length
	key            int   // position behind the key's length
}

// readSize reads the length field of the record at the start of b and returns
// the size of the whole record.
func readSize(b []byte) (size, next int, why string) {
	n, i := varint32(b, 0)
	switch {
	case i < 0:
		return 0, 0, whyLength
	case n < 0:
		return 0, 0, whyNegative
	case n < recordMin:
		return 0, 0, whyShort
	}
	return i + int(n), i, ""
}

// readHead reads the front of the record at the start of b, which may be cut
// behind headMax bytes. The key is not looked at.
func readHead(b []byte, h *head) (why string) {
	size, i, why := readSize(b)
	if why != "" {
		return why
	}
	h.size = size
	if size < len(b) {
		b = b[:size]
	}
	i++ // attributes, which mean nothing
	if h.timestampDelta, i = varint64(b, i); i < 0 {
		return whyTimestamp
	}
	if h.offsetDelta, i = varint32(b, i); i < 0 {
		return whyOffset
	}
	h.body = i
	if h.keySize, i = varint32(b, i); i < 0 || h.keySize < -1 {
		return whyKey
	}
	h.key = i
	if int(h.keySize) > size-i {
		return whyKey
	}
	return ""
}

// readTail walks what follows the key's length: the rest of one whole record.
func readTail(r []byte, h *head) (why string) {
	i := h.key
	if h.keySize > 0 {
		i += int(h.keySize)
	}
	n, i := varint32(r, i)
	if i < 0 || n < -1 || int(n) > len(r)-i {
		return whyValue
	}
	if n > 0 {
		i += int(n)
	}
	n, i = varint32(r, i)
	if i < 0 || n < 0 || int(n) > len(r)-i {
		return whyHeaderCount
	}
	for ; n > 0; n-- {
		var l int32
		if l, i = varint32(r, i); i < 0 || l < 0 || int(l) > len(r)-i {
			return whyHeaderKey
		}
		i += int(l)
		if l, i = varint32(r, i); i < 0 || l < -1 || int(l) > len(r)-i {
			return whyHeaderValue
		}
		if l > 0 {
			i += int(l)
		}
	}
	if i != len(r) {
		return whyRemainder
	}
	return ""
}
