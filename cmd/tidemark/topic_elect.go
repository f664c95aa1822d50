package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newTopicElectLeaders(io streams) *cobra.Command {
	var (
		client  clientFlags
		unclean bool
		all     bool
	)
	cmd := &cobra.Command{
		Use:   "elect-leaders [TOPIC | TOPIC:PARTITION]...",
		Short: "Have partitions be led by their first replica, or at any price",
		Long: "Asks the controller for an election: without --unclean of the first replica of each\n" +
			"partition, if it is in sync; with --unclean of any replica that is left, for partitions\n" +
			"that have no leader. An unclean election drops the acknowledged records that the new\n" +
			"leader lacks. Partitions that need no election are passed over.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return &usageError{errors.New("want topics or partitions, or --all")}
			}
			adm, done, err := client.admin()
			if err != nil {
				return err
			}
			defer done()
			var which kadm.TopicsSet
			if !all {
				topics, err := adm.ListTopics(cmd.Context())
				if err != nil {
					return fmt.Errorf("list topics: %w", err)
				}
				if which, err = parsePartitions(args, topics); err != nil {
					return err
				}
			}
			how := kadm.ElectPreferredReplica
			if unclean {
				how = kadm.ElectLiveReplica
			}
			rs, err := adm.ElectLeaders(cmd.Context(), how, which)
			if err != nil {
				return fmt.Errorf("elect leaders: %w", err)
			}
			return printElections(io, rs)
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "every partition of the cluster")
	cmd.Flags().BoolVar(&unclean, "unclean", false, "let a replica lead that may lack acknowledged records")
	return cmd
}

func printElections(io streams, rs kadm.ElectLeadersResults) error {
	var all []kadm.ElectLeadersResult
	for _, t := range rs {
		for _, r := range t {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b kadm.ElectLeadersResult) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	failed := 0
	for _, r := range all {
		what := "elected"
		switch {
		case errors.Is(r.Err, kerr.ElectionNotNeeded):
			what = "not needed"
		case r.Err != nil:
			failed++
			what = "failed: " + describe(r.Err, r.ErrMessage)
		}
		if _, err := fmt.Fprintf(io.out, "%s:%d %s\n", r.Topic, r.Partition, what); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d elections failed", failed, len(all))
	}
	return nil
}

// describe joins an error and the broker's own words, where it gave some.
func describe(err error, message string) string {
	if message == "" {
		return err.Error()
	}
	return err.Error() + ": " + message
}

// parsePartitions reads TOPIC, which stands for all its partitions, and
// TOPIC:PARTITION.
func parsePartitions(args []string, topics kadm.TopicDetails) (kadm.TopicsSet, error) {
	set := make(kadm.TopicsSet)
	for _, arg := range args {
		topic, number, one := strings.Cut(arg, ":")
		if one {
			p, err := strconv.ParseInt(number, 10, 32)
			if err != nil || p < 0 {
				return nil, &usageError{fmt.Errorf("%q: want TOPIC or TOPIC:PARTITION", arg)}
			}
			set.Add(topic, int32(p))
			continue
		}
		t, ok := topics[topic]
		if !ok {
			return nil, topicError("find", topic, kerr.UnknownTopicOrPartition, "")
		}
		for _, p := range t.Partitions {
			set.Add(topic, p.Partition)
		}
	}
	return set, nil
}
