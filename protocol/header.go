package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrShort says that the bytes end before the field being read does.
var ErrShort = errors.New("protocol: body ends too early")

// ErrMalformed says that a field holds a value its type can't have, for example
// a string length of -2.
var ErrMalformed = errors.New("protocol: malformed field")

// FrameSizeLen is the length of the int32 that precedes every request and
// response and counts the bytes after itself.
const FrameSizeLen = 4

// RequestHeader is what precedes every request body. Source: Kafka's
// RequestHeader schema, versions 1 and 2 (KIP-482).
type RequestHeader struct {
	Key           int16  // which API
	Version       int16  // of the request and of its answer
	CorrelationID int32  // echoed in the answer
	ClientID      string // the client's name for itself, unchecked bytes
	NoClientID    bool   // the client sent null rather than an empty name
}

// MinRequestLen is the length of the shortest request, its frame size excluded:
// the fixed header fields and a null client id.
const MinRequestLen = headerFixed + 2

// headerFixed is the length of the header fields that every version has.
const headerFixed = 8

// PeekKey returns the API key of a request of which at least the first two
// bytes are there; the limit on a frame's size depends on it.
func PeekKey(b []byte) (key int16, ok bool) {
	if len(b) < 2 {
		return 0, false
	}
	return int16(binary.BigEndian.Uint16(b)), true
}

// ParseRequestHeader reads the header at the start of b, a whole frame without
// its size, and returns the body behind it. The layout depends on the API and
// version: a header of version 2 (flexible requests) ends in tagged fields, and
// even there the client id is an int16-prefixed string. An API that is not in
// the table is given a version 1 header, enough to name it in an error.
//
// lastClientID is the client id of the connection's previous request: clients
// don't change it, and an equal one is returned instead of a new string.
func ParseRequestHeader(b []byte, lastClientID string) (h RequestHeader, body []byte, err error) {
	if len(b) < headerFixed+2 {
		return h, nil, fmt.Errorf("request header of %d bytes: %w", len(b), ErrShort)
	}
	h.Key = int16(binary.BigEndian.Uint16(b))
	h.Version = int16(binary.BigEndian.Uint16(b[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(b[4:]))
	n := int(int16(binary.BigEndian.Uint16(b[headerFixed:])))
	rest := b[headerFixed+2:]
	switch {
	case n == -1:
		h.NoClientID = true
	case n < 0:
		return h, nil, fmt.Errorf("client id length %d: %w", n, ErrMalformed)
	case n > len(rest):
		return h, nil, fmt.Errorf("client id of %d bytes, %d left: %w", n, len(rest), ErrShort)
	default:
		h.ClientID = lastClientID
		if string(rest[:n]) != lastClientID {
			h.ClientID = string(rest[:n])
		}
		rest = rest[n:]
	}
	if flexibleHeader(h.Key, h.Version) {
		w := walk{src: rest, flexible: true}
		w.tags(0)
		if w.err != nil {
			return h, nil, fmt.Errorf("request header tags: %w", w.err)
		}
		rest = w.src
	}
	return h, rest, nil
}

// flexibleHeader reports whether a request of this API and version carries a
// version 2 header.
func flexibleHeader(key, version int16) bool {
	api, ok := Lookup(key)
	if !ok {
		return key >= FirstPrivateKey
	}
	return version >= api.Flexible
}

// AppendResponseHeader appends the header of an answer, without the frame size:
// the correlation id and, for flexible versions, an empty list of tagged
// fields. ApiVersions answers never have the tags, since a client may read one
// before it knows which versions the broker speaks. Source: KIP-482, KIP-511.
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if key != KeyApiVersions && flexibleHeader(key, version) {
		dst = append(dst, 0)
	}
	return dst
}
