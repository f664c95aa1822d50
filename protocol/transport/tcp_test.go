package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/protocol"
)

// history notes a stream's events.
type history struct {
	mu     sync.Mutex
	events []string
	err    error
}

func (h *history) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, what)
}

func (h *history) Up() { h.note("up") }

func (h *history) Frame(b *Buffer) {
	h.note(string(b.Bytes()))
	b.Release()
}

func (h *history) Down(err error) {
	h.note("down")
	h.mu.Lock()
	h.err = err
	h.mu.Unlock()
}

func (h *history) want(t *testing.T, events ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.events, events) {
		t.Errorf("told %q, want %q", h.events, events)
	}
}

// piped runs a test with a stream over a pipe, in virtual time.
func piped(t *testing.T, fn func(s Stream, h *history, far net.Conn, stop context.CancelFunc)) {
	synctest.Test(t, func(t *testing.T) {
		var group lifecycle.Group
		near, far := net.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		d := newTCP(ctx, &group, func(context.Context, string) (net.Conn, error) { return near, nil })
		h := &history{}
		s := d.Open(Address{1, "h", 1}, ClassFetch, h)
		fn(s, h, far, stop)
		s.Close()
		stop()
		far.Close()
		group.Wait()
		if err := group.Leaked(); err != nil {
			t.Error(err)
		}
	})
}

func framed(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

func TestStreamReads(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, _ context.CancelFunc) {
		long := string(bytes.Repeat([]byte("x"), 100_000))
		all := slices.Concat(framed("one"), framed(""), framed(long), framed("four"))
		for chunk := range slices.Chunk(all, 7001) { // cut anywhere
			if _, err := far.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		h.want(t, "up", "one", "", long, "four")
		far.Write(framed("half")[:6])
		far.Close()
		synctest.Wait()
		h.want(t, "up", "one", "", long, "four", "down")
		if !errors.Is(h.err, io.EOF) {
			t.Errorf("down with %v", h.err)
		}
	})
}

func TestStreamWritesInOrder(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, _ context.CancelFunc) {
		var want []byte
		for i := range 200 {
			f := framed(string(bytes.Repeat([]byte{byte(i)}, i*3)))
			want = append(want, f...)
			s.Write(f)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v; equal: %v", err, bytes.Equal(got, want))
		}
		h.want(t, "up")
	})
}

func TestStreamTooLongAnAnswer(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, _ context.CancelFunc) {
		far.Write(binary.BigEndian.AppendUint32(nil, FrameMax+1))
		synctest.Wait()
		h.want(t, "up", "down")
		if !errors.Is(h.err, ErrMalformed) {
			t.Errorf("down with %v", h.err)
		}
	})
}

// Who writes more than the other side takes is told, and not held up.
func TestStreamOverrun(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, _ context.CancelFunc) {
		frame := make([]byte, 1<<20)
		for range unwrittenMax>>20 + 1 {
			s.Write(frame)
		}
		synctest.Wait()
		h.want(t, "up", "down")
		if !errors.Is(h.err, ErrOverrun) {
			t.Errorf("down with %v", h.err)
		}
	})
}

// After Close nothing is told, whatever the stream was about to do.
func TestStreamClose(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, _ context.CancelFunc) {
		synctest.Wait()
		s.Write(framed("nobody reads this"))
		s.Close()
		synctest.Wait()
		h.want(t, "up")
		if _, err := far.Write(framed("x")); err == nil {
			t.Error("the socket is open")
		}
	})
	// Also amid the attempt to connect.
	synctest.Test(t, func(t *testing.T) {
		var group lifecycle.Group
		h := &history{}
		d := newTCP(t.Context(), &group, func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		s := d.Open(Address{1, "h", 1}, ClassFetch, h)
		synctest.Wait()
		s.Close()
		group.Wait()
		h.want(t)
	})
}

func TestStreamsEndWithTheNode(t *testing.T) {
	piped(t, func(s Stream, h *history, far net.Conn, stop context.CancelFunc) {
		synctest.Wait()
		stop()
		synctest.Wait()
		h.want(t, "up", "down")
		if !errors.Is(h.err, context.Canceled) {
			t.Errorf("down with %v", h.err)
		}
	})
}

// A peer over a pipe, with the loops of a real node and virtual time.
func TestPeerOverAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group lifecycle.Group
		ctx, stop := context.WithCancel(t.Context())
		rt := realtime.New(&group)
		fars := make(chan net.Conn, 1)
		d := newTCP(ctx, &group, func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			fars <- far
			return near, nil
		})
		p := NewPeer(PeerConfig{
			RT: rt, Dialer: d, Rand: rand.New(rand.NewPCG(1, 1)), Class: ClassRaft, ClientID: "t", Timeout: 10 * time.Second,
			InFlightMax: 100, Address: func() (Address, bool) { return Address{1, "h", 1}, true },
		})
		got := make(chan string, 1000)
		for range 200 {
			p.Send(Request{Key: 20000, Body: []byte("ping"), Done: receiver(func(a Answer) {
				got <- string(a.Body)
				a.Release()
			})})
		}
		far := <-fars
		group.Go("echo", func() { serve(far, 150) })
		for range 150 {
			if s := <-got; s != "ping" {
				t.Errorf("answered %q", s)
			}
		}
		// The node falls silent with 50 in flight. They are told when the peer
		// is closed, all of them, and nothing twice.
		p.Close()
		synctest.Wait()
		for range 50 {
			if s := <-got; s != "" {
				t.Errorf("answered %q", s)
			}
		}
		select {
		case s := <-got:
			t.Errorf("one too many: %q", s)
		default:
		}
		stop()
		far.Close()
		rt.Stop()
		group.Wait()
	})
}

type receiver func(a Answer)

func (r receiver) Received(a Answer) { r(a) }

// serve answers ApiVersions, then n requests with their own bodies.
func serve(c net.Conn, n int) {
	r := bufio.NewReader(c)
	for i := 0; i <= n; i++ {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		h, body, err := protocol.ParseRequestHeader(frame, "")
		if err != nil {
			return
		}
		answer := protocol.AppendResponseHeader(nil, h.Key, h.Version, h.CorrelationID)
		if h.Key == protocol.KeyApiVersions {
			answer = protocol.NewApiVersionsResponse(h.Version, protocol.OnController, protocol.Features{}).AppendTo(answer)
		} else {
			answer = append(answer, body...)
		}
		if _, err := c.Write(framed(string(answer))); err != nil {
			return
		}
	}
	io.Copy(io.Discard, r)
}

// The errors of real sockets are told apart.
func TestSocketErrors(t *testing.T) {
	var group lifecycle.Group
	d := TCP(t.Context(), &group, SocketOptions{SendBuffer: 100_000, ReceiveBuffer: 100_000})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := Address{1, "127.0.0.1", uint16(l.Addr().(*net.TCPAddr).Port)}
	wait := func(how func(c *net.TCPConn)) error {
		h := &downs{err: make(chan error, 1)}
		s := d.Open(to, ClassProbe, h)
		defer s.Close()
		if how != nil {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			how(c.(*net.TCPConn))
		}
		return <-h.err
	}
	if err := wait(func(c *net.TCPConn) { c.Close() }); !errors.Is(err, io.EOF) {
		t.Errorf("closed: %v", err)
	}
	if err := wait(func(c *net.TCPConn) { c.SetLinger(0); c.Close() }); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	l.Close()
	if err := wait(nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	group.Wait()
}

type downs struct{ err chan error }

func (d *downs) Up()             {}
func (d *downs) Frame(b *Buffer) { b.Release() }
func (d *downs) Down(err error)  { d.err <- err }
