package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench"
)

func newPerf(io streams) *cobra.Command {
	var (
		target bench.Target
		only   string
		rounds int
		scale  float64
	)
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure a running broker with pre-encoded requests",
		Long: "Runs the benchmark cells against a running broker, Tidemark or any other that speaks\n" +
			"the Kafka protocol, and prints the median of the rounds. With --pid the broker's CPU\n" +
			"and memory are measured too. Each cell works in a topic of its own and deletes it.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			match, err := regexp.Compile(only)
			if err != nil {
				return &usageError{fmt.Errorf("--cells: %w", err)}
			}
			if rounds < 1 || scale <= 0 {
				return &usageError{errors.New("--rounds and --scale must be positive")}
			}
			var medians []bench.Result
			for _, cell := range bench.Cells() {
				if !match.MatchString(cell.Name) || cmd.Context().Err() != nil {
					continue
				}
				var rs []bench.Result
				for range rounds {
					r, err := cell.Run(target, scale)
					if err != nil {
						return err
					}
					rs = append(rs, r)
				}
				medians = append(medians, bench.Median(rs))
				fmt.Fprintf(io.err, "%s done\n", cell.Name)
			}
			if len(medians) == 0 && cmd.Context().Err() == nil {
				return &usageError{fmt.Errorf("--cells %q: no cell has such a name", only)}
			}
			return bench.WriteTable(io.out, medians)
		},
	}
	cmd.Flags().StringVar(&target.Addr, "bootstrap-server", "localhost:9092", "the broker to measure, HOST:PORT")
	cmd.Flags().IntVar(&target.PID, "pid", 0, "the broker's process, to measure its CPU and memory; 0 measures neither")
	cmd.Flags().StringVar(&only, "cells", "", "run only the cells whose name matches this regular expression")
	cmd.Flags().IntVar(&rounds, "rounds", 3, "how often each cell runs; the median is printed")
	cmd.Flags().Float64Var(&scale, "scale", 1, "multiplies the work of each cell; 1 is a second or two")
	return cmd
}
