package server

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCongestionControlIsSet(t *testing.T) {
	nl, err := Listen(t.Context(), "127.0.0.1:0", "reno")
	if err != nil {
		t.Fatalf("reno, which every kernel has: %v", err)
	}
	defer func() { _ = nl.Close() }()
	raw, err := nl.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	var gotErr error
	err = raw.Control(func(fd uintptr) {
		got, gotErr = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	if err != nil || gotErr != nil || got != "reno" {
		t.Errorf("congestion control %q, %v, %v", got, err, gotErr)
	}
	if _, err := Listen(t.Context(), "127.0.0.1:0", "no-such-thing"); err == nil {
		t.Error("an unknown congestion control is accepted")
	}
}
