package main

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lineBytesMax bounds one input line; the broker's message.max.bytes is far
// smaller, so a longer line is a mistake that is better named than buffered.
const lineBytesMax = 64 << 20

func newProduce(io streams) *cobra.Command {
	var (
		client    clientFlags
		codec     string
		separator string
	)
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send each line of standard input as a record",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			compression, err := parseCodec(codec)
			if err != nil {
				return err
			}
			cl, err := client.open(kgo.DefaultProduceTopic(args[0]), kgo.AllowAutoTopicCreation(),
				kgo.ProducerBatchCompression(compression), kgo.UnknownTopicRetries(8))
			if err != nil {
				return err
			}
			defer cl.Close()
			n, err := produceLines(cmd.Context(), cl, io.in, separator)
			fmt.Fprintf(io.err, "%d records acknowledged\n", n)
			return err
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().StringVar(&codec, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	cmd.Flags().StringVar(&separator, "key-separator", "", "what stands between key and value in a line; empty sends no keys")
	return cmd
}

func parseCodec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), &usageError{fmt.Errorf("--compression %q: want none, gzip, snappy, lz4 or zstd", name)}
}

// produceLines sends each line of in and returns how many the broker
// acknowledged; the first failure ends it.
func produceLines(ctx context.Context, cl *kgo.Client, in io.Reader, separator string) (int64, error) {
	s := newSender(ctx, cl)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), lineBytesMax)
	for s.ok() && lines.Scan() {
		s.send(lineRecord(lines.Text(), separator))
	}
	n, err := s.finish()
	if readErr := lines.Err(); readErr != nil {
		err = fmt.Errorf("read standard input: %w", readErr)
	}
	return n, err
}
