package transport

import (
	"testing"

	"github.com/tidemark/tidemark/internal/assert"
)

func TestSizeClasses(t *testing.T) {
	last := 0
	for _, n := range []int{0, 1, 1023, 1024, 1025, 1280, 1281, 4096, 5000, 1 << 20, 1<<20 + 1, 10 << 20, FrameMax - 1, FrameMax} {
		class, size := sizeClass(n)
		if size < n || class >= classCount || class < last {
			t.Errorf("%d bytes: class %d of %d bytes", n, class, size)
		}
		if n > classMin && size > n+n/4+1 {
			t.Errorf("%d bytes take %d", n, size)
		}
		if again, same := sizeClass(size); again != class || same != size {
			t.Errorf("class %d of %d bytes is class %d of %d", class, size, again, same)
		}
		last = class
	}
}

func TestBufferCountsItsUsers(t *testing.T) {
	b := NewBuffer(5000)
	if len(b.Bytes()) != 5000 {
		t.Fatalf("%d bytes", len(b.Bytes()))
	}
	copy(b.Bytes(), "kept")
	b.Retain()
	b.Release()
	if string(b.Bytes()[:4]) != "kept" {
		t.Error("a buffer in use was taken away")
	}
	view := b.Bytes()
	b.Release()
	if assert.SlowEnabled && view[0] != 0xDB {
		t.Error("a released buffer is not poisoned")
	}
	defer func() {
		if assert.Caught(recover()) == nil {
			t.Error("a release too many is not noticed")
		}
	}()
	other := BufferOf([]byte("x"))
	other.Release()
	other.Release()
}

func TestLargeBuffersAreNotPooled(t *testing.T) {
	b := NewBuffer(FrameMax + 1)
	if b.pooled || len(b.Bytes()) != FrameMax+1 {
		t.Error("pooled")
	}
	b.Release()
}
