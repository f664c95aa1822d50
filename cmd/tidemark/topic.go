package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/internal/model"
)

func newTopic(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "topic", Short: "Create, list, describe, move and delete topics"}
	cmd.AddCommand(newTopicCreate(io), newTopicList(io), newTopicDescribe(io), newTopicDelete(io),
		newTopicElectLeaders(io), newTopicReassign(io))
	return cmd
}

func newTopicCreate(io streams) *cobra.Command {
	var (
		client     clientFlags
		partitions int32
		replicas   int16
		configs    []string
	)
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			overrides, err := parseConfigs(configs)
			if err != nil {
				return err
			}
			adm, done, err := client.admin()
			if err != nil {
				return err
			}
			defer done()
			r, err := adm.CreateTopic(cmd.Context(), partitions, replicas, overrides, args[0])
			if err != nil {
				return topicError("create", args[0], err, r.ErrMessage)
			}
			_, err = fmt.Fprintf(io.out, "created %s partitions=%d replication-factor=%d id=%s\n", r.Topic, r.NumPartitions, r.ReplicationFactor, model.TopicID(r.ID))
			return err
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1 is the broker's num.partitions")
	cmd.Flags().Int16Var(&replicas, "replication-factor", -1, "replicas of each partition; -1 is the broker's default.replication.factor")
	cmd.Flags().StringArrayVar(&configs, "config", nil, "topic setting KEY=VALUE (repeatable)")
	return cmd
}

func parseConfigs(pairs []string) (map[string]*string, error) {
	overrides := make(map[string]*string, len(pairs))
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, &usageError{fmt.Errorf("--config %q: want KEY=VALUE", p)}
		}
		overrides[k] = &v
	}
	return overrides, nil
}

func newTopicList(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the topics, one name a line",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			adm, done, err := client.admin()
			if err != nil {
				return err
			}
			defer done()
			topics, err := adm.ListTopics(cmd.Context())
			if err != nil {
				return fmt.Errorf("list topics: %w", err)
			}
			for _, name := range topics.Names() {
				if _, err := fmt.Fprintln(io.out, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	client.register(cmd.Flags())
	return cmd
}

func joinIDs(ids []int32) string {
	if len(ids) == 0 {
		return "-"
	}
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprint(id)
	}
	return strings.Join(parts, ",")
}

func newTopicDelete(io streams) *cobra.Command {
	var client clientFlags
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete topics and their records",
		Args:  minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			adm, done, err := client.admin()
			if err != nil {
				return err
			}
			defer done()
			rs, err := adm.DeleteTopics(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("delete topics: %w", err)
			}
			for _, name := range args {
				r := rs[name]
				if r.Err != nil {
					return topicError("delete", name, r.Err, r.ErrMessage)
				}
				if _, err := fmt.Fprintf(io.out, "deleted %s\n", name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	client.register(cmd.Flags())
	return cmd
}

// topicError says what failed in the broker's own words where it gave some.
func topicError(verb, name string, err error, message string) error {
	if message != "" {
		return fmt.Errorf("%s topic %q: %w: %s", verb, name, err, message)
	}
	return fmt.Errorf("%s topic %q: %w", verb, name, err)
}
