package server

import (
	"slices"
	"sync"
	"sync/atomic"
)

// budget bounds the bytes of all frames that are lent. Frames up to frameStart
// never wait for it, so that heartbeats and metadata pass when producers fill
// it; longer ones do.
//
// Frames that grow while they hold memory could wait for each other for ever,
// so one connection at a time, the holder of the token, may go beyond the limit.
// It keeps the token until its frame was handled, or is closed if it is slow.
type budget struct {
	limit int64
	used  atomic.Int64

	waiters atomic.Int32 // len(queue), to be looked at without the lock
	mu      sync.Mutex
	queue   []*budgetWait
	token   bool // someone has it
}

// budgetWait is a connection waiting for bytes. Its channel has room for the
// one value it is sent.
type budgetWait struct {
	bytes   int64
	limit   int64     // the connection's own: private listeners have a reserve
	granted chan bool // true: with the token
}

// pay takes n bytes if they stay within the limit.
func (b *budget) pay(n, limit int64) bool {
	for {
		used := b.used.Load()
		if used+n > limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// ask takes n bytes and returns nil, or returns what to wait on; the bytes are
// then taken when the wait is granted. token says that the bytes go beyond the
// limit and that the caller was given the token for it.
func (b *budget) ask(n, limit int64) (wait *budgetWait, token bool) {
	if b.waiters.Load() == 0 && b.pay(n, limit) {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.queue) == 0 && b.pay(n, limit):
		return nil, false
	case !b.token:
		b.token = true
		b.used.Add(n)
		return nil, true
	}
	wait = &budgetWait{bytes: n, limit: limit, granted: make(chan bool, 1)}
	b.queue = append(b.queue, wait)
	b.waiters.Store(int32(len(b.queue)))
	// Bytes given back between the look above and the store weren't seen by
	// anyone who waits.
	b.grant()
	return wait, false
}

// give returns n bytes.
func (b *budget) give(n int64) {
	b.used.Add(-n)
	if b.waiters.Load() > 0 {
		b.mu.Lock()
		b.grant()
		b.mu.Unlock()
	}
}

// returnToken ends the holder's licence to exceed the limit.
func (b *budget) returnToken() {
	b.mu.Lock()
	b.token = false
	b.grant()
	b.mu.Unlock()
}

// leave withdraws a wait, and what was granted to it meanwhile.
func (b *budget) leave(w *budgetWait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, w); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
		b.waiters.Store(int32(len(b.queue)))
		return
	}
	b.used.Add(-w.bytes)
	if <-w.granted {
		b.token = false
	}
	b.grant()
}

// grant lets waiters through in order, as far as the bytes go, and gives the
// token to the first that remains if it is free.
func (b *budget) grant() {
	for len(b.queue) > 0 {
		w := b.queue[0]
		token := false
		switch {
		case b.pay(w.bytes, w.limit):
		case !b.token:
			b.token, token = true, true
			b.used.Add(w.bytes)
		default:
			return
		}
		b.queue = slices.Delete(b.queue, 0, 1)
		b.waiters.Store(int32(len(b.queue)))
		w.granted <- token
	}
}
