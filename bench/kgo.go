package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientTimeout bounds one run through a real client.
const clientTimeout = 5 * time.Minute

// kgoProduceCell produces through franz-go as an application would: idempotent,
// acks=all, no linger, uncompressed.
func kgoProduceCell(recordBytes, records int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		n := e.scaled(records)
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*recordBytes)
		return e.measure(func() error { return kgoProduce(e.target.Addr, topic, recordBytes, n) })
	}
}

func kgoProduce(addr, topic string, recordBytes, records int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1_000_000), kgo.MaxBufferedRecords(200_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	value := make([]byte, recordBytes)
	rng := rand.New(rand.NewPCG(9, 10))
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	for range records {
		cl.Produce(ctx, &kgo.Record{Value: value}, promise)
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// kgoConsumeCell reads back through franz-go what it produced beforehand.
func kgoConsumeCell(recordBytes, records int) func(*env) error {
	return func(e *env) error {
		topic, err := e.topic(1)
		if err != nil {
			return err
		}
		n := e.scaled(records)
		if err := kgoProduce(e.target.Addr, topic, recordBytes, n); err != nil {
			return err
		}
		e.result.Requests, e.result.Records, e.result.Bytes = int64(n), int64(n), int64(n*recordBytes)
		return e.measure(func() error { return kgoConsume(e.target.Addr, topic, n) })
	}
}

func kgoConsume(addr, topic string, records int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	for got := 0; got < records; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		got += fetches.NumRecords()
	}
	return nil
}
