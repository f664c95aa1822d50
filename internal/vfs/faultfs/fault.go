package faultfs

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Fault is what happens to one operation: it may be held up, and then fail,
// fail half-way, or lie. The same Fault may happen many times.
type Fault struct {
	text string

	// hook is called before the operation and may block.
	hook func(op Op)

	// err is returned instead of the operation's result, or nil.
	err error

	// keep says how many bytes of a write are done before err; nil is none.
	keep func(n int) int

	// drops says that a sync which fails also forgets what was not yet durable,
	// if the file system below can. The File is poisoned in any case.
	drops bool

	// flip changes bytes that were read; nil leaves them.
	flip func(op Op, p []byte)
}

// String renders the fault.
func (f *Fault) String() string { return f.text }

// EIO fails the operation, which is not done at all. A sync that fails so leaves
// the written bytes to readers of other Files.
func EIO() *Fault { return &Fault{text: "eio", err: syscall.EIO} }

// Fail fails the operation with any error, which is not done at all.
func Fail(err error) *Fault {
	return &Fault{text: fmt.Sprintf("(fail %q)", err.Error()), err: err}
}

// ENOSPC fails the operation as a full disk does. A write stores keep bytes
// first, or all but the last if it has no more.
func ENOSPC(keep int) *Fault {
	return &Fault{text: fmt.Sprintf("(enospc %d)", keep), err: syscall.ENOSPC, keep: atMost(keep)}
}

// ShortWrite stores keep bytes of a write, or all but the last if it has no
// more, and fails it with EIO.
func ShortWrite(keep int) *Fault {
	return &Fault{text: fmt.Sprintf("(short-write %d)", keep), err: syscall.EIO, keep: atMost(keep)}
}

// ShortWriteAnywhere is ShortWrite with a length drawn from r each time.
func ShortWriteAnywhere(r *rand.Rand) *Fault {
	var mu sync.Mutex
	return &Fault{text: "(short-write random)", err: syscall.EIO, keep: func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(max(1, n))
	}}
}

func atMost(keep int) func(n int) int {
	return func(n int) int { return max(0, min(keep, n-1)) }
}

// FsyncFails fails a Sync or SyncData with EIO, poisons the File and, over a
// file system that can do it, forgets what was written since the last sync:
// the kernel dropped its dirty pages. On SyncDir it is plain EIO.
func FsyncFails() *Fault {
	return &Fault{text: "fsync-fails", err: syscall.EIO, drops: true}
}

// Latency tells hook how long the operation takes before it is done. What that
// means is the hook's business: a sleep, or a note for a virtual clock.
func Latency(d time.Duration, hook func(op Op, d time.Duration)) *Fault {
	return &Fault{text: fmt.Sprintf("(latency %s)", d), hook: func(op Op) { hook(op, d) }}
}

// Stall calls hook before the operation; the operation goes on when it returns.
func Stall(hook func(op Op)) *Fault { return &Fault{text: "stall", hook: hook} }

// BitFlip flips one bit, drawn from r, of what a read returns. The file itself
// is left as it is.
func BitFlip(r *rand.Rand) *Fault {
	var mu sync.Mutex
	return &Fault{text: "bit-flip", flip: func(_ Op, p []byte) {
		if len(p) == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	}}
}

// BitFlipAt flips the bits of mask in the byte at a position of the file,
// whenever a read returns it.
func BitFlipAt(off int64, mask byte) *Fault {
	return &Fault{text: fmt.Sprintf("(bit-flip-at %d %#02x)", off, mask), flip: func(op Op, p []byte) {
		if i := off - op.Offset; i >= 0 && i < int64(len(p)) {
			p[i] ^= mask
		}
	}}
}
