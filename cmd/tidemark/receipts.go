package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

func newReceipts(io streams) *cobra.Command {
	var (
		kept   string
		topic  string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "receipts",
		Short: "List what was cut from logs, and why",
		Long: "Lists the receipts of a node: what left its logs other than by retention, DeleteRecords,\n" +
			"compaction or a topic's deletion, why, and where the bytes are kept. Reads only; the broker\n" +
			"may run.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			list, torn, err := receipt.Read(osfs.New(), kept)
			if err != nil {
				return err
			}
			if torn > 0 {
				fmt.Fprintf(io.err, "%d lines of the journal were cut short and are no receipts\n", torn)
			}
			for i := range list {
				if topic != "" && list[i].Topic != topic {
					continue
				}
				if err := showReceipt(io.out, kept, &list[i], asJSON); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.PersistentFlags().StringVar(&kept, "kept-dir", "./tidemark-data/kept", "the node's tidemark.kept.dir")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	cmd.Flags().StringVar(&topic, "topic", "", "only what left this topic")
	cmd.AddCommand(newReceiptsRestore(io, &kept))
	return cmd
}

func showReceipt(out io.Writer, kept string, r *receipt.Receipt, asJSON bool) error {
	held := receipt.Holds(osfs.New(), kept, r)
	if asJSON {
		return jsonLine(out, struct {
			*receipt.Receipt
			Held bool `json:"held"`
		}{r, held})
	}
	what := r.Dir
	if r.Topic != "" {
		what = fmt.Sprintf("%s-%d", r.Topic, r.Partition)
	}
	line := fmt.Sprintf("%d %s %s %s", r.ID, r.Time, r.Cause, what)
	if r.End > r.Start {
		line += fmt.Sprintf(" offsets=%d..%d", r.Start, r.End-1)
	}
	line += fmt.Sprintf(" records=%d bytes=%d", r.Records, r.Bytes)
	if r.BelowHighWatermark {
		line += " below-high-watermark"
	}
	if n := len(r.OpenTransactions); n > 0 {
		line += fmt.Sprintf(" open-transactions=%d", n)
	}
	switch {
	case held:
		line += " kept=" + filepath.Join(kept, r.Kept)
	case r.Again != 0:
		line += fmt.Sprintf(" again=%d", r.Again)
	case r.Kept != "":
		line += " kept=no (gave way)"
	default:
		line += " kept=no (" + cmp.Or(r.NotKept, "nothing to keep") + ")"
	}
	if r.Detail != "" {
		line += ": " + r.Detail
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func newReceiptsRestore(io streams, kept *string) *cobra.Command {
	var (
		client clientFlags
		topic  string
		out    string
	)
	cmd := &cobra.Command{
		Use:   "restore ID",
		Short: "Give kept bytes back: as records of a topic, or as segment files",
		Long: "With --topic, sends the kept records to partition 0 of a topic, which is created with one\n" +
			"partition if there is none of that name: keys, values, headers and timestamps as they were, and\n" +
			"a header tidemark.offset with the offset that each had. Records of transactions are sent as\n" +
			"plain ones, whatever became of the transaction. With --out, copies the kept files into a\n" +
			"directory instead, segments under names that Kafka's tools read. What does not parse as whole\n" +
			"batches is in the files only; then the exit code is 1.",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || (topic == "") == (out == "") {
				return &usageError{errors.New("want the number of a receipt, and either --topic or --out")}
			}
			r, err := findReceipt(*kept, id)
			if err != nil {
				return err
			}
			if out != "" {
				return exportReceipt(io.out, *kept, r, out)
			}
			return restoreTopic(cmd.Context(), io, &client, topic, *kept, r)
		},
	}
	client.register(cmd.Flags())
	cmd.Flags().StringVar(&topic, "topic", "", "topic that the records are sent to")
	cmd.Flags().StringVar(&out, "out", "", "directory that the files are copied to")
	return cmd
}

// findReceipt returns the receipt that has the bytes of one: an earlier one if
// the same bytes were about to leave before.
func findReceipt(kept string, id int64) (*receipt.Receipt, error) {
	list, _, err := receipt.Read(osfs.New(), kept)
	if err != nil {
		return nil, err
	}
	for i := range list {
		r := &list[i]
		switch {
		case r.ID != id:
		case r.Again != 0 && r.Again < id:
			return findReceipt(kept, r.Again)
		case !receipt.Holds(osfs.New(), kept, r):
			return nil, fmt.Errorf("receipt %d: the bytes are not kept: %s", id, cmp.Or(r.NotKept, "they gave way"))
		default:
			return r, nil
		}
	}
	return nil, fmt.Errorf("there is no receipt %d in %s", id, kept)
}

// keptFiles lists the paths of a receipt's bytes.
func keptFiles(kept string, r *receipt.Receipt) ([]string, error) {
	dir := filepath.Join(kept, r.Kept)
	names, err := osfs.New().List(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		if name != "receipt.json" {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

func exportReceipt(out io.Writer, kept string, r *receipt.Receipt, to string) error {
	paths, err := keptFiles(kept, r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, path := range paths {
		target := filepath.Join(to, filepath.Base(path))
		n, err := copyNew(target, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %d bytes\n", target, n)
	}
	return nil
}

// copyNew copies a file to a name that nothing has.
func copyNew(to, from string) (n int64, err error) {
	src, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if n, err = io.Copy(dst, src); err != nil {
		return n, err
	}
	return n, dst.Sync()
}

// restoreTopic sends the kept records of a receipt to a topic.
func restoreTopic(ctx context.Context, io streams, client *clientFlags, topic, kept string, r *receipt.Receipt) error {
	paths, err := keptFiles(kept, r)
	if err != nil {
		return err
	}
	if err := ensureTopic(ctx, client, topic); err != nil {
		return err
	}
	cl, err := client.open(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(8))
	if err != nil {
		return err
	}
	defer cl.Close()
	out, whole := newSender(ctx, cl), true
	for _, path := range paths {
		if !strings.HasSuffix(path, ".log") {
			continue
		}
		var some bool
		if some, err = restoreFile(io, out, path); err != nil {
			break
		}
		whole = whole && some
	}
	sent, sendErr := out.finish()
	if sendErr != nil || errors.Is(err, errStopped) {
		err = sendErr
	}
	fmt.Fprintf(io.err, "%d records produced to %s\n", sent, topic)
	if err == nil && !whole {
		err = errFound
	}
	return err
}

// restoreFile sends the records of a kept segment. whole is false if some of its
// bytes are no sound batch; they are left out. Control records are not a client's
// to send.
func restoreFile(io streams, out *sender, path string) (whole bool, err error) {
	src, err := scan.Open(osfs.New(), path)
	if err != nil {
		return false, err
	}
	defer src.Close()
	whole = true
	w := scan.NewWalker(src, -1)
	w.Skipped = func(pos, n int64, why string) {
		whole = false
		fmt.Fprintf(io.err, "%s: %d bytes at %d are left out: %s\n", path, n, pos, why)
	}
	for {
		f, ok, err := w.Next()
		if err != nil || !ok {
			return whole, err
		}
		if !f.Valid {
			w.Skipped(f.Pos, int64(len(f.Batch)), "wrong checksum")
			continue
		}
		if f.IsControl() {
			continue
		}
		err = f.Each(record.DefaultDecompressedMax, func(r *record.Record) error {
			if !out.ok() {
				return errStopped
			}
			back := clientRecord(r, 0)
			back.Headers = append(back.Headers, kgo.RecordHeader{Key: "tidemark.offset", Value: strconv.AppendInt(nil, int64(r.Offset), 10)})
			out.send(back)
			return nil
		})
		if err != nil {
			return whole, err
		}
	}
}

// ensureTopic creates a topic with one partition if there is none of that name.
func ensureTopic(ctx context.Context, client *clientFlags, topic string) error {
	adm, done, err := client.admin()
	if err != nil {
		return err
	}
	defer done()
	r, err := adm.CreateTopic(ctx, 1, -1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return topicError("create", topic, err, r.ErrMessage)
	}
	return nil
}
