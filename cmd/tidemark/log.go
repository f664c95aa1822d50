package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/dump"
)

func newLog(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at the files of a data directory"}
	cmd.AddCommand(newLogDump(io))
	return cmd
}

func newLogDump(io streams) *cobra.Command {
	var opts dump.Options
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print segments, indexes, snapshots and checkpoints",
		Long: "Prints what files of a log directory hold, told apart by their names: segments, offset,\n" +
			"time and transaction indexes, producer snapshots, checkpoints, partition.metadata,\n" +
			"meta.properties. Reads only. Goes on behind damage where it can, and then exits with 1.",
		Args: minArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := dump.Run(osfs.New(), args, opts, io.out)
			if err == nil && found {
				return errFound
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "one JSON object a line")
	cmd.Flags().BoolVar(&opts.Deep, "deep", false, "print each record of a segment, not only its batches")
	cmd.Flags().BoolVar(&opts.Data, "data", false, "with --deep: print keys, values and headers too")
	return cmd
}
