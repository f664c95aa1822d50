package compress

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Snappy comes in two shapes. Java clients frame it ("xerial"): a header of 16
// bytes, then chunks of a 4-byte big-endian length and a snappy block each.
// Others send one bare block. Both are read; the framed shape is written.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = 16 // magic, version, lowest compatible version
	xerialBlock      = 32 << 10
)

const (
	// snappyWhole is the largest block that is always decoded in one piece,
	// and the furthest that a copy in a streamed block may reach back.
	snappyWhole = 8 << 20
	// snappyHonest is the ratio up to which larger blocks are decoded in one
	// piece too: real data is below it, and the memory stays in proportion to
	// the frame that its sender has paid for.
	snappyHonest = 4
	// snappySlack is how much a sliding history grows before it is moved.
	snappySlack = 4 << 20
	// snappyRatio bounds what one byte of a block can yield: a copy of 64
	// bytes takes at least two.
	snappyRatio = 32
)

var (
	errDeclaredTooLarge = errors.New("block declares more than the limit")
	errSnappyLength     = errors.New("block declares more than it can hold")
	errSnappyChunk      = errors.New("chunk length passes the input")
	errSnappyBlock      = errors.New("block is malformed")
)

// snappySource reads either shape. A block is decoded whole if it declares at
// most snappyWhole or is in an honest ratio to its size, else by streaming over
// a sliding history; in both cases what it declares is believed only if its
// size could yield it and the limit allows it.
type snappySource struct {
	in     []byte
	framed bool
	once   bool   // the bare block was taken
	left   int64  // what the limit still allows blocks to declare
	block  []byte // decoded and not yet handed out
	buf    []byte // where block or hist lives
	large  largeBlock
}

var snappySources = sync.Pool{New: func() any { return new(snappySource) }}

func newSnappySource(src []byte, limit int64) *snappySource {
	s := snappySources.Get().(*snappySource)
	*s = snappySource{in: src, left: limit, buf: s.buf}
	if len(src) >= xerialHeaderSize && string(src[:len(xerialMagic)]) == xerialMagic {
		s.framed = true
		s.in = src[xerialHeaderSize:]
	}
	return s
}

func (s *snappySource) release() {
	s.in, s.block, s.large = nil, nil, largeBlock{}
	snappySources.Put(s)
}

func (s *snappySource) read(p []byte) (int, error) {
	for len(s.block) == 0 {
		if s.large.active() {
			b, err := s.large.more()
			if err != nil {
				return 0, err
			}
			s.block = b
			continue
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block)
	s.block = s.block[n:]
	return n, nil
}

// next takes the next block from the input and decodes it or begins to.
func (s *snappySource) next() error {
	block := s.in
	if s.framed {
		if len(s.in) == 0 {
			return io.EOF
		}
		if len(s.in) < 4 {
			return io.ErrUnexpectedEOF
		}
		size := binary.BigEndian.Uint32(s.in)
		if uint64(size) > uint64(len(s.in)-4) {
			return errSnappyChunk
		}
		block = s.in[4 : 4+size]
		s.in = s.in[4+size:]
	} else if s.once {
		return io.EOF
	}
	s.once = true
	size, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return err
	case int64(size) > int64(len(block))*snappyRatio:
		return errSnappyLength
	case int64(size) > s.left:
		return errDeclaredTooLarge
	}
	s.left -= int64(size)
	if size > max(snappyWhole, snappyHonest*len(block)) {
		s.large.start(block, size, s.room(snappyWhole+snappySlack))
		return nil
	}
	b, err := s2.Decode(s.room(size), block)
	if err != nil {
		return err
	}
	s.block = b
	return nil
}

// room returns a buffer of n bytes, kept for the blocks to come.
func (s *snappySource) room(n int) []byte {
	if len(s.buf) < n {
		s.buf = make([]byte, max(n, WindowSize))
	}
	return s.buf[:n]
}

// largeBlock decodes one snappy block by streaming. Copies may reach back
// snappyWhole bytes; a block that reaches further is refused.
type largeBlock struct {
	in   []byte // tags and literals to come
	left int    // bytes still to be produced
	hist []byte // history and new bytes; its capacity is fixed
	lit  int    // bytes of the current literal still to be copied
	off  int    // distance of the current copy
	copy int    // bytes of the current copy still to be made
}

func (b *largeBlock) active() bool { return b.left+b.lit+b.copy+len(b.in) > 0 }

// start begins block, whose length prefix has been checked to be size.
func (b *largeBlock) start(block []byte, size int, room []byte) {
	_, n := binary.Uvarint(block)
	*b = largeBlock{in: block[n:], left: size, hist: room[:0]}
}

// more produces up to a window of bytes, valid until the next call.
func (b *largeBlock) more() ([]byte, error) {
	if cap(b.hist)-len(b.hist) < WindowSize {
		n := copy(b.hist, b.hist[len(b.hist)-snappyWhole:])
		b.hist = b.hist[:n]
	}
	from := len(b.hist)
	for room := WindowSize; room > 0 && b.active(); room = WindowSize - (len(b.hist) - from) {
		switch {
		case b.lit > 0:
			n := min(b.lit, room)
			b.hist = append(b.hist, b.in[:n]...)
			b.in = b.in[n:]
			b.lit -= n
		case b.copy > 0:
			n := min(b.copy, room)
			b.repeat(n)
			b.copy -= n
		default:
			if err := b.tag(); err != nil {
				return nil, err
			}
		}
	}
	return b.hist[from:], nil
}

// repeat appends n bytes from off bytes back; the two may overlap.
func (b *largeBlock) repeat(n int) {
	for n > 0 {
		at := len(b.hist) - b.off
		m := min(n, b.off)
		b.hist = append(b.hist, b.hist[at:at+m]...)
		n -= m
	}
}

// tag decodes the next element's tag. Source: snappy's format_description.
func (b *largeBlock) tag() error {
	if len(b.in) == 0 {
		return errSnappyBlock
	}
	t := b.in[0]
	var arg int // bytes behind the tag
	switch t & 3 {
	case 0:
		if t>>2 >= 60 {
			arg = int(t>>2) - 59
		}
	case 1:
		arg = 1
	case 2:
		arg = 2
	case 3:
		arg = 4
	}
	if len(b.in) < 1+arg {
		return errSnappyBlock
	}
	v := uint32(0)
	for i := arg; i > 0; i-- {
		v = v<<8 | uint32(b.in[i])
	}
	b.in = b.in[1+arg:]
	if t&3 == 0 {
		if arg == 0 {
			v = uint32(t >> 2)
		}
		if uint64(v)+1 > uint64(min(len(b.in), b.left)) {
			return errSnappyBlock
		}
		b.lit = int(v) + 1
		b.left -= b.lit
		return nil
	}
	n := 1 + int(t>>2)
	if t&3 == 1 {
		n = 4 + int(t>>2&7)
		v |= uint32(t>>5) << 8
	}
	if v == 0 || uint64(v) > uint64(min(len(b.hist), snappyWhole)) || n > b.left {
		return errSnappyBlock
	}
	b.off, b.copy = int(v), n
	b.left -= n
	return nil
}
