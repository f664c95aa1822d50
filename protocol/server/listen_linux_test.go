package server

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// option reads an option of a connection that a listener accepted.
func option(t *testing.T, s Socket, read func(fd int) error) {
	t.Helper()
	nl, err := Listen(t.Context(), "127.0.0.1:0", s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nl.Close() }()
	dialed, err := net.Dial("tcp", nl.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dialed.Close() }()
	nc, err := nl.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var readErr error
	if err := raw.Control(func(fd uintptr) { readErr = read(int(fd)) }); err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
}

func TestCongestionControlIsSet(t *testing.T) {
	option(t, Socket{Congestion: "reno"}, func(fd int) error {
		got, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if got != "reno" {
			t.Errorf("congestion control %q", got)
		}
		return err
	})
	if _, err := Listen(t.Context(), "127.0.0.1:0", Socket{Congestion: "no-such-thing"}); err == nil {
		t.Error("an unknown congestion control is accepted")
	}
}

func TestBuffersAreSet(t *testing.T) {
	// Linux doubles what is asked for, for its own bookkeeping.
	option(t, Socket{SendBuffer: 100 << 10, ReceiveBuffer: 50 << 10}, func(fd int) error {
		send, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil {
			return err
		}
		receive, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		if send != 200<<10 || receive != 100<<10 {
			t.Errorf("send buffer %d, receive buffer %d", send, receive)
		}
		return err
	})
}
