package tidemarktest_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/tidemarktest"
)

// A broker in three lines: its data is in memory and gone afterwards.
func Example_broker() {
	ctx := context.Background()
	b, err := broker.New(broker.Config{FS: broker.InMemory(), Set: []string{"listeners=PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		panic(err)
	}
	if err := b.Start(ctx); err != nil {
		panic(err)
	}
	fmt.Println(roundTrip(ctx, "hello", b.Addr()))
	if err := b.Stop(ctx); err != nil {
		panic(err)
	}
	// Output: hello
}

// A cluster of three survives the loss of the node that leads. In a test of your
// own, tidemarktest.Start(t, ...) does the starting and stopping.
func Example_cluster() {
	ctx := context.Background()
	c, err := tidemarktest.New(tidemarktest.Options{Nodes: 3})
	if err != nil {
		panic(err)
	}
	if err := c.Start(ctx); err != nil {
		panic(err)
	}
	fmt.Println(roundTrip(ctx, "before", c.Addrs()...))
	if err := c.KillNode(ctx, 1); err != nil {
		panic(err)
	}
	fmt.Println(roundTrip(ctx, "after", c.Addrs()...))
	if err := c.StartNode(ctx, 1); err != nil {
		panic(err)
	}
	fmt.Println(roundTrip(ctx, "again", c.Addrs()...))
	if err := c.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// before
	// after
	// again
}

// roundTrip produces a record and consumes it.
func roundTrip(ctx context.Context, value string, addrs ...string) string {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(value))
	if err != nil {
		panic(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: value, Value: []byte(value)}).FirstErr(); err != nil {
		panic(err)
	}
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		panic(err)
	}
	return string(fetches.Records()[0].Value)
}
