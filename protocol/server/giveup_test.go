package server

import (
	"slices"
	"testing"
)

// TestGiveUpAHangingHandler: what was answered before it goes out, then the
// connection is closed, though its goroutine is still in the handler.
func TestGiveUpAHangingHandler(t *testing.T) {
	hangs, release := make(chan *Request), make(chan struct{})
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		if r.Header.CorrelationID == 1 {
			hangs <- r
			<-release
		}
		echo(r)
	}))
	defer close(release)
	c := h.dial()
	c.write(slices.Concat(encode(metadata("0"), 0), encode(metadata("1"), 1), encode(metadata("2"), 2)))
	r := <-hangs
	r.Conn.GiveUp("test")
	c.want(0)
	c.wantClosed()
	if !r.Abandoned() {
		t.Error("the request is not abandoned")
	}
}

// TestGiveUpLeavesAnIdleConnection: a request that is parked elsewhere holds no
// goroutine, so its connection stays.
func TestGiveUpLeavesAnIdleConnection(t *testing.T) {
	parked := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
	c := h.dial()
	c.send(metadata("0"), 0)
	r := <-parked
	eventually(t, func() bool {
		r.Conn.mu.Lock()
		defer r.Conn.mu.Unlock()
		return !r.Conn.busy
	})
	r.Conn.GiveUp("test")
	echo(r)
	c.want(0)
}
