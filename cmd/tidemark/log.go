package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/dump"
	"github.com/tidemark/tidemark/log/verify"
)

func newLog(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at the files of a data directory"}
	cmd.AddCommand(newLogDump(io), newLogVerify(io), newLogRepair(io), newLogSalvage(io), newReceipts(io))
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
	cmd.Flags().BoolVar(&opts.Data, "data", false, "print keys and values too; those of __consumer_offsets are decoded")
	return cmd
}

func newLogVerify(io streams) *cobra.Command {
	var opts verify.Options
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Check a data directory: batches, and all that is derived from them",
		Long: "Reads every batch under the directories (a data directory, a log directory or a partition's) and\n" +
			"compares indexes, seals, producer snapshots, leader epochs and checkpoints with them. Reads only;\n" +
			"the broker should be stopped. What it finds is graded: note; derived, a file that can be made anew;\n" +
			"tail, the torn end of a last write; damage, records that are wrong or gone. Exits with 1 if it finds\n" +
			"more than notes.",
		Args: minArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := verify.Run(osfs.New(), args, opts, io.out)
			if err == nil && found {
				return errFound
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "one JSON object a line")
	cmd.Flags().BoolVar(&opts.Deep, "deep", false, "decode the records of each batch too")
	cmd.Flags().BoolVar(&opts.Quiet, "quiet", false, "leave out partitions with nothing to tell")
	return cmd
}
