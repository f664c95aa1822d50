package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/protocol"
)

func TestOneRequestOneAnswer(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	c := h.dial()
	for i := range int32(3) {
		name := fmt.Sprintf("topic-%d", i)
		c.send(metadata(name), i)
		if got := topicOf(t, c.want(i)); got != name {
			t.Errorf("answer names %q, want %q", got, name)
		}
	}
}

func TestRequestTellsWhereItCameFrom(t *testing.T) {
	got := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) { got <- r }))
	c := h.dial()
	c.send(metadata("x"), 9)
	r := <-got
	defer c.want(9)
	defer echo(r)
	if r.Header.ClientID != "test" || r.Header.Key != protocol.KeyMetadata || r.Header.Version != 12 {
		t.Errorf("header %+v", r.Header)
	}
	if r.Listener != "PLAINTEXT" || r.LocalAddr != h.addr || r.RemoteAddr != c.nc.LocalAddr().String() || r.Received.Mono == 0 {
		t.Errorf("listener %q, local %q, remote %q, received %+v", r.Listener, r.LocalAddr, r.RemoteAddr, r.Received)
	}
}

// pieces writes b in pieces of n bytes, each its own segment.
func (c *client) pieces(b []byte, n int) {
	c.t.Helper()
	for len(b) > 0 {
		k := min(n, len(b))
		c.write(b[:k])
		b = b[k:]
	}
}

func TestFramesInPieces(t *testing.T) {
	for _, n := range []int{1, 3, 7, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h := start(t, Config{}, handlerFunc(echo))
			c := h.dial()
			var all []byte
			for i := range int32(20) {
				all = append(all, encode(metadata(fmt.Sprint("t", i)), i)...)
			}
			c.pieces(all, n)
			for i := range int32(20) {
				if got, want := topicOf(t, c.want(i)), fmt.Sprint("t", i); got != want {
					t.Fatalf("answer %d names %q", i, got)
				}
			}
		})
	}
}

// produce is a request with one record set of n bytes, each byte the given one.
func produce(fill byte, n int) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = bytes.Repeat([]byte{fill}, n)
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return req
}

func recordsOf(r *Request) []byte {
	return r.Msg.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records
}

// checksum answers a produce with a number made of its records.
func checksum(r *Request) {
	sum := int64(0)
	for _, b := range recordsOf(r) {
		sum = sum*31 + int64(b)
	}
	replySum(r, sum)
}

func replySum(r *Request, sum int64) {
	resp := r.Msg.ResponseKind().(*kmsg.ProduceResponse)
	topic := kmsg.NewProduceResponseTopic()
	p := kmsg.NewProduceResponseTopicPartition()
	p.BaseOffset = sum
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	r.Reply(resp)
}

func sumOf(t testing.TB, body []byte) int64 {
	t.Helper()
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[1:]); err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].BaseOffset
}

func wantSum(fill byte, n int) int64 {
	sum := int64(0)
	for range n {
		sum = sum*31 + int64(fill)
	}
	return sum
}

// TestFramesOfAllSizes sends short and long frames mixed, so that buffers grow,
// shrink and are compacted, in pieces of random size.
func TestFramesOfAllSizes(t *testing.T) {
	h := start(t, Config{}, handlerFunc(checksum))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		c := h.dial()
		var all []byte
		var want []int64
		for i := range int32(60) {
			n := rng.IntN(300)
			switch rng.IntN(5) {
			case 0:
				n = 60_000 + rng.IntN(10_000)
			case 1:
				n = rng.IntN(1 << 20)
			}
			all = append(all, encode(produce(byte(i), n), i)...)
			want = append(want, wantSum(byte(i), n))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for len(all) > 0 {
				n := min(len(all), 1+rng.IntN(200_000))
				if _, err := c.nc.Write(all[:n]); err != nil {
					t.Error(err)
					return
				}
				all = all[n:]
			}
		})
		for i := range want {
			if got := sumOf(t, c.want(int32(i))); got != want[i] {
				t.Fatalf("request %d: records arrived changed", i)
			}
		}
		wg.Wait()
	}
}

func TestNonsenseClosesWithOneLine(t *testing.T) {
	size := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	badHeader := append(size(12), "\x00\x03\x00\x08\x00\x00\x00\x01\x7f\xff!!"...)
	tests := map[string][]byte{
		"negative":             size(-1),
		"least":                size(-1 << 31),
		"zero":                 size(0),
		"shorter than headers": size(9),
		"greatest":             size(1<<31 - 1),
		"one too many":         size(100<<20 + 1),
		"http":                 []byte("GET / HTTP/1.1\r\n\r\n"),
		"tls":                  {0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
		"header lies":          badHeader,
		"metadata too long":    append(size(8<<20+1), 0, 3),
		"unknown api":          encode(&kmsg.LeaderAndISRRequest{}, 1),
		"produce v2":           encode(&kmsg.ProduceRequest{Version: 2}, 1),
		"metadata v99":         append(size(10), 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff),
		"metadata v-1":         append(size(10), 0, 3, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff),
		"body missing":         append(size(11), 0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0),
		"private api":          append(size(11), 0x4e, 0x20, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0),
		"controller's api":     encode(&kmsg.BrokerHeartbeatRequest{}, 1),
	}
	for name, bytes := range tests {
		t.Run(name, func(t *testing.T) {
			lines := newLines()
			h := start(t, Config{Logger: lines.logger()}, handlerFunc(func(r *Request) {
				t.Errorf("handled API %d version %d", r.Header.Key, r.Header.Version)
				r.NoReply()
			}))
			for range 3 {
				c := h.dial()
				c.write(bytes)
				c.wantClosed()
			}
			h.stop()
			if n := lines.count("connection closed for what it sent"); n != 1 {
				t.Errorf("%d lines for three such connections, want 1", n)
			}
			if n := h.srv.Stats().BadFrames; n != 3 {
				t.Errorf("%d bad frames counted, want 3", n)
			}
		})
	}
}

// TestBadFrameAfterGoodOnes: what was asked before the nonsense is answered.
func TestBadFrameAfterGoodOnes(t *testing.T) {
	parked := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
	c := h.dial()
	c.write(append(encode(metadata("x"), 5), 0xff, 0xff, 0xff, 0xff))
	echo(<-parked)
	c.want(5)
	c.wantClosed()
}

func TestApiVersionsOfUnknownVersion(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	c := h.dial()
	for i, version := range []int16{5, 99, 32767, -1} {
		req := []byte{0, 18, byte(version >> 8), byte(version), 0, 0, 0, byte(i), 0, 1, 'x', 0}
		req = append(req, "a body of the future"...)
		c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(req))), req...))
		want := []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}
		if got := c.want(int32(i)); !bytes.Equal(got, want) {
			t.Errorf("version %d: body %x, want %x", version, got, want)
		}
	}
	c.send(metadata("still here"), 50)
	c.want(50)
}

func TestApiVersionsHeaderHasNoTags(t *testing.T) {
	h := start(t, Config{}, handlerFunc(func(r *Request) {
		r.Reply(protocol.NewApiVersionsResponse(r.Header.Version, protocol.OnBroker, protocol.Features{}))
	}))
	c := h.dial()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "x", "1"
	c.send(req, 1)
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	if err := resp.ReadFrom(c.want(1)); err != nil || len(resp.ApiKeys) < 10 {
		t.Errorf("%d keys, %v", len(resp.ApiKeys), err)
	}
}

func TestPrivateAPIOnControllerListener(t *testing.T) {
	l := Listener{Name: "CONTROLLER", Private: true, Controller: true}
	h := startOn(t, Config{}, l, handlerFunc(func(r *Request) {
		if r.Msg != nil {
			r.Reply(r.Msg.ResponseKind())
			return
		}
		r.ReplyRaw(append([]byte("re: "), r.Body...))
	}))
	c := h.dial()
	c.write([]byte("\x00\x00\x00\x10\x4e\x20\x00\x01\x00\x00\x00\x07\xff\xff\x00hello"))
	if got := string(c.want(7)); got != "\x00re: hello" {
		t.Errorf("answer %q", got)
	}
	c.send(&kmsg.BrokerHeartbeatRequest{}, 8)
	c.want(8)
	c.send(metadata("not here"), 9)
	c.wantClosed()
}

func TestShutdownWhenIdleIsQuick(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	for i := range 50 {
		c := h.dial()
		c.send(metadata("x"), int32(i))
		c.want(int32(i))
	}
	begin := time.Now()
	h.stop()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Error("still accepting")
	}
}

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	parked := make(chan *Request, 3)
	h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
	c := h.dial()
	for i := range int32(3) {
		c.send(metadata("x"), i)
	}
	var rs []*Request
	for range 3 {
		rs = append(rs, <-parked)
	}
	done := make(chan error, 1)
	go func() { done <- h.srv.Shutdown(context.Background()) }()
	// New requests of a draining connection are not handled.
	eventually(t, func() bool { return draining(rs[0].Conn) })
	c.send(metadata("late"), 99)
	for i := len(rs) - 1; i >= 0; i-- {
		echo(rs[i])
	}
	for i := range int32(3) {
		c.want(i)
	}
	c.wantClosed()
	if err := <-done; err != nil {
		t.Error(err)
	}
	h.once.Do(func() {})
	h.group.Wait()
}

func draining(c *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	parked := make(chan *Request, 1)
	h := start(t, Config{}, handlerFunc(func(r *Request) { parked <- r }))
	c := h.dial()
	c.send(metadata("x"), 1)
	r := <-parked
	closed := make(chan struct{})
	r.Conn.OnClose(func() { close(closed) })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.once.Do(func() {
		if err := h.srv.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("shutdown: %v", err)
		}
	})
	<-closed
	if !r.Abandoned() {
		t.Error("the request is not abandoned")
	}
	again := false
	r.Conn.OnClose(func() { again = true })
	if !again {
		t.Error("OnClose of a closed connection was not called")
	}
	echo(r) // goes nowhere, harmlessly
	c.wantClosed()
	h.group.Wait()
}

func TestServeAfterShutdownClosesTheListener(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	h.stop()
	nl, err := Listen(t.Context(), "127.0.0.1:0", Socket{})
	if err != nil {
		t.Fatal(err)
	}
	h.srv.Serve(nl, Listener{Name: "LATE"})
	if _, err := nl.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
}

func TestConnectionLimits(t *testing.T) {
	t.Run("per address", func(t *testing.T) {
		h := start(t, Config{ConnectionsPerIPMax: 2}, handlerFunc(echo))
		a, b := h.dial(), h.dial()
		a.send(metadata("x"), 1)
		a.want(1)
		b.send(metadata("x"), 1)
		b.want(1)
		h.dial().wantClosed()
		if n := h.srv.Stats().Refused; n != 1 {
			t.Errorf("%d refused", n)
		}
		_ = a.nc.Close()
		eventually(t, func() bool { return h.srv.Stats().Connections == 1 })
		c := h.dial()
		c.send(metadata("x"), 1)
		c.want(1)
	})
	t.Run("one address forbidden", func(t *testing.T) {
		h := start(t, Config{ConnectionsPerIP: map[string]int{"127.0.0.1": 0}}, handlerFunc(echo))
		h.dial().wantClosed()
	})
	t.Run("of the node", func(t *testing.T) {
		h := start(t, Config{ConnectionsMax: 1}, handlerFunc(echo))
		a := h.dial()
		a.send(metadata("x"), 1)
		a.want(1)
		// The second connects but waits to be accepted.
		b := h.dial()
		b.send(metadata("x"), 2)
		_ = a.nc.Close()
		b.want(2)
	})
	t.Run("private listeners are not counted", func(t *testing.T) {
		h := startOn(t, Config{ConnectionsMax: 1, ConnectionsPerIPMax: 1}, Listener{Private: true}, handlerFunc(echo))
		for range 3 {
			c := h.dial()
			c.send(metadata("x"), 1)
			c.want(1)
		}
	})
}

func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	h := start(t, Config{}, handlerFunc(echo))
	const n = 200
	for i := range n {
		c := h.dial()
		c.send(metadata("x"), int32(i))
		c.want(int32(i))
	}
	// The last answers are read before their connections have gone back to
	// waiting.
	eventually(t, func() bool { return h.srv.Stats().FrameBytes == 0 })
	if got := h.srv.Stats().Connections; got != n {
		t.Errorf("%d connections, want %d", got, n)
	}
}

// TestAnnouncedFramesCostNothing: connections that announce 100 MiB and send a
// little hold about what they sent.
func TestAnnouncedFramesCostNothing(t *testing.T) {
	h := start(t, Config{}, handlerFunc(checksum))
	const n, sent = 100, 3000
	for range n {
		c := h.dial()
		b := append(binary.BigEndian.AppendUint32(nil, 100<<20), 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0)
		c.write(append(b, make([]byte, sent-len(b))...))
	}
	const most = n * (8*sent + frameMin)
	eventually(t, func() bool {
		s := h.srv.Stats()
		return s.Connections == n && s.FrameBytes <= most && s.FrameBytes >= n*sent
	})
}

// TestPanicInHandlerEndsOneConnection: others go on.
func TestPanicInHandlerEndsOneConnection(t *testing.T) {
	if assert.SlowEnabled {
		t.Skip("this build lets panics through")
	}
	lines := newLines()
	h := start(t, Config{Logger: lines.logger()}, handlerFunc(func(r *Request) {
		if r.Header.CorrelationID == 13 {
			r.NoReply()
			r.NoReply() // answered twice
		}
		echo(r)
	}))
	good, bad := h.dial(), h.dial()
	bad.send(metadata("x"), 13)
	bad.wantClosed()
	good.send(metadata("x"), 1)
	good.want(1)
	if n, logged := h.srv.Stats().Panics, lines.count("panic on a connection"); n != 1 || logged != 1 {
		t.Errorf("%d panics counted, %d logged, want one", n, logged)
	}
}
