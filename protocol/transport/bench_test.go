package transport

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
)

// BenchmarkRoundTrip is one small request at a time over the loopback, to a
// server that answers at once.
func BenchmarkRoundTrip(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var group lifecycle.Group
	group.Go("echo", func() {
		c, err := l.Accept()
		if err == nil {
			serve(c, 1<<40)
			c.Close()
		}
	})
	ctx, stop := context.WithCancel(b.Context())
	rt := realtime.New(&group)
	p := NewPeer(PeerConfig{
		RT: rt, Dialer: TCP(ctx, &group, SocketOptions{}), Rand: rand.New(rand.NewPCG(1, 1)), Class: ClassFetch, ClientID: "bench",
		Address: func() (Address, bool) { return Address{1, "127.0.0.1", uint16(l.Addr().(*net.TCPAddr).Port)}, true },
	})
	body, done := make([]byte, 100), make(chan struct{}, 1)
	var r receiver = func(a Answer) {
		a.Release()
		done <- struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Send(Request{Key: 20000, Body: body, Done: r})
		<-done
	}
	p.Close()
	stop()
	l.Close()
	rt.Stop()
	group.Wait()
}
