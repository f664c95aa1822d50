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
// settings alternate names and values.
func (e *env) topic(partitions int, settings ...string) (string, error) {
	name := fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano())
	e.topics = append(e.topics, name)
	return name, e.named(name, partitions, settings...)
}

// named is topic with a name that is chosen; the topic stays.
func (e *env) named(name string, partitions int, settings ...string) error {
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
	configs := make(map[string]*string)
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	if _, err := adm.CreateTopic(ctx, int32(partitions), 1, configs, name); err != nil {
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
