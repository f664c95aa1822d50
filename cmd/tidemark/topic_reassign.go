package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopicReassign(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "reassign", Short: "Move replicas between brokers"}
	cmd.AddCommand(newReassignExecute(io), newReassignList(io), newReassignCancel(io))
	return cmd
}

func newReassignExecute(io streams) *cobra.Command {
	var (
		client clientFlags
		file   string
	)
	cmd := &cobra.Command{
		Use:   "execute [TOPIC:PARTITION=ID,ID,...]...",
		Short: "Begin to move partitions to the brokers named",
		Long: "Begins to move each partition to the brokers that are named for it, the first of which\n" +
			"is to lead. The new replicas copy the log, and the old ones go once these are in sync:\n" +
			"topic reassign list shows what is still under way. --file takes the form of Kafka's\n" +
			"tools: {\"partitions\":[{\"topic\":\"t\",\"partition\":0,\"replicas\":[1,2,3]}]}.",
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := readPlan(args, file, io.in)
			if err != nil {
				return err
			}
			return alterAssignments(cmd, io, &client, plan, "moving")
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().StringVar(&file, "file", "", "file with the plan as JSON; - is standard input")
	return cmd
}

// readPlan reads what to move from arguments and a file.
func readPlan(args []string, file string, stdin io.Reader) (kadm.AlterPartitionAssignmentsReq, error) {
	plan := make(kadm.AlterPartitionAssignmentsReq)
	for _, arg := range args {
		where, to, ok := strings.Cut(arg, "=")
		topic, partition, err := parsePartition(where)
		if !ok || err != nil {
			return nil, &usageError{fmt.Errorf("%q: want TOPIC:PARTITION=ID[,ID]", arg)}
		}
		ids, err := parseIDs(to)
		if err != nil {
			return nil, &usageError{fmt.Errorf("%q: %w", arg, err)}
		}
		plan.Assign(topic, partition, ids)
	}
	if file == "" {
		if len(plan) == 0 {
			return nil, &usageError{errors.New("want partitions to move, or --file")}
		}
		return plan, nil
	}
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--file: %w", err)}
		}
		defer f.Close()
		in = f
	}
	var parsed struct {
		Partitions []struct {
			Topic     string  `json:"topic"`
			Partition int32   `json:"partition"`
			Replicas  []int32 `json:"replicas"`
		} `json:"partitions"`
	}
	if err := json.NewDecoder(in).Decode(&parsed); err != nil {
		return nil, &usageError{fmt.Errorf("--file %s: %w", file, err)}
	}
	for _, p := range parsed.Partitions {
		if p.Topic == "" || len(p.Replicas) == 0 {
			return nil, &usageError{fmt.Errorf("--file %s: a partition without topic or replicas", file)}
		}
		plan.Assign(p.Topic, p.Partition, p.Replicas)
	}
	return plan, nil
}

func parsePartition(s string) (topic string, partition int32, err error) {
	topic, number, ok := strings.Cut(s, ":")
	p, err := strconv.ParseInt(number, 10, 32)
	if !ok || topic == "" || err != nil || p < 0 {
		return "", 0, fmt.Errorf("%q: want TOPIC:PARTITION", s)
	}
	return topic, int32(p), nil
}

func parseIDs(s string) ([]int32, error) {
	var ids []int32
	for _, part := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no broker's id", part)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// alterAssignments sends the plan and prints a line for each partition.
func alterAssignments(cmd *cobra.Command, io streams, client *clientFlags, plan kadm.AlterPartitionAssignmentsReq, did string) error {
	adm, done, err := client.admin()
	if err != nil {
		return err
	}
	defer done()
	rs, err := adm.AlterPartitionAssignments(cmd.Context(), plan)
	if err != nil {
		return fmt.Errorf("reassign: %w", err)
	}
	failed, all := 0, rs.Sorted()
	for _, r := range all {
		what := did
		if r.Err != nil {
			failed++
			what = "failed: " + describe(r.Err, r.ErrMessage)
		}
		if _, err := fmt.Fprintf(io.out, "%s:%d %s\n", r.Topic, r.Partition, what); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d partitions failed", failed, len(all))
	}
	return nil
}

func newReassignList(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the partitions that are being moved, one a line",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := client.open(kgo.RequestRetries(2))
			if err != nil {
				return err
			}
			defer cl.Close()
			req := kmsg.NewPtrListPartitionReassignmentsRequest() // without topics: all of them
			resp, err := req.RequestWith(cmd.Context(), cl)
			if err == nil {
				err = responseError(resp.ErrorCode, resp.ErrorMessage)
			}
			if err != nil {
				return fmt.Errorf("list reassignments: %w", err)
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					_, err := fmt.Fprintf(io.out, "%s:%d replicas=%s adding=%s removing=%s\n",
						t.Topic, p.Partition, joinIDs(p.Replicas), joinIDs(p.AddingReplicas), joinIDs(p.RemovingReplicas))
					if err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	client.register(cmd.Flags())
	return cmd
}

func newReassignCancel(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "cancel TOPIC:PARTITION...",
		Short: "Give up moving partitions; the replicas they had stay",
		Args:  minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := make(kadm.AlterPartitionAssignmentsReq)
			for _, arg := range args {
				topic, partition, err := parsePartition(arg)
				if err != nil {
					return &usageError{err}
				}
				plan.CancelAssign(topic, partition)
			}
			return alterAssignments(cmd, io, &client, plan, "cancelled")
		},
	}
	client.register(cmd.Flags())
	return cmd
}
