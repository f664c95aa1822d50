package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newConsume(io streams) *cobra.Command {
	var (
		client    clientFlags
		beginning bool
		exit      bool
		count     int64
		keys      string
	)
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the values of a topic's records, one a line",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start := kgo.NewOffset().AtEnd()
			if beginning {
				start = kgo.NewOffset().AtStart()
			}
			cl, err := client.open(kgo.ConsumeTopics(args[0]), kgo.ConsumeResetOffset(start))
			if err != nil {
				return err
			}
			defer cl.Close()
			c := consumer{client: cl, topic: args[0], remaining: count, keySeparator: keys}
			if exit {
				if err := c.stopAtEnd(cmd.Context()); err != nil {
					return err
				}
			}
			return c.run(cmd.Context(), io.out)
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().BoolVar(&beginning, "from-beginning", false, "start at the first record instead of the end")
	cmd.Flags().BoolVar(&exit, "exit", false, "stop at the end the topic had when the command started")
	cmd.Flags().Int64Var(&count, "count", -1, "stop after this many records; -1 goes on")
	cmd.Flags().StringVar(&keys, "key-separator", "", "print key, separator, value; empty prints values only")
	return cmd
}

// consumer prints records until its count or its ends are reached.
type consumer struct {
	client       *kgo.Client
	topic        string
	keySeparator string
	remaining    int64           // records still to print; negative is no limit
	ends         map[int32]int64 // partition → end to stop at; nil goes on
}

// stopAtEnd notes where each partition ends now; an empty one is done already.
func (c *consumer) stopAtEnd(ctx context.Context) error {
	adm := kadm.NewClient(c.client)
	starts, err := adm.ListStartOffsets(ctx, c.topic)
	if err != nil {
		return fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, c.topic)
	if err != nil {
		return fmt.Errorf("list end offsets: %w", err)
	}
	if err := ends.Error(); err != nil {
		return topicError("consume", c.topic, err, "")
	}
	c.ends = make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if s, ok := starts.Lookup(o.Topic, o.Partition); !ok || s.Offset < o.Offset {
			c.ends[o.Partition] = o.Offset
		}
	})
	return nil
}

func (c *consumer) run(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	defer out.Flush()
	for c.remaining != 0 && (c.ends == nil || len(c.ends) > 0) {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fatalFetch(fetches); err != nil {
			return fmt.Errorf("consume %q: %w", c.topic, err)
		}
		var writeErr error
		fetches.EachRecord(func(r *kgo.Record) {
			if writeErr == nil {
				writeErr = c.print(out, r)
			}
		})
		if writeErr != nil {
			return writeErr
		}
		// A person or a pipe is waiting for what came, not for a full buffer.
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// fatalFetch picks the errors that polling again would not cure.
func fatalFetch(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.Canceled) {
			return e.Err
		}
	}
	return nil
}

func (c *consumer) print(out *bufio.Writer, r *kgo.Record) error {
	if end, ok := c.ends[r.Partition]; c.ends != nil {
		if !ok {
			return nil
		}
		if r.Offset >= end-1 {
			delete(c.ends, r.Partition)
		}
	}
	if c.remaining == 0 {
		return nil
	}
	if c.remaining > 0 {
		c.remaining--
	}
	if c.keySeparator != "" {
		out.Write(r.Key)
		out.WriteString(c.keySeparator)
	}
	out.Write(r.Value)
	return out.WriteByte('\n')
}

// lineRecord turns an input line into a record; without a separator in it, a
// line is all value.
func lineRecord(line, separator string) *kgo.Record {
	if separator != "" {
		if k, v, ok := strings.Cut(line, separator); ok {
			return &kgo.Record{Key: []byte(k), Value: []byte(v)}
		}
	}
	return kgo.StringRecord(line)
}
