package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// env is the surroundings of one run of one cell.
type env struct {
	target Target
	scale  float64
	result Result
	lat    latencies
	topics []string
	client *kgo.Client
}

func selfPID() int { return os.Getpid() }

// scaled returns n times the scale, and at least one.
func (e *env) scaled(n int) int { return max(1, int(float64(n)*e.scale)) }

// topic creates a fresh topic and waits until each partition has a leader.
func (e *env) topic(partitions int) (string, error) {
	name := fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano())
	e.topics = append(e.topics, name)
	return name, e.named(name, partitions)
}

// named is topic with a name that is chosen; the topic stays.
func (e *env) named(name string, partitions int) error {
	if e.client == nil {
		cl, err := kgo.NewClient(kgo.SeedBrokers(e.target.Addr))
		if err != nil {
			return err
		}
		e.client = cl
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	adm := kadm.NewClient(e.client)
	if _, err := adm.CreateTopic(ctx, int32(partitions), 1, nil, name); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	return e.awaitLeaders(ctx, adm, name, partitions)
}

func (e *env) awaitLeaders(ctx context.Context, adm *kadm.Client, name string, partitions int) error {
	for {
		ends, err := adm.ListEndOffsets(ctx, name)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("wait for leaders of %s: %w", name, err)
		}
		if err == nil && ends.Error() == nil && len(ends[name]) == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for leaders of %s: %w", name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (e *env) close() {
	if e.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// A topic that can't be deleted is only left-over data of a benchmark.
	_, _ = kadm.NewClient(e.client).DeleteTopics(ctx, e.topics...)
	e.client.Close()
}
