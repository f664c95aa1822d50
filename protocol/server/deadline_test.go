package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipe runs a test in a bubble, whose clock jumps, with one connection that only
// package net can handle.
func pipe(t *testing.T, cfg Config, l Listener, h Handler, test func(t *testing.T, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHarness(t, cfg, h)
		ours, theirs := net.Pipe()
		hs.srv.Open(theirs, l)
		test(t, newClient(t, ours))
		_ = ours.Close()
		hs.stop()
	})
}

// closedAfter waits for the server to close the connection and returns how long
// that took.
func (c *client) closedAfter() time.Duration {
	c.t.Helper()
	begin := time.Now()
	if err := c.nc.SetReadDeadline(begin.Add(24 * time.Hour)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.ReadFull(c.r, make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the connection was not closed: %v", err)
	}
	return time.Since(begin)
}

func TestIdleConnectionIsClosed(t *testing.T) {
	pipe(t, Config{IdleMax: 10 * time.Minute}, Listener{}, handlerFunc(echo), func(t *testing.T, c *client) {
		for i := range int32(5) {
			time.Sleep(9 * time.Minute)
			c.send(metadata("x"), i)
			c.want(i)
		}
		if took := c.closedAfter(); took != 10*time.Minute {
			t.Errorf("closed after %v", took)
		}
	})
}

func TestConnectionThatWaitsForAnAnswerIsNotIdle(t *testing.T) {
	parked := make(chan *Request, 1)
	h := handlerFunc(func(r *Request) { parked <- r })
	pipe(t, Config{IdleMax: time.Minute}, Listener{}, h, func(t *testing.T, c *client) {
		c.send(metadata("x"), 1)
		r := <-parked
		time.Sleep(time.Hour)
		echo(r)
		c.want(1)
		if took := c.closedAfter(); took > 2*time.Minute {
			t.Errorf("closed after %v", took)
		}
	})
}

func TestTricklingFrameIsClosed(t *testing.T) {
	tests := []struct {
		name  string
		every time.Duration
		bytes int
		ok    bool
	}{
		{"a byte a second", time.Second, 1, false},
		{"64 KiB in 50 s", 50 * time.Second, 64 << 10, true},
		{"64 KiB in 90 s", 90 * time.Second, 64 << 10, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pipe(t, Config{}, Listener{}, handlerFunc(checksum), func(t *testing.T, c *client) {
				frame := encode(produce(1, 400_000), 1)
				if !tt.ok {
					frame = encode(produce(1, 10<<20), 1)
				}
				begin := time.Now()
				for len(frame) > 0 {
					n := min(tt.bytes, len(frame))
					if _, err := c.nc.Write(frame[:n]); err != nil {
						break
					}
					if frame = frame[n:]; len(frame) > 0 {
						time.Sleep(tt.every)
					}
				}
				if tt.ok {
					c.want(1)
					return
				}
				if took := time.Since(begin); len(frame) == 0 || took > 3*time.Minute {
					t.Errorf("closed after %v, %d bytes short", took, len(frame))
				}
			})
		})
	}
}

func TestAuthenticationHasADeadline(t *testing.T) {
	l := Listener{Authenticate: true}
	pipe(t, Config{}, l, handlerFunc(echo), func(t *testing.T, c *client) {
		begin := time.Now()
		for i := range int32(9) {
			time.Sleep(time.Second)
			c.send(metadata("x"), i)
			c.want(i)
		}
		c.closedAfter()
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
	var authenticate atomic.Bool
	h := handlerFunc(func(r *Request) {
		if authenticate.Load() {
			r.Conn.Authenticated()
		}
		echo(r)
	})
	pipe(t, Config{}, l, h, func(t *testing.T, c *client) {
		authenticate.Store(true)
		c.send(metadata("x"), 1)
		c.want(1)
		if took := c.closedAfter(); took != 10*time.Minute {
			t.Errorf("an authenticated connection was closed after %v", took)
		}
	})
}

func TestFramesBeforeAuthenticationAreShort(t *testing.T) {
	l := Listener{Authenticate: true}
	pipe(t, Config{}, l, handlerFunc(checksum), func(t *testing.T, c *client) {
		// Nothing behind the length: the server need not read on.
		c.write(binary.BigEndian.AppendUint32(nil, 64<<10+1))
		c.closedAfter()
	})
	h := handlerFunc(func(r *Request) { r.Conn.Authenticated(); checksum(r) })
	pipe(t, Config{}, l, h, func(t *testing.T, c *client) {
		c.send(produce(1, 60_000), 1)
		c.want(1)
		c.send(produce(1, 200_000), 2)
		c.want(2)
	})
}

// TestReaderWhoNeverReads: over a pipe every write waits, and the peer does not
// read.
func TestReaderWhoNeverReads(t *testing.T) {
	for _, inline := range []bool{true, false} {
		var conn *Conn
		parked := make(chan *Request, 1)
		h := handlerFunc(func(r *Request) {
			conn = r.Conn
			if inline {
				echo(r)
				return
			}
			parked <- r
		})
		pipe(t, Config{WriteMax: 30 * time.Second}, Listener{}, h, func(t *testing.T, c *client) {
			begin := time.Now()
			c.send(metadata("x"), 1)
			if !inline {
				echo(<-parked) // must not wait for the peer
				if took := time.Since(begin); took != 0 {
					t.Errorf("answering took %v", took)
				}
			}
			time.Sleep(29 * time.Second)
			synctest.Wait()
			if conn.Closed() {
				t.Error("closed too early")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if !conn.Closed() {
				t.Error("not closed")
			}
		})
	}
}

// TestSocketReaderWhoNeverReads is the same over a socket, with real time: the
// answers fill the socket's buffers, whoever gives them does not wait, and the
// connection is closed in the end.
func TestSocketReaderWhoNeverReads(t *testing.T) {
	for _, inline := range []bool{true, false} {
		later := make(chan *Request, 100)
		var released atomic.Int32
		big := parts{make([]byte, 1<<20)}
		region := func(data []byte) Region { return &memRegion{data: data, released: &released} }
		h := start(t, Config{WriteMax: 100 * time.Millisecond, RequestsMax: 30}, handlerFunc(func(r *Request) {
			if inline {
				big.reply(r, region)
				return
			}
			later <- r
		}))
		c := h.dial()
		for i := range int32(30) {
			c.send(fetchRequest(), i)
		}
		if !inline {
			var rs []*Request
			for range 30 {
				rs = append(rs, <-later)
			}
			for _, r := range rs {
				big.reply(r, region)
			}
		}
		eventually(t, func() bool { return h.srv.Stats().Connections == 0 })
		h.stop()
	}
}

// TestSlowReaderIsServed: a peer that reads slowly but reads gets all of a large
// answer, though writing it takes many times WriteMax.
func TestSlowReaderIsServed(t *testing.T) {
	var released atomic.Int32
	big := parts{make([]byte, 3<<20)}
	pipe(t, Config{WriteMax: 30 * time.Second}, Listener{}, handlerFunc(func(r *Request) {
		big.reply(r, func(data []byte) Region { return &memRegion{data: data, released: &released} })
	}), func(t *testing.T, c *client) {
		c.send(fetchRequest(), 1)
		begin, got := time.Now(), 0
		for p := make([]byte, 32<<10); got < 3<<20; {
			time.Sleep(10 * time.Second)
			n, err := c.nc.Read(p)
			if err != nil {
				t.Fatalf("after %d bytes and %v: %v", got, time.Since(begin), err)
			}
			got += n
		}
		if took := time.Since(begin); took < 5*time.Minute {
			t.Errorf("took only %v: the test does not test", took)
		}
	})
}
