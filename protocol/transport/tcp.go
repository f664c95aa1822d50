package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/protocol"
)

const (
	// keepAliveIdle and keepAliveEvery are when a silent connection's peer is
	// asked whether it is still there, and how often it is asked again: one that
	// vanished without a word is noticed after 20 s even if nothing is in flight.
	keepAliveIdle  = 10 * time.Second
	keepAliveEvery = 5 * time.Second
	keepAliveCount = 2

	// unwrittenMax bounds what waits to be written on one stream. Requests are
	// small but for Raft's entries, of which 16 MiB are in flight.
	unwrittenMax = 64 << 20

	// readAhead is how much of a stream is read at once. The body of a longer
	// answer is read straight into its buffer.
	readAhead = 16 << 10
)

// SocketOptions are what streams ask of the kernel.
type SocketOptions struct {
	// SendBuffer and ReceiveBuffer are the bytes the kernel may hold for one
	// connection and direction (replica.socket.receive.buffer.bytes); zero or
	// less leaves it to the kernel.
	SendBuffer, ReceiveBuffer int
}

// dial connects; in tests it is a pipe.
type dial func(ctx context.Context, hostPort string) (net.Conn, error)

// tcp is the Dialer of a real node.
type tcp struct {
	group *lifecycle.Group
	ctx   context.Context
	dial  dial
}

// TCP returns a Dialer whose goroutines run in group. Streams end when ctx does,
// as if the other side had closed them.
func TCP(ctx context.Context, group *lifecycle.Group, o SocketOptions) Dialer {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount},
		Control: func(_, _ string, rc syscall.RawConn) error {
			var err error
			if cerr := rc.Control(func(fd uintptr) { err = o.set(fd) }); cerr != nil {
				return cerr
			}
			return err
		},
	}
	return newTCP(ctx, group, func(ctx context.Context, hostPort string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", hostPort) // Go sets TCP_NODELAY
	})
}

func newTCP(ctx context.Context, group *lifecycle.Group, dial dial) *tcp {
	return &tcp{group: group, ctx: ctx, dial: dial}
}

func (o SocketOptions) set(fd uintptr) error {
	for _, b := range []struct {
		name      string
		option, n int
	}{
		{"send", syscall.SO_SNDBUF, o.SendBuffer},
		{"receive", syscall.SO_RCVBUF, o.ReceiveBuffer},
	} {
		if b.n <= 0 {
			continue
		}
		if err := setBuffer(fd, b.option, b.n); err != nil {
			return fmt.Errorf("%s buffer of %d bytes: %w", b.name, b.n, err)
		}
	}
	return nil
}

// Open implements Dialer.
func (t *tcp) Open(to Address, class Class, events StreamEvents) Stream {
	ctx, cancel := context.WithCancel(t.ctx)
	s := &tcpStream{events: events, cancel: cancel, wake: make(chan struct{}, 1)}
	hostPort := to.HostPort()
	t.group.Go("stream "+string(class), func() { s.run(ctx, t, hostPort) })
	return s
}

// tcpStream is one connection. Its reader tells the events.
type tcpStream struct {
	events StreamEvents
	cancel context.CancelFunc // ends the reader and the writer
	wake   chan struct{}      // something changed for the writer

	mu        sync.Mutex
	closed    bool // by the owner: tells nothing more
	overrun   bool
	writeErr  error // what the writer met
	unwritten net.Buffers
	bytes     int // of unwritten, and of what is being written
}

// Write implements Stream.
func (s *tcpStream) Write(frame []byte) {
	s.mu.Lock()
	over := s.bytes+len(frame) > unwrittenMax
	if over {
		s.overrun = true
	} else {
		s.unwritten = append(s.unwritten, frame)
		s.bytes += len(frame)
	}
	s.mu.Unlock()
	if over {
		s.cancel()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close implements Stream.
func (s *tcpStream) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
}

func (s *tcpStream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// run connects, reads until the end, and tells of all of it.
func (s *tcpStream) run(ctx context.Context, t *tcp, hostPort string) {
	defer s.cancel()
	nc, err := t.dial(ctx, hostPort)
	if err == nil {
		t.group.Go("stream writer", func() { s.write(ctx, nc) })
		if !s.isClosed() {
			s.events.Up()
		}
		err = s.read(nc)
		s.cancel()
	}
	s.mu.Lock()
	closed, overrun, writeErr := s.closed, s.overrun, s.writeErr
	s.mu.Unlock()
	switch {
	case closed:
		return
	case overrun:
		err = ErrOverrun
	case errors.Is(err, net.ErrClosed) && writeErr != nil:
		err = writeErr
	case t.ctx.Err() != nil:
		err = t.ctx.Err()
	}
	s.events.Down(err)
}

// read hands over answers until there are no more.
func (s *tcpStream) read(nc net.Conn) error {
	r := bufio.NewReaderSize(nc, readAhead)
	var size [protocol.FrameSizeLen]byte
	for {
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return ended(err)
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > FrameMax {
			return fmt.Errorf("an answer of %d bytes, at most %d are taken: %w", n, FrameMax, ErrMalformed)
		}
		b := NewBuffer(int(n))
		if _, err := io.ReadFull(r, b.Bytes()); err != nil {
			b.Release()
			return ended(err)
		}
		if s.isClosed() {
			b.Release()
			return net.ErrClosed
		}
		s.events.Frame(b)
	}
}

// ended makes the end of a stream amid an answer an end like any other.
func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("amid an answer: %w", io.EOF)
	}
	return err
}

// write writes all that has come since the last write in one, until the stream
// ends. It closes the socket, which ends the reader.
func (s *tcpStream) write(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	// A write that waits for a peer that doesn't read ends with the stream.
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		burst, n := s.unwritten, s.bytes
		s.unwritten = nil
		s.mu.Unlock()
		if len(burst) == 0 {
			continue
		}
		_, err := burst.WriteTo(nc)
		s.mu.Lock()
		s.bytes -= n
		s.writeErr = err
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}
