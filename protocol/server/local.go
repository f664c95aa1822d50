package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/protocol"
)

// LocalConn is a connection without a socket and without a goroutine, for a
// simulator: the bytes of requests are handed in, answers are handed out as
// whole frames, and everything between the two is what connections with
// sockets run. Its methods are called by one goroutine, and never from within
// deliver or wake.
type LocalConn struct {
	c      *Conn
	s      *localSocket
	ending bool // no more is read; the end waits for answers
	gone   bool
}

// Local opens a connection. deliver gets each answer, frame size included, as
// soon as its turn has come, on the stack of whoever answered; it may keep the
// bytes. wake is called when requests that were handed in but held back may now
// be handled: it must only note that Resume is to be called. It returns nil if
// the server takes no more connections.
func (s *Server) Local(l Listener, deliver func(frame []byte), wake func()) *LocalConn {
	sock := &localSocket{deliver: deliver}
	c := &Conn{
		srv: s, listener: l, nc: sock, local: "local", remote: "local", ip: "local",
		wake: make(chan struct{}, 1), sendfileMin: -1, woken: wake,
	}
	c.now = s.cfg.Clock.Now()
	c.startedAt = c.now.Mono
	if !s.register(c) {
		s.stats.refused.Add(1)
		return nil
	}
	s.stats.accepted.Add(1)
	return &LocalConn{c: c, s: sock}
}

// Submit hands in bytes of the request stream, cut anywhere.
func (l *LocalConn) Submit(stream []byte) {
	l.s.take(stream)
	l.Resume()
}

// Resume handles what was handed in, as far as that may be done now.
func (l *LocalConn) Resume() {
	if l.gone {
		return
	}
	err := l.run()
	if errors.Is(err, errBadFrame) {
		l.c.srv.complain(l.c, err)
	}
	if err != nil {
		l.ending = true
	}
	l.settleEnd()
}

// run handles whole frames until there are none, or until the next would have
// to wait.
func (l *LocalConn) run() error {
	c := l.c
	for !l.ending {
		if err := l.handleBuffered(); err != nil {
			return err
		}
		c.settle()
		c.mu.Lock()
		over := c.over()
		c.mu.Unlock()
		switch {
		case over:
			return errOver
		case len(l.s.in) == 0:
			return nil
		}
		had := len(l.s.in)
		if err := c.makeRoom(); err != nil {
			return err
		}
		if c.in != nil && c.w == len(c.in.buf) {
			return nil // full of frames that must wait
		}
		if err := c.read(); err != nil {
			return err
		}
		if len(l.s.in) == had {
			return nil
		}
		c.now = c.srv.cfg.Clock.Now()
	}
	return nil
}

// handleBuffered is Conn's, but stops where Conn's would wait.
func (l *LocalConn) handleBuffered() error {
	c := l.c
	for {
		c.mu.Lock()
		may, over := c.mayHandle(), c.over()
		c.busy = may
		c.mu.Unlock()
		if over {
			return errOver
		}
		if !may || c.in == nil {
			return nil
		}
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

// settleEnd closes an ending connection once all that was asked is answered.
func (l *LocalConn) settleEnd() {
	if !l.ending {
		return
	}
	c := l.c
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.settle()
	c.mu.Lock()
	done := c.dead || c.open == 0 && !c.writing && c.out == nil
	c.mu.Unlock()
	if done {
		l.Close()
	}
}

// Drain takes no more requests; the connection closes itself when those that
// it has are answered.
func (l *LocalConn) Drain() {
	l.ending = true
	if !l.gone {
		l.settleEnd()
	}
}

// Close ends the connection as the peer's going away does: answers that were
// not delivered are dropped.
func (l *LocalConn) Close() {
	if l.gone {
		return
	}
	l.gone, l.ending = true, true
	c := l.c
	c.shut()
	c.returnToken()
	if c.in != nil {
		c.in.release()
		c.in = nil
	}
	c.srv.cfg.Logger.Debug("local connection closed", zap.String("remote", c.remote))
	c.srv.remove(c)
}

// Unanswered returns how many requests were handed to the handler and are not
// answered.
func (l *LocalConn) Unanswered() int {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.open
}

// Closed reports whether either side has closed the connection.
func (l *LocalConn) Closed() bool { return l.gone || l.c.Closed() }

// localSocket is what a LocalConn's Conn takes for its socket.
type localSocket struct {
	in      []byte // handed in, not yet read
	room    []byte // what in lies in
	out     []byte // the beginning of an answer that is being written
	deliver func(frame []byte)
	closed  bool
}

// take keeps a copy of bytes that were handed in.
func (s *localSocket) take(stream []byte) {
	if len(s.in) == 0 {
		s.room = append(s.room[:0], stream...)
		s.in = s.room
		return
	}
	s.in = append(s.in, stream...)
}

// Read returns what was handed in; nothing is no error.
func (s *localSocket) Read(p []byte) (int, error) {
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

// Write takes bytes of answers and delivers each that is whole.
func (s *localSocket) Write(p []byte) (int, error) {
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	took := len(p)
	for len(p) > 0 {
		n := min(s.missing(), len(p))
		s.out, p = append(s.out, p[:n]...), p[n:]
		n = s.missing()
		if n > 0 {
			s.out = slices.Grow(s.out, n)
			continue
		}
		frame := s.out
		s.out = nil
		s.deliver(frame)
	}
	return took, nil
}

// missing is how many bytes the answer that is being written, or its size, needs
// still.
func (s *localSocket) missing() int {
	if len(s.out) < protocol.FrameSizeLen {
		return protocol.FrameSizeLen - len(s.out)
	}
	return protocol.FrameSizeLen + int(binary.BigEndian.Uint32(s.out)) - len(s.out)
}

// Close implements net.Conn.
func (s *localSocket) Close() error {
	s.closed = true
	return nil
}

// LocalAddr implements net.Conn.
func (s *localSocket) LocalAddr() net.Addr { return localAddr{} }

// RemoteAddr implements net.Conn.
func (s *localSocket) RemoteAddr() net.Addr { return localAddr{} }

// SetDeadline implements net.Conn; a local connection never waits.
func (s *localSocket) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (s *localSocket) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (s *localSocket) SetWriteDeadline(time.Time) error { return nil }

// localAddr is the address of both ends.
type localAddr struct{}

// Network implements net.Addr.
func (localAddr) Network() string { return "local" }

// String implements net.Addr.
func (localAddr) String() string { return "local" }
