package broker

import (
	"context"
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
