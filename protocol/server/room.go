package server

import (
	"github.com/tidemark/tidemark/internal/assert"
)

// beforeRead gets a buffer if there is none, or only a small one in which little
// waited for more.
func (c *Conn) beforeRead() {
	switch {
	case c.in == nil:
		c.in, c.r, c.w = c.newFrame(), 0, 0
	case len(c.in.buf) < frameStart:
		c.move(c.srv.frames.get(frameStart, false))
	}
}

// newFrame returns a buffer for what begins to arrive: a long one if long frames
// are usual on this connection and the budget has bytes to spare.
func (c *Conn) newFrame() *frame {
	if c.want > 0 {
		_, size := sizeClass(c.want)
		b := &c.srv.frames.budget
		if b.waiters.Load() == 0 && b.pay(int64(size), c.frameBytesMax()) {
			return c.srv.frames.get(c.want, true)
		}
	}
	return c.srv.frames.get(frameStart, false)
}

// beforeWait gives up memory before the reader waits for bytes: all of it if
// nothing has come, and most if little has.
func (c *Conn) beforeWait() {
	have := c.w - c.r
	switch {
	case have == 0:
		c.dropFrame()
	case c.in.shared() || len(c.in.buf) > 8*max(have, frameMin):
		c.move(c.srv.frames.get(have+1, false))
	}
}

// dropFrame ends the connection's use of its buffer, in which nothing is left.
func (c *Conn) dropFrame() {
	c.in.release()
	c.in, c.r, c.w = nil, 0, 0
}

// move copies what is not handled yet to another buffer and uses that.
func (c *Conn) move(to *frame) {
	n := copy(to.buf, c.in.buf[c.r:c.w])
	assert.That(n == c.w-c.r, "moved %d of %d bytes", n, c.w-c.r)
	c.in.release()
	c.in, c.r, c.w = to, 0, n
}

// makeRoom sees to it that there is room to read into, and in the end for the
// whole of the frame that has begun. Memory grows with what has come: a buffer
// is replaced by one twice as long when it is full, or by one as long as the
// frames that this connection has sent before.
func (c *Conn) makeRoom() error {
	if c.in == nil {
		return nil
	}
	have := c.w - c.r
	if have == 0 {
		if c.in.shared() || len(c.in.buf) > frameStart && c.want == 0 {
			c.dropFrame()
			return nil
		}
		assert.Slow(func() { poison(c.in.buf[:c.w]) })
		c.r, c.w = 0, 0
		return nil
	}
	need := max(c.need, have+1)
	if c.r+need <= len(c.in.buf) {
		return nil
	}
	if !c.in.shared() {
		if c.r > 0 {
			copy(c.in.buf, c.in.buf[c.r:c.w])
			c.r, c.w = 0, have
		}
		if c.w < len(c.in.buf) {
			return nil
		}
	}
	least := frameStart
	if c.raw == nil {
		least = pipeStart
	}
	f, err := c.acquire(max(least, min(need, max(frameStart, 2*have, c.want))))
	if err != nil {
		return err
	}
	c.move(f)
	return nil
}

// acquire returns a buffer of at least n bytes, for which a long one waits until
// the budget allows it.
func (c *Conn) acquire(n int) (*frame, error) {
	pool := &c.srv.frames
	_, size := sizeClass(n)
	if size <= frameStart || c.token {
		return pool.get(n, false), nil
	}
	wait, token := pool.budget.ask(int64(size), c.frameBytesMax())
	waited := wait != nil
	for granted := wait == nil; !granted; {
		select {
		case token = <-wait.granted:
			granted = true
		case <-c.wake:
			c.mu.Lock()
			over := c.over()
			c.mu.Unlock()
			if over {
				pool.budget.leave(wait)
				return nil, errOver
			}
		}
	}
	if waited {
		// The time that we waited is not the peer's.
		c.now, c.frameAt = c.srv.cfg.Clock.Now(), 0
	}
	c.token, c.tokenHave = token, c.w-c.r
	return pool.get(n, true), nil
}

func (c *Conn) frameBytesMax() int64 {
	most := c.srv.frames.budget.limit
	if c.listener.Private {
		most += most / 2
	}
	return most
}

func (c *Conn) returnToken() {
	if c.token {
		c.token = false
		c.srv.frames.budget.returnToken()
	}
}
