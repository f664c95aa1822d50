package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// reader is the part of a connection that its goroutine alone touches.
type reader struct {
	readFn  func(fd uintptr) bool // made once, so that a read allocates nothing
	readErr error                 // what readFn met

	in   *frame // what is read into; nil while nothing has come
	r, w int    // in.buf[r:w] is read but not handled
	need int    // bytes from r that the frame at r takes as a whole, if known, else 0

	now       model.Now // of the last burst
	clientID  string    // of the last request
	want      int       // the longest frame met lately, if longer than frameStart
	calm      int       // frames since then that were not
	full      bool      // the last read filled the buffer
	flushDue  bool      // enough answers have gathered to be written now
	token     bool      // the budget's token is ours
	tokenHave int       // how much of the frame there was when that was last looked at

	armed     model.Instant // when the read deadline ends a read
	frameAt   model.Instant // when the progress of the frame at r was last looked at; 0: never
	frameHave int           // how much of it there was then
}

// errOver ends a connection that handles no more requests: it is closed, about
// to be, or drained.
var errOver = errors.New("server: connection is over")

// errBadFrame is met in what a peer that speaks the protocol would not send.
var errBadFrame = errors.New("server: bad frame")

// serve is the connection's goroutine.
func (c *Conn) serve() {
	err := c.guardedLoop()
	if errors.Is(err, errBadFrame) {
		c.srv.complain(c, err)
	}
	if errors.Is(err, errBadFrame) || errors.Is(err, errOver) {
		c.finish()
	} else if !errors.Is(err, io.EOF) {
		c.srv.cfg.Logger.Debug("connection closed", zap.String("remote", c.remote), zap.Error(err))
	}
	c.shut()
	c.returnToken()
	if c.in != nil {
		c.in.release()
		c.in = nil
	}
	c.srv.remove(c)
}

// errPanic ends a connection on whose goroutine something panicked.
var errPanic = errors.New("server: panic")

// guardedLoop keeps a panic in a handler, which some request may provoke again,
// to the connection it came on. Builds that check invariants let it through.
func (c *Conn) guardedLoop() (err error) {
	if !assert.SlowEnabled {
		defer func() {
			if p := recover(); p != nil {
				c.srv.stats.panics.Add(1)
				c.srv.cfg.Logger.Error("panic on a connection", zap.String("remote", c.remote),
					zap.Any("panic", p), zap.Stack("stack"))
				err = errPanic
			}
		}()
	}
	return c.loop()
}

func (c *Conn) loop() error {
	for {
		if err := c.handleBuffered(); err != nil {
			return err
		}
		c.settle()
		if err := c.fill(); err != nil {
			return err
		}
		c.now = c.srv.cfg.Clock.Now()
		c.mu.Lock()
		c.busy = true
		c.mu.Unlock()
	}
}

// settle is called before every wait: from here on who answers also writes. What
// was answered until now is written.
func (c *Conn) settle() {
	c.mu.Lock()
	c.busy = false
	quiet := c.quiet
	c.quiet.n = 0
	write := !c.writing && !c.dead && (c.out != nil || c.closing)
	if write {
		c.writing = true
	}
	c.mu.Unlock()
	c.observeQuiet(&quiet)
	if write {
		c.writeOut()
	}
}

// finish waits until all that was asked is answered and written.
func (c *Conn) finish() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	for {
		c.settle()
		c.mu.Lock()
		dead, done := c.dead, c.open == 0 && !c.writing && c.out == nil
		linger := c.polite
		c.mu.Unlock()
		switch {
		case dead:
			return
		case done:
			if linger {
				c.linger()
			}
			return
		}
		<-c.wake
	}
}

// lingerMax is how long a connection that we end waits for the peer to read the
// last answers and end it too.
const lingerMax = 200 * time.Millisecond

// linger lets the peer read what was written. Closing a socket with unread
// requests in it would reset the connection and could take the last answers
// away from the peer.
func (c *Conn) linger() {
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok || tcp.CloseWrite() != nil || tcp.SetReadDeadline(time.Now().Add(lingerMax)) != nil {
		return
	}
	var sink [512]byte
	for {
		if _, err := tcp.Read(sink[:]); err != nil {
			return
		}
	}
}

// handleBuffered handles the whole frames that were read.
func (c *Conn) handleBuffered() error {
	for {
		p, err := c.nextFrame()
		if p == nil || err != nil {
			return err
		}
		if err := c.handle(p); err != nil {
			return err
		}
		c.passed(protocol.FrameSizeLen + len(p))
		if c.flushDue {
			c.flushDue = false
			c.flush()
		}
	}
}

// passed moves on behind a handled frame of n bytes.
func (c *Conn) passed(n int) {
	c.r += n
	c.need, c.frameAt = 0, 0
	c.returnToken()
	switch {
	case n > frameStart:
		c.want, c.calm = max(c.want, n), 0
	case c.want > 0:
		if c.calm++; c.calm >= calmFrames {
			c.want = 0
		}
	}
}

// calmFrames is after how many short frames a connection that had sent a long
// one is taken to send short ones.
const calmFrames = 32

// nextFrame returns the next whole frame without its size, or nil if its bytes
// have not all come. Then need tells how many it takes, as far as that is known.
func (c *Conn) nextFrame() ([]byte, error) {
	have := c.w - c.r
	if have < protocol.FrameSizeLen {
		return nil, nil
	}
	b := c.in.buf[c.r:c.w]
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < protocol.MinRequestLen || size > c.srv.cfg.ProduceFrameMax {
		return nil, fmt.Errorf("%w: size %d%s", errBadFrame, size, looksLike(b))
	}
	if key, ok := protocol.PeekKey(b[protocol.FrameSizeLen:]); ok {
		if most := c.frameMax(key); size > most {
			return nil, fmt.Errorf("%w: size %d of API %d, at most %d", errBadFrame, size, key, most)
		}
	}
	c.need = protocol.FrameSizeLen + size
	if have < c.need {
		return nil, nil
	}
	return b[protocol.FrameSizeLen:c.need:c.need], nil
}

// frameMax returns the longest frame that a request of this API may have now.
func (c *Conn) frameMax(key int16) int {
	switch {
	case c.listener.Authenticate && !c.authenticated.Load():
		return c.srv.cfg.PreAuthFrameMax
	case key == protocol.KeyProduce:
		return c.srv.cfg.ProduceFrameMax
	}
	return c.srv.cfg.FrameMax
}

// looksLike names other protocols whose first bytes can't be a frame.
func looksLike(b []byte) string {
	switch {
	case b[0] == 0x16 && b[1] == 0x03:
		return ", looks like TLS"
	case string(b[:4]) == "GET ", string(b[:4]) == "POST", string(b[:4]) == "HEAD", string(b[:4]) == "PUT ":
		return ", looks like HTTP"
	}
	return ""
}

// handle decodes one frame and hands the request on, once its turn has come.
func (c *Conn) handle(p []byte) error {
	h, body, err := protocol.ParseRequestHeader(p, c.clientID)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	c.clientID = h.ClientID
	r := c.newRequest(h, body)
	r.size = protocol.FrameSizeLen + len(p)
	if err := c.decode(r); err != nil {
		r.drop()
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	for !c.admit(r) {
		if err := c.waitTurn(); err != nil {
			r.drop()
			return err
		}
	}
	if r.Msg == nil && h.Key == protocol.KeyApiVersions {
		r.Header.Version = 0
		r.Reply(protocol.NewApiVersionsRefusal())
	} else {
		c.srv.handler.Handle(r)
	}
	r.unref()
	return nil
}

// decode fills r.Msg. It stays nil for a private API, and for an ApiVersions
// request of a version that we don't know, whose body can't be read.
func (c *Conn) decode(r *Request) (err error) {
	h := &r.Header
	api, known := protocol.Lookup(h.Key)
	scope := protocol.OnBroker
	if c.listener.Controller {
		scope = protocol.OnController
	}
	switch {
	case h.Key >= protocol.FirstPrivateKey && c.listener.Controller:
		return nil
	case h.Key == protocol.KeyApiVersions && !api.Served(h.Version):
		return nil
	case known && !api.On(scope):
		return fmt.Errorf("%s on listener %s: %w", api.Name, c.listener.Name, protocol.ErrUnsupported)
	}
	r.Msg, err = protocol.DecodeRequest(*h, r.Body)
	return err
}

// waitTurn waits until another request may be handled.
func (c *Conn) waitTurn() error {
	for {
		c.settle()
		c.mu.Lock()
		may, over := c.mayHandle(), c.over()
		c.busy = may
		c.mu.Unlock()
		switch {
		case over:
			return errOver
		case may:
			return nil
		}
		<-c.wake
	}
}

// fill makes room and reads once.
func (c *Conn) fill() error {
	if err := c.makeRoom(); err != nil {
		return err
	}
	for {
		if err := c.arm(); err != nil {
			return err
		}
		err := c.read()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		if err := c.expired(); err != nil {
			return err
		}
	}
}

func (c *Conn) read() error {
	if c.raw != nil {
		c.readErr = nil
		if err := c.raw.Read(c.readFn); err != nil {
			return err
		}
		return c.readErr
	}
	if c.in == nil {
		// The memory is held while nothing comes, so it is little at first.
		n := pipeStart
		if c.full {
			n = frameStart
		}
		c.in, c.r, c.w = c.srv.frames.get(n, false), 0, 0
	}
	n, err := c.nc.Read(c.in.buf[c.w:])
	c.w += n
	c.full = c.w == len(c.in.buf)
	if n > 0 {
		return nil
	}
	return err
}

const pipeStart = 4 << 10
