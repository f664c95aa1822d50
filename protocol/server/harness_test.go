package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/model"
)

// wallClock reads the real clock, or a bubble's.
type wallClock struct{ start time.Time }

func newClock() wallClock { return wallClock{start: time.Now()} }

func (c wallClock) Now() model.Now {
	now := time.Now()
	return model.Now{Mono: model.Instant(now.Sub(c.start)) + 1, Wall: model.Timestamp(now.UnixMilli())}
}

// handlerFunc adapts a function.
type handlerFunc func(r *Request)

func (f handlerFunc) Handle(r *Request) { f(r) }

// harness is a server and what a test needs around it.
type harness struct {
	t     testing.TB
	srv   *Server
	group lifecycle.Group
	addr  string
	once  sync.Once
}

// start serves h on a loopback socket.
func start(t testing.TB, cfg Config, h Handler) *harness {
	t.Helper()
	return startOn(t, cfg, Listener{Name: "PLAINTEXT"}, h)
}

func startOn(t testing.TB, cfg Config, l Listener, h Handler) *harness {
	t.Helper()
	hs := newHarness(t, cfg, h)
	nl, err := Listen(t.Context(), "127.0.0.1:0", Socket{})
	if err != nil {
		t.Fatal(err)
	}
	hs.addr = nl.Addr().String()
	hs.srv.Serve(nl, l)
	t.Cleanup(hs.stop)
	return hs
}

func newHarness(t testing.TB, cfg Config, h Handler) *harness {
	hs := &harness{t: t}
	cfg.Clock, cfg.Group = newClock(), &hs.group
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	hs.srv = New(cfg, h)
	return hs
}

// stop shuts the server down and checks that nothing of it is left.
func (h *harness) stop() {
	h.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.srv.Shutdown(ctx); err != nil {
			h.t.Errorf("shutdown: %v", err)
		}
		h.group.Wait()
		if err := h.group.Leaked(); err != nil {
			h.t.Error(err)
		}
		if n := h.srv.Stats().FrameBytes; n != 0 {
			h.t.Errorf("%d bytes of frames are still lent", n)
		}
	})
}

// client is a hand-driven peer.
type client struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func (h *harness) dial() *client {
	h.t.Helper()
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	return newClient(h.t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, nc: nc, r: bufio.NewReader(nc)}
}

// encode returns a request as it goes on the wire.
func encode(req kmsg.Request, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, correlationID)
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) send(req kmsg.Request, correlationID int32) {
	c.t.Helper()
	c.write(encode(req, correlationID))
}

// next reads one answer and returns its correlation id and what follows it.
func (c *client) next() (correlationID int32, body []byte) {
	c.t.Helper()
	correlationID, body, err := c.tryNext()
	if err != nil {
		c.t.Fatalf("read answer: %v", err)
	}
	return correlationID, body
}

func (c *client) tryNext() (correlationID int32, body []byte, err error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.r, b); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// want reads one answer and checks whose it is.
func (c *client) want(correlationID int32) []byte {
	c.t.Helper()
	got, body := c.next()
	if got != correlationID {
		c.t.Fatalf("answer to request %d, want %d", got, correlationID)
	}
	return body
}

// wantClosed checks that the server ends the connection without an answer.
func (c *client) wantClosed() {
	c.t.Helper()
	id, body, err := c.tryNext()
	if err == nil {
		c.t.Fatalf("got an answer to %d of %d bytes, want the end of the connection", id, len(body))
	}
	var nerr net.Error
	if ok := asTimeout(err, &nerr); ok {
		c.t.Fatal("the connection is still open")
	}
}

func asTimeout(err error, target *net.Error) bool {
	ne, ok := err.(net.Error)
	*target = ne
	return ok && ne.Timeout()
}

// metadata is a small request whose answer is made from the request alone.
func metadata(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	return req
}

// echo answers a metadata request with its topics.
func echo(r *Request) {
	req := r.Msg.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		resp.Topics = append(resp.Topics, rt)
	}
	r.Reply(resp)
}

// topicOf decodes an answer of echo; the header's tags come first.
func topicOf(t testing.TB, body []byte) string {
	t.Helper()
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 12
	if err := resp.ReadFrom(body[1:]); err != nil {
		t.Fatalf("answer: %v", err)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic == nil {
		t.Fatalf("answer has %d topics", len(resp.Topics))
	}
	return *resp.Topics[0].Topic
}

// lines collects log lines.
type lines struct {
	obs  *observer.ObservedLogs
	core zapcore.Core
}

func newLines() *lines {
	core, obs := observer.New(zapcore.DebugLevel)
	return &lines{obs: obs, core: core}
}

func (l *lines) logger() *zap.Logger { return zap.New(l.core) }

func (l *lines) count(message string) int { return l.obs.FilterMessage(message).Len() }

// eventually waits until cond holds.
func eventually(t testing.TB, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it has not come about within 10 s")
		}
	}
}
