package server

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/mutant"
)

const (
	frameMin   = 1 << 10  // the smallest read buffer, which a slow peer's few bytes are moved to
	frameStart = 64 << 10 // what a connection reads into unless its frames are longer
)

// frame is a read buffer and the count of who uses it: the connection that
// reads into it, and each Retain of a request in it. The last to let go gives
// it back to the pool.
type frame struct {
	buf  []byte
	refs atomic.Int32
	pool *framePool
}

func (f *frame) retain() { f.refs.Add(1) }

func (f *frame) release() {
	n := f.refs.Add(-1)
	assert.That(n >= 0, "frame of %d bytes released %d times too often", len(f.buf), -n)
	if n == 0 {
		f.pool.put(f)
	}
}

// shared reports whether anyone but the connection uses the frame. Only the
// connection asks; the answer false stays true until it hands out a request.
func (f *frame) shared() bool {
	if mutant.On("shell-frame-reused") {
		return false
	}
	return f.refs.Load() > 1
}

// poison overwrites memory that nobody may look at any more.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// framePool lends frames of about the size asked for. Sizes double up to
// frameStart, then rise in steps of at most a quarter. Their bytes count against
// the budget while they are lent.
type framePool struct {
	budget  budget
	classes [classCount]sync.Pool
}

const (
	classFine  = 6 // index of frameStart, from which steps are quarters
	classCount = classFine + 4*15 + 1
)

// sizeClass returns the index and the size of the smallest class of at least n
// bytes. The largest holds 2 GiB, more than any frame.
func sizeClass(n int) (class, size int) {
	if n <= frameMin {
		return 0, frameMin
	}
	if n <= frameStart {
		class = bits.Len(uint(n-1)) - 10
		return class, frameMin << class
	}
	// n-1 lies in [2^k, 2^(k+1)); its next two bits pick the quarter above it.
	k := bits.Len(uint(n-1)) - 1
	quarter := int(uint(n-1)>>(k-2))&3 + 1
	return classFine + 4*(k-16) + quarter, 1<<k + quarter<<(k-2)
}

// get lends a frame of at least n bytes, with one user, whatever the budget
// says. paid is true if the budget was asked for them.
func (p *framePool) get(n int, paid bool) *frame {
	class, size := sizeClass(n)
	if !paid {
		p.budget.used.Add(int64(size))
	}
	f, _ := p.classes[class].Get().(*frame)
	if f == nil {
		f = &frame{buf: make([]byte, size), pool: p}
	}
	f.refs.Store(1)
	return f
}

func (p *framePool) put(f *frame) {
	assert.Slow(func() { poison(f.buf) })
	class, size := sizeClass(len(f.buf))
	p.classes[class].Put(f)
	p.budget.give(int64(size))
}
