package server

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"
)

// keepAlive is how long a silent connection goes before the kernel asks whether
// the peer is still there.
const keepAlive = 30 * time.Second

// Socket is what a listener asks of the kernel for its connections.
type Socket struct {
	// Congestion names the congestion control (tidemark.tcp.congestion), ""
	// leaves the system's. Under BBR, whose pacing costs much of the throughput
	// within a machine or a rack, "cubic" is worth a try.
	Congestion string

	// SendBuffer and ReceiveBuffer are the bytes the kernel may hold for one
	// connection and direction (socket.send.buffer.bytes,
	// socket.receive.buffer.bytes); zero or less leaves it to the kernel, which
	// then grows them as it sees fit.
	SendBuffer, ReceiveBuffer int
}

// Listen opens a TCP listener whose connections inherit the options of s. They
// are set before the socket listens, as the receive buffer must be: it decides
// the window scaling of each handshake.
func Listen(ctx context.Context, addr string, s Socket) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive}
	lc.Control = func(_, _ string, rc syscall.RawConn) error {
		var err error
		if cerr := rc.Control(func(fd uintptr) { err = s.set(fd) }); cerr != nil {
			return cerr
		}
		return err
	}
	return lc.Listen(ctx, "tcp", addr)
}

func (s Socket) set(fd uintptr) error {
	if s.Congestion != "" {
		if err := setCongestion(fd, s.Congestion); err != nil {
			return fmt.Errorf("congestion control %q: %w", s.Congestion, err)
		}
	}
	if s.SendBuffer > 0 {
		if err := setBuffer(fd, syscall.SO_SNDBUF, s.SendBuffer); err != nil {
			return fmt.Errorf("send buffer of %d bytes: %w", s.SendBuffer, err)
		}
	}
	if s.ReceiveBuffer > 0 {
		if err := setBuffer(fd, syscall.SO_RCVBUF, s.ReceiveBuffer); err != nil {
			return fmt.Errorf("receive buffer of %d bytes: %w", s.ReceiveBuffer, err)
		}
	}
	return nil
}
