package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// errBody is wrapped by every error about the bytes of a private request or
// answer.
var errBody = errors.New("malformed private message")

// wireVersion opens every private body. Another one is refused.
const wireVersion = 0

// encoder writes the bodies of private APIs: big endian numbers of fixed width,
// strings and byte strings behind a length of 32 bits.
type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: []byte{wireVersion}} }

func (e *encoder) u8(v uint8)            { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32)          { e.b = binary.BigEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64)          { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) id(v [16]byte)         { e.b = append(e.b, v[:]...) }
func (e *encoder) str(v string)          { e.u32(uint32(len(v))); e.b = append(e.b, v...) }
func (e *encoder) bytes(v []byte)        { e.u32(uint32(len(v))); e.b = append(e.b, v...) }
func (e *encoder) node(v model.BrokerID) { e.u32(uint32(v)) }

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) at(v model.OffsetAndEpoch) {
	e.u64(uint64(v.Offset))
	e.u32(uint32(v.Epoch))
}

// decoder is its inverse. After the first thing that is missing everything reads
// as zero and err is set. What it returns aliases the input.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(b []byte) *decoder {
	d := &decoder{b: b}
	if v := d.u8(); d.err == nil && v != wireVersion {
		d.err = fmt.Errorf("version %d: %w", v, errBody)
	}
	return d
}

// take returns the next n bytes, or nil.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		if d.err == nil {
			d.err = fmt.Errorf("%d bytes where %d are needed: %w", len(d.b), n, errBody)
		}
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u8() uint8 {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if v := d.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *decoder) id() (v [16]byte) {
	copy(v[:], d.take(len(v)))
	return v
}

func (d *decoder) bytes() []byte        { return d.take(int(int32(d.u32()))) }
func (d *decoder) str() string          { return string(d.bytes()) }
func (d *decoder) flag() bool           { return d.u8() == 1 }
func (d *decoder) node() model.BrokerID { return model.BrokerID(d.u32()) }

func (d *decoder) at() model.OffsetAndEpoch {
	return model.OffsetAndEpoch{Offset: model.Offset(d.u64()), Epoch: model.LeaderEpoch(d.u32())}
}

// end reports an error if anything is left.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.err = fmt.Errorf("%d bytes behind the last field: %w", len(d.b), errBody)
	}
	return d.err
}
