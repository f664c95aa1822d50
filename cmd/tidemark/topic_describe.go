package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

func newTopicDescribe(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Show each partition's leader, epoch, replicas, in-sync set and offsets",
		Long: "Shows each partition: leader and leader epoch (leader=-1: none), the assigned replicas,\n" +
			"those in sync (isr), those outside the in-sync set that hold everything committed and\n" +
			"may lead (elr), the last members of both when both ran empty (last-known), those on\n" +
			"brokers that are offline, and the first and the next offset that consumers see.",
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := client.open(kgo.RequestRetries(2))
			if err != nil {
				return err
			}
			defer cl.Close()
			topics, err := askTopics(cmd.Context(), cl, args)
			if err != nil {
				return fmt.Errorf("describe topics: %w", err)
			}
			adm := kadm.NewClient(cl)
			starts, err := adm.ListStartOffsets(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("list start offsets: %w", err)
			}
			ends, err := adm.ListEndOffsets(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("list end offsets: %w", err)
			}
			for _, name := range args {
				if err := describeTopic(io.out, name, topics, starts, ends); err != nil {
					return err
				}
			}
			return nil
		},
	}
	client.register(cmd.Flags())
	return cmd
}

// askTopics asks for the topics named, page by page, and returns them by name.
func askTopics(ctx context.Context, cl *kgo.Client, names []string) (map[string]*kmsg.DescribeTopicPartitionsResponseTopic, error) {
	topics := make(map[string]*kmsg.DescribeTopicPartitionsResponseTopic)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, err
		}
		for i := range resp.Topics {
			t := &resp.Topics[i]
			if t.Topic == nil {
				continue
			}
			if first := topics[*t.Topic]; first != nil {
				first.Partitions = append(first.Partitions, t.Partitions...)
				continue
			}
			topics[*t.Topic] = t
		}
		if resp.NextCursor == nil {
			return topics, nil
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &next
	}
}

func describeTopic(out io.Writer, name string, topics map[string]*kmsg.DescribeTopicPartitionsResponseTopic, starts, ends kadm.ListedOffsets) error {
	t := topics[name]
	if t == nil {
		return topicError("describe", name, kerr.UnknownTopicOrPartition, "")
	}
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return topicError("describe", name, err, "")
	}
	replicas := 0
	if len(t.Partitions) > 0 {
		replicas = len(t.Partitions[0].Replicas)
	}
	fmt.Fprintf(out, "topic=%s id=%s partitions=%d replication-factor=%d\n", name, model.TopicID(t.TopicID), len(t.Partitions), replicas)
	for i := range t.Partitions {
		p := &t.Partitions[i]
		_, err := fmt.Fprintf(out, "  partition=%d leader=%d epoch=%d replicas=%s isr=%s elr=%s last-known=%s offline=%s start=%s end=%s\n",
			p.Partition, p.LeaderID, p.LeaderEpoch, joinIDs(p.Replicas), joinIDs(p.ISR), joinIDs(p.EligibleLeaderReplicas),
			joinIDs(p.LastKnownELR), joinIDs(p.OfflineReplicas),
			listed(starts, name, p.Partition), listed(ends, name, p.Partition))
		if err != nil {
			return err
		}
	}
	return nil
}

// listed prints an offset that was asked for, "-" if there was nobody to ask.
func listed(offsets kadm.ListedOffsets, topic string, partition int32) string {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return "-"
	}
	return known(o.Offset)
}
