package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// Server serves any number of listeners with one handler and one set of limits.
type Server struct {
	cfg     Config
	handler Handler
	frames  framePool
	stats   struct{ accepted, refused, bad, panics atomic.Int64 }
	apis    allAPIs
	errors  errorCounts

	mu        sync.Mutex
	conns     map[*Conn]struct{}
	perIP     map[string]int // connections of each address, private listeners not counted
	counted   int            // the sum of perIP
	listeners []net.Listener
	stop      chan struct{} // closed when Shutdown begins
	stopping  bool
	empty     chan struct{} // closed when the last connection is gone; nil until Shutdown
	room      chan struct{} // has room for one: a connection ended

	complaints complaints
}

// New returns a server that serves nothing yet.
func New(cfg Config, handler Handler) *Server {
	s := &Server{
		cfg:     cfg.withDefaults(),
		handler: handler,
		conns:   make(map[*Conn]struct{}),
		perIP:   make(map[string]int),
		stop:    make(chan struct{}),
		room:    make(chan struct{}, 1),
	}
	s.frames.budget.limit = s.cfg.FrameBytesMax
	return s
}

// Stats is a reading of a server's counters.
type Stats struct {
	Connections int   // open now
	Accepted    int64 // since the start
	Refused     int64 // closed at once, being too many from one address
	BadFrames   int64 // connections closed for what they sent
	Panics      int64 // connections closed because a handler panicked
	FrameBytes  int64 // memory of frames that are read or retained now
}

// Stats reads the counters; any goroutine.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{
		Connections: n,
		Accepted:    s.stats.accepted.Load(),
		Refused:     s.stats.refused.Load(),
		BadFrames:   s.stats.bad.Load(),
		Panics:      s.stats.panics.Load(),
		FrameBytes:  s.frames.budget.used.Load(),
	}
}

// Serve accepts connections from nl until Shutdown, which closes nl. It returns
// at once.
func (s *Server) Serve(nl net.Listener, l Listener) {
	s.mu.Lock()
	stopping := s.stopping
	if !stopping {
		s.listeners = append(s.listeners, nl)
	}
	s.mu.Unlock()
	if stopping {
		_ = nl.Close() // nothing can be done about a listener that won't close
		return
	}
	s.cfg.Group.Go("acceptor "+l.Name, func() { s.accept(nl, l) })
}

// acceptPause is how long accepting rests after an error that is not the
// listener's end, such as too many open files.
const acceptPause = 50 * time.Millisecond

func (s *Server) accept(nl net.Listener, l Listener) {
	for {
		if !l.Private && !s.waitRoom() {
			return
		}
		nc, err := nl.Accept()
		if err == nil {
			s.Open(nc, l)
			continue
		}
		select {
		case <-s.stop:
			return
		default:
		}
		if write, silent := s.complaints.due("listener "+l.Name, s.cfg.Clock.Now().Mono); write {
			s.cfg.Logger.Warn("accept failed", zap.String("listener", l.Name), zap.Int("alike", silent), zap.Error(err))
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if !s.pause(acceptPause) {
			return
		}
	}
}

// pause waits; it returns false if the server stops meanwhile.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// waitRoom waits until the node may take another connection; false if the server
// stops.
func (s *Server) waitRoom() bool {
	for {
		s.mu.Lock()
		ok := s.cfg.ConnectionsMax <= 0 || s.counted < s.cfg.ConnectionsMax
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-s.room:
		case <-s.stop:
			return false
		}
	}
}

// Open serves one connection that was accepted, or made, elsewhere. It returns
// at once; the server owns nc from then on.
func (s *Server) Open(nc net.Conn, l Listener) {
	c := &Conn{
		srv:         s,
		listener:    l,
		nc:          nc,
		local:       nc.LocalAddr().String(),
		remote:      nc.RemoteAddr().String(),
		wake:        make(chan struct{}, 1),
		sendfileMin: s.cfg.SendfileMin,
	}
	c.ip = hostOf(c.remote)
	c.now = s.cfg.Clock.Now()
	c.startedAt = c.now.Mono
	if !s.register(c) {
		s.stats.refused.Add(1)
		_ = nc.Close() // refused; whether it closes well is the peer's loss
		return
	}
	s.stats.accepted.Add(1)
	if sc, ok := nc.(syscall.Conn); ok && haveSocket {
		c.useSocket(sc)
	}
	s.cfg.Group.Go("connection", c.serve)
}

// useSocket has c read and write the socket itself instead of through nc.
func (c *Conn) useSocket(sc syscall.Conn) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	c.raw, c.fn, c.readFn = raw, c.writeFd, c.readFd
}

// register counts c; false if it is one too many of its address or the server
// stops.
func (s *Server) register(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	if !c.listener.Private {
		most, ok := s.cfg.ConnectionsPerIP[c.ip]
		if !ok {
			most = s.cfg.ConnectionsPerIPMax
		}
		if (ok || most > 0) && s.perIP[c.ip] >= most {
			return false
		}
		s.perIP[c.ip]++
		s.counted++
	}
	s.conns[c] = struct{}{}
	return true
}

// remove forgets a connection whose goroutine ends.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if !c.listener.Private {
		s.counted--
		if s.perIP[c.ip]--; s.perIP[c.ip] == 0 {
			delete(s.perIP, c.ip)
		}
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
	if s.empty != nil && len(s.conns) == 0 {
		close(s.empty)
		s.empty = nil
	}
}

// Shutdown stops accepting, lets each connection finish the requests that were
// handed to the handler, writes their answers and closes it. When ctx ends first
// it closes what is left and returns the context's error. The handler must go on
// answering until Shutdown returns. It is called once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	close(s.stop)
	listeners := s.listeners
	empty := make(chan struct{})
	if len(s.conns) == 0 {
		close(empty)
	} else {
		s.empty = empty
	}
	conns := s.open()
	s.mu.Unlock()
	var errs []error
	for _, nl := range listeners {
		if err := nl.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, c := range conns {
		c.drain()
	}
	select {
	case <-empty:
	case <-ctx.Done():
		for _, c := range conns {
			c.shut()
		}
		<-empty
		errs = append(errs, ctx.Err())
	}
	return errors.Join(errs...)
}

// open returns the connections. The lock is held.
func (s *Server) open() []*Conn {
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// hostOf returns the address without the port.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
