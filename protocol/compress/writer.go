package compress

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// encoder compresses a stream into the out it was made for.
type encoder interface {
	io.Writer
	Close() error
}

// out collects compressed bytes up to a limit.
type out struct {
	b     []byte
	limit int // of len(b)
}

// Write implements io.Writer.
func (o *out) Write(p []byte) (int, error) {
	if len(p) > o.limit-len(o.b) {
		return 0, ErrTooLarge
	}
	o.b = append(o.b, p...)
	return len(p), nil
}

// Writer compresses one stream, appending to a slice. It has one user at a
// time; after Close it belongs to the pool and must not be touched.
type Writer struct {
	out out
	enc encoder // nil for None
	put func(encoder)
}

var writers = sync.Pool{New: func() any { return new(Writer) }}

// NewWriter returns a writer that appends to dst what it compresses. level is
// the number Kafka's compression.*.level settings take, out of range numbers
// are clamped, and DefaultLevel is the codec's own default. limit, if > 0, is
// the most that len(dst) may become: passing it makes Write or Close return
// ErrTooLarge.
func NewWriter(c Codec, level int, dst []byte, limit int) (*Writer, error) {
	if !c.Valid() {
		return nil, fmt.Errorf("%w %d", ErrUnknownCodec, uint8(c))
	}
	if limit <= 0 {
		limit = math.MaxInt
	}
	w := writers.Get().(*Writer)
	w.out = out{b: dst, limit: limit}
	w.enc, w.put = nil, nil
	switch c {
	case Gzip:
		w.gzip(level)
	case Snappy:
		w.blocks(newXerialBlocks(), xerialPool)
	case LZ4:
		w.blocks(newLZ4Blocks(level), lz4Pool)
	case Zstd:
		w.zstd(level)
	}
	return w, nil
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if w.enc == nil {
		return w.out.Write(p)
	}
	return w.enc.Write(p)
}

// Close ends the stream, gives the writer back to its pool and returns dst
// with everything appended. After an error the bytes are of no use.
func (w *Writer) Close() ([]byte, error) {
	var err error
	if w.enc != nil {
		err = w.enc.Close()
		w.put(w.enc)
	}
	b := w.out.b
	*w = Writer{}
	writers.Put(w)
	return b, err
}

// Compress appends src, compressed as one stream, to dst.
func Compress(dst []byte, c Codec, level int, src []byte) ([]byte, error) {
	w, err := NewWriter(c, level, dst, 0)
	if err != nil {
		return nil, err
	}
	_, werr := w.Write(src)
	b, err := w.Close()
	if werr != nil {
		err = werr
	}
	return b, err
}

// gzipPools holds the writers of levels 1 to 9, and at 0 those of the default.
var gzipPools [gzip.BestCompression + 1]sync.Pool

func (w *Writer) gzip(level int) {
	level = min(max(level, 0), gzip.BestCompression)
	pool := &gzipPools[level]
	z, ok := pool.Get().(*gzip.Writer)
	if ok {
		z.Reset(&w.out)
	} else {
		if level == 0 {
			level = gzip.DefaultCompression
		}
		z, _ = gzip.NewWriterLevel(&w.out, level) // the level is in range
	}
	w.enc = z
	w.put = func(e encoder) {
		z.Reset(io.Discard)
		pool.Put(z)
	}
}

// zstdEncoderWindow is as much as a batch of the default size can use, and
// what a consumer must hold for it.
const zstdEncoderWindow = 1 << 20

// zstdPools holds one pool for each level that the library tells apart.
var zstdPools [zstd.SpeedBestCompression + 1]sync.Pool

func (w *Writer) zstd(level int) {
	speed := zstd.SpeedDefault
	if level != DefaultLevel {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	pool := &zstdPools[speed]
	z, ok := pool.Get().(*zstd.Encoder)
	if ok {
		z.Reset(&w.out)
	} else {
		// The options are constants in range. Concurrency 1 starts no
		// goroutine. The batch's CRC covers the frame: no second one.
		z, _ = zstd.NewWriter(&w.out,
			zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(speed),
			zstd.WithWindowSize(zstdEncoderWindow),
			zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderCRC(false),
			zstd.WithZeroFrames(true))
	}
	w.enc = z
	w.put = func(encoder) {
		z.Reset(nil)
		pool.Put(z)
	}
}

// blockWriter cuts a stream into blocks of one size and writes each behind its
// length: the shape that LZ4 frames and framed snappy share.
type blockWriter struct {
	to    io.Writer
	buf   []byte // the block being filled; its capacity is the block size
	enc   []byte // room for one encoded block, 4 bytes kept free for its length
	begun bool
	// head is written before the first block, tail after the last.
	head, tail []byte
	encode     func(w *blockWriter) []byte // encodes buf into enc
	fast       *lz4.Compressor             // of LZ4 only, like high
	high       *lz4.CompressorHC
}

func (w *Writer) blocks(b *blockWriter, pool *sync.Pool) {
	b.to, b.buf, b.begun = &w.out, b.buf[:0], false
	w.enc = b
	w.put = func(encoder) {
		b.to = nil
		pool.Put(b)
	}
}

// Write implements io.Writer.
func (b *blockWriter) Write(p []byte) (int, error) {
	size := len(p)
	for len(p) > 0 {
		n := min(len(p), cap(b.buf)-len(b.buf))
		b.buf = append(b.buf, p[:n]...)
		p = p[n:]
		if len(b.buf) == cap(b.buf) {
			if err := b.flush(); err != nil {
				return size - len(p), err
			}
		}
	}
	return size, nil
}

// Close writes what is left and the tail.
func (b *blockWriter) Close() error {
	if err := b.flush(); err != nil {
		return err
	}
	_, err := b.to.Write(b.tail)
	return err
}

func (b *blockWriter) flush() error {
	if !b.begun {
		b.begun = true
		if _, err := b.to.Write(b.head); err != nil {
			return err
		}
	}
	if len(b.buf) == 0 {
		return nil
	}
	_, err := b.to.Write(b.encode(b))
	b.buf = b.buf[:0]
	return err
}

var xerialPool = &sync.Pool{}

func newXerialBlocks() *blockWriter {
	if b, ok := xerialPool.Get().(*blockWriter); ok {
		return b
	}
	return &blockWriter{
		buf:    make([]byte, 0, xerialBlock),
		enc:    make([]byte, 4+s2.MaxEncodedLen(xerialBlock)),
		head:   []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"),
		encode: encodeSnappy,
	}
}

func encodeSnappy(b *blockWriter) []byte {
	n := len(s2.EncodeSnappy(b.enc[4:], b.buf))
	binary.BigEndian.PutUint32(b.enc, uint32(n))
	return b.enc[:4+n]
}

var lz4Pool = &sync.Pool{}

// Kafka's numbers for lz4: 1 to 17, of which 9 is the default and means the
// fast compressor.
const (
	lz4DefaultLevel = 9
	lz4HighLevels   = 9 // the library knows that many
)

func newLZ4Blocks(level int) *blockWriter {
	b, ok := lz4Pool.Get().(*blockWriter)
	if !ok {
		desc := []byte{lz4Version | lz4Independent, lz4BlockSizeID}
		b = &blockWriter{
			buf:  make([]byte, 0, lz4Block64KiB),
			enc:  make([]byte, 4+lz4.CompressBlockBound(lz4Block64KiB)),
			head: append(binary.LittleEndian.AppendUint32(nil, lz4Magic), desc[0], desc[1], byte(xxh32(desc)>>8)),
			tail: make([]byte, 4),
			fast: new(lz4.Compressor),
		}
	}
	b.encode = encodeLZ4Fast
	if level > 0 && level != lz4DefaultLevel {
		if b.high == nil {
			b.high = new(lz4.CompressorHC) // over a MiB of tables
		}
		b.high.Level = 1 << (8 + min(level, lz4HighLevels))
		b.encode = encodeLZ4High
	}
	return b
}

func encodeLZ4Fast(b *blockWriter) []byte {
	n, err := b.fast.CompressBlock(b.buf, b.enc[4:])
	return b.lz4Block(n, err)
}

func encodeLZ4High(b *blockWriter) []byte {
	n, err := b.high.CompressBlock(b.buf, b.enc[4:])
	return b.lz4Block(n, err)
}

// lz4Block finishes an encoded block, or stores it raw where encoding failed
// or gained nothing.
func (b *blockWriter) lz4Block(n int, err error) []byte {
	if err == nil && n > 0 && n < len(b.buf) {
		binary.LittleEndian.PutUint32(b.enc, uint32(n))
		return b.enc[:4+n]
	}
	n = copy(b.enc[4:], b.buf)
	binary.LittleEndian.PutUint32(b.enc, uint32(n)|lz4Raw)
	return b.enc[:4+n]
}
