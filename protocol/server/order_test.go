package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
)

// TestAnswersInOrderOfRequests pipelines 100 requests and answers them from
// elsewhere in random order; all, over a socket and over a pipe.
func TestAnswersInOrderOfRequests(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		t.Run(over, func(t *testing.T) {
			parked := make(chan *Request, 100)
			h := start(t, Config{RequestsMax: 100}, handlerFunc(func(r *Request) { parked <- r }))
			c := h.open(over)
			const n = 100
			go func() {
				for i := range int32(n) {
					c.send(metadata(fmt.Sprint(i)), i)
				}
			}()
			var rs []*Request
			for range n {
				rs = append(rs, <-parked)
			}
			rand.Shuffle(n, func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
			var wg sync.WaitGroup
			for part := range slices.Chunk(rs, n/4) {
				wg.Go(func() {
					for _, r := range part {
						echo(r)
					}
				})
			}
			for i := range int32(n) {
				if got, want := topicOf(t, c.want(i)), fmt.Sprint(i); got != want {
					t.Fatalf("answer %d is that of %s", i, got)
				}
			}
			wg.Wait()
		})
	}
}

// open connects over a socket, or over a pipe that only package net can handle.
func (h *harness) open(over string) *client {
	if over == "socket" {
		return h.dial()
	}
	ours, theirs := net.Pipe()
	h.srv.Open(theirs, Listener{Name: "PIPE"})
	return newClient(h.t, ours)
}

// TestMixedAnswers has handlers answer at once, later, not at all, by a raw body
// and behind barriers, on several connections, and checks that every request
// that has an answer gets its own, in order.
func TestMixedAnswers(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		t.Run(over, func(t *testing.T) {
			later := make(chan *Request, 1000)
			h := start(t, Config{RequestsMax: 8}, handlerFunc(func(r *Request) {
				switch kind := r.Header.CorrelationID % 7; kind {
				case 0, 1, 2:
					echo(r)
				case 3:
					r.NoReply()
				case 4:
					r.Barrier()
					later <- r
				default:
					later <- r
				}
			}))
			var work sync.WaitGroup
			for range 3 {
				work.Go(func() {
					for r := range later {
						if r.Header.CorrelationID%2 == 0 {
							r.Lift()
						}
						echo(r)
					}
				})
			}
			var conns sync.WaitGroup
			for range 4 {
				conns.Go(func() { mixed(t, h.open(over), 700) })
			}
			conns.Wait()
			h.stop()
			close(later)
			work.Wait()
		})
	}
}

func mixed(t *testing.T, c *client, n int32) {
	var wg sync.WaitGroup
	wg.Go(func() {
		var burst []byte
		for i := range n {
			burst = append(burst, encode(metadata(fmt.Sprint(i)), i)...)
			if i%13 == 0 || i == n-1 {
				if _, err := c.nc.Write(burst); err != nil {
					t.Error(err)
					return
				}
				burst = burst[:0]
			}
		}
	})
	for i := range n {
		if i%7 == 3 {
			continue
		}
		id, body, err := c.tryNext()
		if err != nil || id != i {
			t.Errorf("answer to %d, %v, want one to %d", id, err, i)
			return
		}
		if got := topicOf(t, body); got != fmt.Sprint(i) {
			t.Errorf("answer %d is that of %s", i, got)
		}
	}
	wg.Wait()
}

// TestBarrierHoldsLaterRequests: nothing behind a barrier is handled until it is
// lifted or the request is answered, and everything is after that.
func TestBarrierHoldsLaterRequests(t *testing.T) {
	for _, end := range []string{"lift", "answer", "close"} {
		t.Run(end, func(t *testing.T) {
			handled := make(chan *Request, 10)
			h := start(t, Config{}, handlerFunc(func(r *Request) {
				if r.Header.CorrelationID == 1 {
					r.Barrier()
					r.Barrier() // once is enough
				}
				handled <- r
			}))
			c := h.dial()
			for i := range int32(4) {
				c.send(metadata("x"), i)
			}
			zero, one := <-handled, <-handled
			echo(zero)
			c.want(0) // the reader has come to rest behind request 1
			if len(handled) != 0 {
				t.Fatal("a request behind the barrier was handled")
			}
			switch end {
			case "lift":
				one.Lift()
				two, three := <-handled, <-handled
				echo(three)
				echo(two)
				echo(one)
			case "answer":
				echo(one)
				echo(<-handled)
				echo(<-handled)
			case "close":
				one.CloseConn("test")
				c.wantClosed()
				h.stop()
				if len(handled) != 0 {
					t.Error("a request behind a closing one was handled")
				}
				return
			}
			for i := int32(1); i < 4; i++ {
				c.want(i)
			}
		})
	}
}

// TestUnansweredRequestsAreBounded: at RequestsMax nothing more is handled.
func TestUnansweredRequestsAreBounded(t *testing.T) {
	handled := make(chan *Request, 100)
	h := start(t, Config{RequestsMax: 4}, handlerFunc(func(r *Request) { handled <- r }))
	c := h.dial()
	for i := range int32(20) {
		c.send(metadata("x"), i)
	}
	var first []*Request
	for range 4 {
		first = append(first, <-handled)
	}
	eventually(t, func() bool {
		conn := first[0].Conn
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return !conn.busy && conn.open == 4
	})
	if len(handled) != 0 {
		t.Fatalf("%d requests handled beyond the bound", len(handled))
	}
	for _, r := range first {
		echo(r)
	}
	for range 16 {
		echo(<-handled)
	}
	for i := range int32(20) {
		c.want(i)
	}
}

func TestNoReplyHasNoAnswer(t *testing.T) {
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		if r.Header.CorrelationID%2 == 0 {
			r.NoReply()
			return
		}
		echo(r)
	}))
	c := h.dial()
	for i := range int32(10) {
		c.send(metadata("x"), i)
	}
	for i := int32(1); i < 10; i += 2 {
		c.want(i)
	}
}

// TestCloseConnAfterEarlierAnswers: a request that closes the connection, as a
// failed Produce with acks 0 does, takes no earlier answer with it, and no later
// request is handled.
func TestCloseConnAfterEarlierAnswers(t *testing.T) {
	for _, inline := range []bool{true, false} {
		t.Run(fmt.Sprint("inline=", inline), func(t *testing.T) {
			parked := make(chan *Request, 10)
			h := start(t, Config{}, handlerFunc(func(r *Request) {
				if r.Header.CorrelationID == 2 && inline {
					r.CloseConn("test")
					return
				}
				parked <- r
			}))
			c := h.dial()
			c.write(slices.Concat(encode(metadata("0"), 0), encode(metadata("1"), 1), encode(metadata("2"), 2)))
			zero, one := <-parked, <-parked
			if !inline {
				(<-parked).CloseConn("test")
			}
			echo(one)
			if zero.Abandoned() {
				t.Fatal("closed before the earlier answers")
			}
			echo(zero)
			c.want(0)
			c.want(1)
			c.wantClosed()
		})
	}
}

// TestRetainedFrameIsNotReused holds the bytes of one request while many others
// come over the same connection. The mutant shell-frame-reused fails it.
func TestRetainedFrameIsNotReused(t *testing.T) {
	for _, over := range []string{"socket", "pipe"} {
		for _, size := range retainedSizes() {
			if retained(t, over, size) {
				t.Errorf("over a %s: records of %d bytes changed while they were retained", over, size)
			}
		}
	}
}

func retainedSizes() []int { return []int{100, 5000, 70_000, 300_000} }

// retained reports whether the records of a retained request changed while later
// requests came.
func retained(t *testing.T, over string, size int) (changed bool) {
	kept := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		if r.Header.CorrelationID == 0 {
			r.Retain()
			r.NoReply()
			kept <- r
			return
		}
		checksum(r)
	}))
	defer h.stop()
	c := h.open(over)
	defer func() { _ = c.nc.Close() }()
	const n = 30
	go func() {
		for i := range int32(n) {
			if _, err := c.nc.Write(encode(produce(0xAA-byte(i), size), i)); err != nil {
				return
			}
		}
	}()
	for i := int32(1); i < n; i++ {
		c.want(i)
	}
	r := <-kept
	for _, b := range recordsOf(r) {
		if b != 0xAA {
			changed = true
			break
		}
	}
	r.Release()
	return changed
}

// TestFrameIsFreedAfterTheLastRelease: who retains keeps, however often, and
// nobody else does.
func TestFrameIsFreedAfterTheLastRelease(t *testing.T) {
	kept := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		r.Retain()
		r.Retain()
		checksum(r)
		kept <- r
	}))
	c := h.dial()
	c.send(produce(1, 10), 0)
	c.want(0)
	r := <-kept
	idle := func() bool { return h.srv.Stats().FrameBytes == 0 }
	r.Release()
	eventually(t, func() bool { r.Conn.mu.Lock(); defer r.Conn.mu.Unlock(); return !r.Conn.busy })
	if idle() {
		t.Error("the frame is free though it is retained")
	}
	r.Release()
	eventually(t, idle)
}
