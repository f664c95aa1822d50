package compress

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindow is the most history a decoder keeps. The zstd format asks every
// decoder to support at least 8 MiB.
const zstdWindow = 8 << 20

// zstdWindowByte is the window descriptor that says 8 MiB: exponent 13 over
// 2^10, mantissa 0.
const zstdWindowByte = 13 << 3

const zstdMagic = 0xFD2FB528

// Bits of a zstd frame header descriptor.
const (
	zstdSingleSegment = 1 << 5
	zstdSizeFlagShift = 6
)

// zstdSource reads zstd frames with a window of at most zstdWindow. A window
// is only the furthest that a match may reach back, so a frame that asks for
// more (Java producers at levels above 19 ask for up to 128 MiB, whatever the
// batch) is read with the smaller window: its first header is rewritten on the
// way in. A match that does reach further is then refused by the decoder.
// Frames behind the first are not rewritten.
type zstdSource struct {
	in zstdInput
	d  *zstd.Decoder
}

// zstdInput is the input with its first bytes replaced.
type zstdInput struct {
	head [6]byte
	used int    // bytes of head handed out
	size int    // bytes of head in use
	rest []byte // what follows head
}

// Read implements io.Reader.
func (in *zstdInput) Read(p []byte) (int, error) {
	if in.used < in.size {
		n := copy(p, in.head[in.used:in.size])
		in.used += n
		return n, nil
	}
	if len(in.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// set begins to hand out src, with a header that asks for no more than
// zstdWindow.
func (in *zstdInput) set(src []byte) {
	*in = zstdInput{rest: src}
	if len(src) < 6 || binary.LittleEndian.Uint32(src) != zstdMagic {
		return
	}
	desc := src[4]
	switch {
	case desc&zstdSingleSegment == 0 && src[5] > zstdWindowByte:
		copy(in.head[:], src[:5])
		in.head[5] = zstdWindowByte
		in.size, in.rest = 6, src[6:]
	case desc&zstdSingleSegment != 0 && zstdContentSize(src) > zstdWindow:
		// A single segment has no window byte: its window is its content.
		copy(in.head[:], src[:4])
		in.head[4] = desc &^ zstdSingleSegment
		in.head[5] = zstdWindowByte
		in.size, in.rest = 6, src[5:]
	}
}

// zstdContentSize reads the content size from the header of a single-segment
// frame, 0 where the field is too small to matter or cut off.
func zstdContentSize(src []byte) uint64 {
	at := 5 + [4]int{0, 1, 2, 4}[src[4]&3] // behind the dictionary id
	b := src[min(at, len(src)):]
	switch src[4] >> zstdSizeFlagShift {
	case 2:
		if len(b) >= 4 {
			return uint64(binary.LittleEndian.Uint32(b))
		}
	case 3:
		if len(b) >= 8 {
			return binary.LittleEndian.Uint64(b)
		}
	}
	return 0
}

var zstdSources = sync.Pool{New: func() any {
	// With concurrency 1 the decoder starts no goroutine and needs no Close.
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindow),
		zstd.WithDecoderMaxMemory(zstdWindow), // bounds single segments
		zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return &zstdSource{} // reported by read: constant options can't fail
	}
	return &zstdSource{d: d}
}}

func newZstdSource(src []byte) *zstdSource {
	s := zstdSources.Get().(*zstdSource)
	s.in.set(src)
	if s.d != nil && s.d.Reset(&s.in) != nil {
		s.d = nil
	}
	return s
}

func (s *zstdSource) read(p []byte) (int, error) {
	if s.d == nil {
		return 0, zstd.ErrDecoderClosed
	}
	return s.d.Read(p)
}

func (s *zstdSource) release() {
	s.in = zstdInput{}
	if s.d == nil || s.d.Reset(nil) != nil {
		return
	}
	zstdSources.Put(s)
}
