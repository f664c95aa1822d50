package compress

import (
	"fmt"
	"io"
	"math"
	"sync"
)

// WindowSize is how many decompressed bytes a Reader can show at once.
const WindowSize = 64 << 10

// emptyReads is how often a decoder may answer "no bytes, no error" in a row
// before it is taken for stuck.
const emptyReads = 100

// source is one decoder at work. read has the contract of io.Reader. release
// drops every reference to the input and goes back to the pool.
type source interface {
	read(p []byte) (int, error)
	release()
}

// Reader decompresses one block of records by streaming. It is read either as
// an io.Reader or through Peek and Advance, which copy nothing.
//
// A Reader has one user at a time. After Close it belongs to the pool and must
// not be touched.
type Reader struct {
	codec Codec
	src   source // nil for None
	buf   []byte // bytes [r, w) are the window; for None this is the input
	r, w  int
	left  int64 // decompressed bytes that may still come
	err   error // what comes behind the window; io.EOF at the end
	own   []byte
}

var readers = sync.Pool{New: func() any { return &Reader{own: make([]byte, WindowSize)} }}

// NewReader returns a reader of src, which it aliases until Close. It hands
// out at most limit bytes: if there are more, reading ends with ErrTooLarge.
// limit ≤ 0 means no cap. None has nothing to cap: its bytes are src itself.
// An error wraps ErrUnknownCodec; bad data shows when it is read, as
// ErrCorrupt.
func NewReader(c Codec, src []byte, limit int64) (*Reader, error) {
	if !c.Valid() {
		return nil, fmt.Errorf("%w %d", ErrUnknownCodec, uint8(c))
	}
	if limit <= 0 {
		limit = math.MaxInt64
	}
	r := readers.Get().(*Reader)
	r.codec, r.left, r.err, r.r, r.w = c, limit, nil, 0, 0
	r.buf = r.own
	switch c {
	case None:
		r.buf, r.w, r.err = src, len(src), io.EOF
	case Gzip:
		r.src = newGzipSource(src)
	case Snappy:
		r.src = newSnappySource(src, limit)
	case LZ4:
		r.src = newLZ4Source(src)
	case Zstd:
		r.src = newZstdSource(src)
	}
	return r, nil
}

// Peek returns the window, which begins at the reader's position and is valid
// until the next call. It has n bytes or more unless the data ends or breaks
// before: then the error, io.EOF for a proper end, says which. n must not pass
// WindowSize, but for None, whose window is all of the input.
func (r *Reader) Peek(n int) ([]byte, error) {
	for r.w-r.r < n {
		if r.err != nil {
			return r.buf[r.r:r.w], r.err
		}
		r.fill()
	}
	return r.buf[r.r:r.w], nil
}

// Advance moves n bytes forward, which Peek must have shown.
func (r *Reader) Advance(n int) { r.r += n }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := r.Peek(1)
	if len(b) == 0 {
		return 0, err
	}
	n := copy(p, b)
	r.r += n
	return n, nil
}

// Close gives the reader and its decoder back to their pools. It never fails.
func (r *Reader) Close() error {
	if r.src != nil {
		r.src.release()
	}
	r.src, r.buf = nil, nil
	readers.Put(r)
	return nil
}

// fill reads once more behind the window, or sets err.
func (r *Reader) fill() {
	if r.r == r.w {
		r.r, r.w = 0, 0
	} else if r.w == len(r.buf) {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	p := r.buf[r.w:]
	if int64(len(p)) > r.left {
		p = p[:max(r.left, 1)] // one byte past the cap tells more from end
	}
	var n int
	var err error
	for i := 0; n == 0 && err == nil; i++ {
		if i == emptyReads {
			err = io.ErrNoProgress
			break
		}
		n, err = r.src.read(p)
	}
	if int64(n) > r.left {
		r.err = fmt.Errorf("%w: %s", ErrTooLarge, r.codec)
		return
	}
	r.left -= int64(n)
	r.w += n
	if err != nil {
		r.err = r.wrap(err)
	}
}

// wrap gives a decoder's error one of this package's names.
func (r *Reader) wrap(err error) error {
	switch {
	case err == io.EOF:
		return io.EOF
	case err == errDeclaredTooLarge:
		return fmt.Errorf("%w: %s block declares it", ErrTooLarge, r.codec)
	default:
		return fmt.Errorf("%w: %s: %v", ErrCorrupt, r.codec, err)
	}
}
