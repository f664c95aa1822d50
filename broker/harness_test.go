package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"github.com/tidemark/tidemark/internal/config"
)

// startBroker runs a broker on a free port with its data in dir, or a directory
// of the test's own, and stops it when the test ends.
func startBroker(t *testing.T, dir string, set ...string) *Broker {
	t.Helper()
	b := newBroker(t, dir, set...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		t.Fatalf("start: %v", err)
	}
	return b
}

func newBroker(t *testing.T, dir string, set ...string) *Broker {
	t.Helper()
	flags := append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + dir, "tidemark.kept.dir=" + dir + "/.kept"}, set...)
	settings, _, _, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{Settings: settings, Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func stopBroker(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

// client returns a franz-go client of b that is closed with the test.
func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// ask sends one request to b and returns its answer.
func ask[R kmsg.Response](t *testing.T, cl *kgo.Client, req kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := cl.Broker(1).Request(ctx, req)
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// rawConn is a connection that a test writes requests to itself.
type rawConn struct {
	t  *testing.T
	c  net.Conn
	id int32
}

func rawDial(t *testing.T, b *Broker) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &rawConn{t: t, c: c}
}

func (c *rawConn) send(req kmsg.Request, version int16) {
	c.t.Helper()
	req.SetVersion(version)
	c.id++
	if _, err := c.c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, c.id)); err != nil {
		c.t.Fatal(err)
	}
}

// answer returns the next answer without its size; its correlation id must be
// that of the last request.
func (c *rawConn) answer() []byte {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.c, b); err != nil {
		c.t.Fatal(err)
	}
	if id := int32(binary.BigEndian.Uint32(b)); id != c.id {
		c.t.Fatalf("answer to request %d, want %d", id, c.id)
	}
	return b
}

// call sends req in a version and decodes the answer. Unlike a client library
// it changes nothing of the request.
func (c *rawConn) call(req kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	c.send(req, version)
	b := c.answer()[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

func (c *rawConn) wantClosed() {
	c.t.Helper()
	if n, err := c.c.Read(make([]byte, 1)); err == nil || n > 0 {
		c.t.Fatal("the connection was answered, want closed")
	}
}
