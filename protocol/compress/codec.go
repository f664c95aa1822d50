package compress

import (
	"errors"
	"fmt"
)

// Codec is the number a batch carries in the low three bits of its attributes.
// Source: the record batch format, magic 2; zstd is KIP-110.
type Codec uint8

// The codecs. 5, 6 and 7 fit the bits but name nothing.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Mask covers the bits of the batch attributes that hold the codec.
const Mask = 0x07

// names are the values of the topic setting compression.type; None is listed
// under its name in batch headers and tools.
var names = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

// String returns the codec's name as clients spell it.
func (c Codec) String() string {
	if c.Valid() {
		return names[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// Valid reports whether c is one of the five codecs.
func (c Codec) Valid() bool { return c <= Zstd }

// Parse returns the codec of that name. "uncompressed" is None too, as in the
// topic setting compression.type; "producer" is not a codec.
func Parse(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range names {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("%w %q", ErrUnknownCodec, name)
}

// DefaultLevel asks for each codec's default level.
const DefaultLevel = 0

// Errors of this package. A reader wraps ErrTooLarge when the output cap is
// passed and ErrCorrupt for anything that can't be decoded.
var (
	ErrTooLarge     = errors.New("compress: decompressed data passes the limit")
	ErrCorrupt      = errors.New("compress: corrupt data")
	ErrUnknownCodec = errors.New("compress: unknown codec")
)
