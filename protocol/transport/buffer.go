package transport

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/assert"
)

// Buffer is a piece of memory with a count of its users. The last to release it
// gives it back.
type Buffer struct {
	bytes  []byte // of the pooled array, as many as were asked for
	refs   atomic.Int32
	pooled bool
}

// pools hold unused buffers by size class.
var pools [classCount]sync.Pool

const (
	classMin   = 1 << 10
	classCount = 4*17 + 1 // up to FrameMax, in quarters of powers of two
)

// sizeClass returns the index and size of the smallest class of at least n
// bytes. Sizes rise in steps of at most a quarter.
func sizeClass(n int) (class, size int) {
	if n <= classMin {
		return 0, classMin
	}
	// n-1 lies in [2^k, 2^(k+1)); its next two bits pick the quarter above it.
	k := bits.Len(uint(n-1)) - 1
	quarter := int(uint(n-1)>>(k-2))&3 + 1
	return 4*(k-10) + quarter, 1<<k + quarter<<(k-2)
}

// NewBuffer lends a buffer of n bytes with one user. What is in it is undefined.
func NewBuffer(n int) *Buffer {
	if n > FrameMax {
		b := &Buffer{bytes: make([]byte, n)}
		b.refs.Store(1)
		return b
	}
	class, size := sizeClass(n)
	b, _ := pools[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{bytes: make([]byte, size), pooled: true}
	}
	b.bytes = b.bytes[:n]
	b.refs.Store(1)
	return b
}

// BufferOf makes a buffer with one user of bytes that nobody else uses.
func BufferOf(bytes []byte) *Buffer {
	b := &Buffer{bytes: bytes}
	b.refs.Store(1)
	return b
}

// Bytes returns the memory. It is valid until the caller's reference is released.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Retain adds a user.
func (b *Buffer) Retain() {
	n := b.refs.Add(1)
	assert.That(n > 1, "buffer of %d bytes is retained after its release", len(b.bytes))
}

// Release ends the use of one user.
func (b *Buffer) Release() {
	n := b.refs.Add(-1)
	assert.That(n >= 0, "buffer of %d bytes released %d times too often", len(b.bytes), -n)
	if n > 0 {
		return
	}
	whole := b.bytes[:cap(b.bytes)]
	assert.Slow(func() { poison(whole) })
	if b.pooled {
		class, _ := sizeClass(cap(b.bytes))
		pools[class].Put(b)
	}
}

// poison overwrites memory that nobody may look at any more.
func poison(bytes []byte) {
	for i := range bytes {
		bytes[i] = 0xDB
	}
}
