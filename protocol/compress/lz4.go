package compress

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format, as far as Kafka has it: one frame, independent blocks,
// no dictionary. Java's reader refuses blocks that depend on earlier ones and
// stops at the end of the first frame; other readers take what follows for
// another frame. So neither dependent blocks nor a second frame, nor bytes
// behind the first, are taken: what we accept, every consumer can read.
const (
	lz4Magic       = 0x184D2204
	lz4Version     = 1 << 6
	lz4VersionMask = 3 << 6
	lz4Independent = 1 << 5
	lz4BlockSum    = 1 << 4
	lz4ContentSize = 1 << 3
	lz4ContentSum  = 1 << 2
	lz4Reserved    = 3        // the reserved bit, and the dictionary's
	lz4Raw         = 1 << 31  // in a block's size: it is not compressed
	lz4Block64KiB  = 64 << 10 // the size we write
	lz4BlockSizeID = 4 << 4   // and its number in the frame header
	lz4MaxRatio    = 255      // one byte of input yields no more
)

var (
	errLZ4Header   = errors.New("not a frame header that is served")
	errLZ4Checksum = errors.New("checksum is wrong")
	errLZ4Trailing = errors.New("bytes follow the frame")
	errLZ4Block    = errors.New("block passes the frame's block size")
)

// lz4Source walks the blocks of one frame, decoding each from the input
// straight into its block buffer.
type lz4Source struct {
	in       []byte
	flags    byte
	started  bool
	done     bool
	blockMax int
	block    []byte // decoded and not yet handed out
	buf      []byte // where block lives
}

var lz4Sources = sync.Pool{New: func() any { return new(lz4Source) }}

func newLZ4Source(src []byte) *lz4Source {
	s := lz4Sources.Get().(*lz4Source)
	*s = lz4Source{in: src, buf: s.buf}
	return s
}

func (s *lz4Source) release() {
	s.in, s.block = nil, nil
	lz4Sources.Put(s)
}

func (s *lz4Source) read(p []byte) (int, error) {
	for len(s.block) == 0 {
		if s.done {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block)
	s.block = s.block[n:]
	return n, nil
}

// take cuts n bytes off the input.
func (s *lz4Source) take(n int) ([]byte, error) {
	if len(s.in) < n {
		return nil, io.ErrUnexpectedEOF
	}
	b := s.in[:n]
	s.in = s.in[n:]
	return b, nil
}

// next decodes the next block or meets the frame's end.
func (s *lz4Source) next() error {
	if !s.started {
		if err := s.header(); err != nil {
			return err
		}
		s.started = true
	}
	b, err := s.take(4)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(b)
	if size == 0 {
		s.done = true
		if s.flags&lz4ContentSum != 0 {
			_, err = s.take(4) // not checked, as in Kafka: the batch has a CRC
		}
		if err == nil && len(s.in) > 0 {
			err = errLZ4Trailing
		}
		return err
	}
	raw := size&lz4Raw != 0
	size &^= lz4Raw
	if size > uint32(s.blockMax) {
		return errLZ4Block
	}
	data, err := s.take(int(size))
	if err != nil {
		return err
	}
	if s.flags&lz4BlockSum != 0 {
		sum, err := s.take(4)
		if err != nil {
			return err
		}
		if xxh32(data) != binary.LittleEndian.Uint32(sum) {
			return errLZ4Checksum
		}
	}
	if raw {
		s.block = data
		return nil
	}
	return s.decode(data)
}

func (s *lz4Source) decode(data []byte) error {
	room := min(s.blockMax, len(data)*lz4MaxRatio)
	if len(s.buf) < room {
		s.buf = make([]byte, max(room, lz4Block64KiB))
	}
	n, err := lz4.UncompressBlock(data, s.buf[:room])
	if err != nil {
		return err
	}
	s.block = s.buf[:n]
	return nil
}

func (s *lz4Source) header() error {
	in := s.in
	b, err := s.take(6)
	if err != nil {
		return err
	}
	s.flags = b[4]
	id := b[5] >> 4
	switch {
	case binary.LittleEndian.Uint32(b) != lz4Magic,
		s.flags&lz4VersionMask != lz4Version,
		s.flags&lz4Reserved != 0,
		s.flags&lz4Independent == 0,
		b[5]&0x8f != 0, id < 4:
		return errLZ4Header
	}
	s.blockMax = 1 << (8 + 2*id)
	desc := 2
	if s.flags&lz4ContentSize != 0 {
		if _, err := s.take(8); err != nil {
			return err
		}
		desc += 8
	}
	sum, err := s.take(1)
	if err != nil {
		return err
	}
	if byte(xxh32(in[4:4+desc])>>8) != sum[0] {
		return errLZ4Checksum
	}
	return nil
}
