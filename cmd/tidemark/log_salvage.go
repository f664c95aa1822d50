package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/salvage"
	"github.com/tidemark/tidemark/protocol/record"
)

func newLogSalvage(io streams) *cobra.Command {
	var (
		client clientFlags
		o      salvageOptions
	)
	cmd := &cobra.Command{
		Use:   "salvage FILE|DIR...",
		Short: "Find the whole batches in damaged segments, and export them",
		Long: "Reads segment files of one partition, or directories of them, of one replica or of several, over\n" +
			"all that is no batch, and says which offsets survive and what does not. Where replicas hold the same\n" +
			"offsets, the batches of the later leader epoch count. With --out what survives is written as a new\n" +
			"partition directory, offsets unchanged; with --topic its records are produced to a topic of a running\n" +
			"broker, without those of transactions that were not committed. The files are only read. Exits with 1\n" +
			"if anything is lost.",
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := salvage.Look(osfs.New(), args)
			if err != nil {
				return err
			}
			if err := o.tell(s, io.out); err != nil {
				return err
			}
			if o.out != "" {
				raised, err := s.Export(osfs.New(), o.out)
				if err != nil {
					return err
				}
				fmt.Fprintf(io.err, "%d batches written to %s; leader epochs raised to keep their order: %d\n", s.Batches(), o.out, raised)
			}
			if o.topic != "" {
				cl, err := client.open(o.producer()...)
				if err != nil {
					return err
				}
				defer cl.Close()
				sent, hidden, err := produceSurvivors(cmd.Context(), cl, s, o.partition)
				fmt.Fprintf(io.err, "%d records produced to %s; %d batches hold no committed records\n", sent, o.topic, hidden)
				if err != nil {
					return err
				}
			}
			if len(s.Losses) > 0 {
				return errFound
			}
			return nil
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().StringVar(&o.out, "out", "", "write what survives to this directory, which must not exist")
	cmd.Flags().StringVar(&o.topic, "topic", "", "produce the records to this topic")
	cmd.Flags().Int32Var(&o.partition, "partition", -1, "with --topic: to this partition; -1 chooses by key")
	cmd.Flags().BoolVar(&o.json, "json", false, "one JSON object a line")
	return cmd
}

type salvageOptions struct {
	out, topic string
	partition  int32
	json       bool
}

// producer are the options of the client that --topic needs.
func (o *salvageOptions) producer() []kgo.Opt {
	opts := []kgo.Opt{kgo.DefaultProduceTopic(o.topic), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(8)}
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts
}

// survivorLine and lossLine are the lines of the JSON output.
type (
	survivorLine struct {
		Type        string            `json:"type"`
		File        string            `json:"file"`
		Position    int64             `json:"position"`
		Bytes       int64             `json:"bytes"`
		FirstOffset model.Offset      `json:"firstOffset"`
		LastOffset  model.Offset      `json:"lastOffset"`
		FirstEpoch  model.LeaderEpoch `json:"firstEpoch"`
		LastEpoch   model.LeaderEpoch `json:"lastEpoch"`
		Batches     int64             `json:"batches"`
		Records     int64             `json:"records"`
	}
	lossLine struct {
		Type        string        `json:"type"`
		File        string        `json:"file,omitempty"`
		Position    int64         `json:"position"`
		Bytes       int64         `json:"bytes"`
		FirstOffset *model.Offset `json:"firstOffset,omitempty"`
		LastOffset  *model.Offset `json:"lastOffset,omitempty"`
		Why         string        `json:"why"`
	}
)

// tell writes what survives and what does not.
func (o *salvageOptions) tell(s *salvage.Survey, w io.Writer) error {
	for _, r := range s.Chosen {
		var err error
		if o.json {
			err = jsonLine(w, survivorLine{
				"survivor", r.File, r.Pos, r.Bytes, r.First, r.Last, r.FirstEpoch, r.LastEpoch, r.Batches, r.Records,
			})
		} else {
			_, err = fmt.Fprintf(w, "offsets [%d, %d] of epochs %d to %d: %d batches, %d records, %d bytes at %d of %s\n",
				r.First, r.Last, r.FirstEpoch, r.LastEpoch, r.Batches, r.Records, r.Bytes, r.Pos, r.File)
		}
		if err != nil {
			return err
		}
	}
	for _, l := range s.Losses {
		if err := o.loss(l, w); err != nil {
			return err
		}
	}
	return nil
}

func (o *salvageOptions) loss(l salvage.Loss, w io.Writer) error {
	if o.json {
		line := lossLine{Type: "loss", File: l.File, Position: l.Pos, Bytes: l.Bytes, Why: l.Why}
		if l.First >= 0 {
			line.FirstOffset, line.LastOffset = &l.First, &l.Last
		}
		return jsonLine(w, line)
	}
	text := "lost:"
	if l.First >= 0 {
		text += fmt.Sprintf(" offsets [%d, %d]", l.First, l.Last)
	}
	if l.File != "" {
		text += fmt.Sprintf(" %d bytes at %d of %s", l.Bytes, l.Pos, l.File)
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", text, l.Why)
	return err
}

func jsonLine(w io.Writer, l any) error {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}

// produceSurvivors sends the committed records of what was chosen, and returns
// how many were acknowledged and how many batches held none.
func produceSurvivors(ctx context.Context, cl *kgo.Client, s *salvage.Survey, partition int32) (sent, hidden int64, err error) {
	committed, err := s.Transactions(osfs.New())
	if err != nil {
		return 0, 0, err
	}
	out := newSender(ctx, cl)
	err = s.Each(osfs.New(), func(b record.Batch) error {
		if !committed.Shows(b) {
			hidden++
			return nil
		}
		return b.Each(record.DefaultDecompressedMax, func(r *record.Record) error {
			if !out.ok() {
				return errStopped
			}
			out.send(clientRecord(r, partition))
			return nil
		})
	})
	sent, sendErr := out.finish()
	if sendErr != nil || errors.Is(err, errStopped) {
		err = sendErr
	}
	return sent, hidden, err
}

// errStopped ends the reading once the producing has failed.
var errStopped = errors.New("stopped")

// clientRecord is a record for the client, which keeps its bytes for a while.
func clientRecord(r *record.Record, partition int32) *kgo.Record {
	out := &kgo.Record{
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Partition: partition,
		Timestamp: time.UnixMilli(int64(r.Timestamp)),
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: string(h.Key), Value: bytes.Clone(h.Value)})
	}
	return out
}
