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

// Listen opens a TCP listener. congestion names the congestion control of its
// connections (tidemark.tcp.congestion), "" leaves the system's. Under BBR, whose
// pacing costs much of the throughput within a machine or a rack, "cubic" is
// worth a try.
func Listen(ctx context.Context, addr, congestion string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive}
	if congestion != "" {
		lc.Control = func(_, _ string, rc syscall.RawConn) error {
			var err error
			if cerr := rc.Control(func(fd uintptr) { err = setCongestion(int(fd), congestion) }); cerr != nil {
				return cerr
			}
			if err != nil {
				return fmt.Errorf("congestion control %q: %w", congestion, err)
			}
			return nil
		}
	}
	return lc.Listen(ctx, "tcp", addr)
}
