package server

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/internal/model"
)

// arm sees to it that the read that follows ends in time. Setting a deadline
// costs more than a small request, so one in the future is left alone where it
// can be: when it has passed, expired looks at what was really due and the read
// goes on.
func (c *Conn) arm() error {
	now := c.now.Mono
	until := now + model.Instant(c.srv.cfg.IdleMax)
	if c.w > c.r {
		if c.frameAt == 0 {
			c.frameAt, c.frameHave = now, c.w-c.r
		}
		until = c.frameAt + model.Instant(c.srv.cfg.FrameMin)
		if c.token {
			until = min(until, now+c.tokenStall())
		}
	}
	if c.listener.Authenticate && !c.authenticated.Load() {
		until = min(until, c.startedAt+model.Instant(c.srv.cfg.PreAuthMax))
	}
	if now < c.armed && c.armed <= until {
		return nil
	}
	return c.setReadDeadline(until)
}

func (c *Conn) setReadDeadline(until model.Instant) error {
	c.armed = until
	wait := time.Duration(until - c.srv.cfg.Clock.Now().Mono)
	if err := c.nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	// A drain may have set its own deadline just before.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return errOver
	}
	return nil
}

// expired is called when the read deadline has passed. It returns nil if the
// read is to go on, with a new deadline, else why the connection ends.
func (c *Conn) expired() error {
	last := c.now.Mono
	c.now = c.srv.cfg.Clock.Now()
	now, cfg := c.now.Mono, &c.srv.cfg
	c.mu.Lock()
	open, over := c.open, c.over()
	c.mu.Unlock()
	switch {
	case over:
		return errOver
	case c.listener.Authenticate && !c.authenticated.Load() && now-c.startedAt >= model.Instant(cfg.PreAuthMax):
		return fmt.Errorf("%w: not authenticated after %v", errBadFrame, cfg.PreAuthMax)
	case c.w > c.r:
		return c.frameExpired(now)
	case open > 0:
		return nil
	case now-last >= model.Instant(cfg.IdleMax):
		return fmt.Errorf("%w: idle for %v", errOver, cfg.IdleMax)
	}
	c.now.Mono = last // nothing came: the connection has been idle since
	return c.setReadDeadline(last + model.Instant(cfg.IdleMax))
}

// tokenStall is how often a connection that holds the budget's token must show
// progress while others wait for it.
func (c *Conn) tokenStall() model.Instant { return model.Instant(c.srv.cfg.FrameMin) / 30 }

// frameExpired judges a frame of which a part has come.
func (c *Conn) frameExpired(now model.Instant) error {
	have, most := c.w-c.r, c.srv.cfg.FrameMin
	if c.token && c.srv.frames.budget.waiters.Load() > 0 {
		if have-c.tokenHave < FrameMinBytes {
			return fmt.Errorf("%w: %d bytes of a frame of %d came while others waited for memory", errBadFrame, have-c.tokenHave, c.need)
		}
		c.tokenHave = have
	}
	if now-c.frameAt < model.Instant(most) {
		return nil
	}
	if have-c.frameHave < FrameMinBytes {
		return fmt.Errorf("%w: %d bytes of a frame of %d came in %v", errBadFrame, have-c.frameHave, c.need, most)
	}
	c.frameAt, c.frameHave = now, have
	return nil
}
