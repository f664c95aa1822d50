package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/log/repair"
)

func newLogRepair(io streams) *cobra.Command {
	var (
		o    repairOptions
		yes  bool
		kept string
	)
	cmd := &cobra.Command{
		Use:   "repair DIR...",
		Short: "Mend what verify finds, as far as it can be mended",
		Long: "Checks the directories as verify does and says what it would do: make derived files anew, cut off\n" +
			"the torn end of a last write, and with --cut also cut a log where damage begins. With --yes it does\n" +
			"so. The broker must be stopped. What is cut is kept first, with a receipt, in --kept-dir (see\n" +
			"receipts). Exits with 1 if something is left that it does not mend.",
		Args: minArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if yes && kept == "" {
				return &usageError{errors.New("--yes needs --kept-dir, the node's tidemark.kept.dir: what is cut goes there")}
			}
			o.store = receipt.New(receipt.Options{FS: osfs.New(), Dir: kept, BytesMax: 1 << 62, RetentionMs: -1})
			left := false
			for _, path := range args {
				l, err := o.mend(path, yes, io.out)
				if err != nil {
					return err
				}
				left = left || l
			}
			if left {
				return errFound
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, instead of only saying what would be done")
	cmd.Flags().BoolVar(&o.Cut, "cut", false, "cut logs where damage begins, though records behind it may be whole")
	cmd.Flags().StringVar(&kept, "kept-dir", "", "where what is cut is kept, with a receipt")
	return cmd
}

type repairOptions struct {
	repair.Options
	store *receipt.Store
}

// mend plans the repair of what is under a path, tells the plan, and carries it
// out if it may. left says that something stays as it is.
func (o *repairOptions) mend(path string, yes bool, out io.Writer) (left bool, err error) {
	fs := osfs.New()
	plan, err := repair.Plan(fs, path, o.Options)
	if err != nil {
		return false, err
	}
	if yes {
		unlock, err := lockFor(fs, plan)
		if err != nil {
			return false, err
		}
		defer unlock()
	}
	todo := 0
	for i := range plan {
		p := &plan[i]
		tellRepair(out, p)
		left = left || p.Left != ""
		if p.Nothing() || p.Left != "" {
			continue
		}
		todo++
		if !yes {
			continue
		}
		now := model.Now{Wall: model.Timestamp(time.Now().UnixMilli())}
		if err := p.Apply(fs, o.store, now); err != nil {
			return left, err
		}
		fmt.Fprintln(out, "  done")
	}
	if todo > 0 && !yes {
		fmt.Fprintln(out, "nothing was changed; --yes does it")
	}
	return left, nil
}

// lockFor locks the log directory that a plan is of.
func lockFor(fs vfs.FS, plan []repair.Partition) (unlock func(), err error) {
	dir := filepath.Dir(plan[0].Dir)
	l, err := fs.Lock(filepath.Join(dir, checkpoint.LockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: a running broker uses it: stop it first: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

func tellRepair(out io.Writer, p *repair.Partition) {
	if p.Nothing() {
		return
	}
	fmt.Fprintf(out, "%s\n", p.Dir)
	if p.Damage != nil {
		fmt.Fprintf(out, "  found: %v\n", p.Damage)
	}
	for _, name := range p.Rebuild {
		fmt.Fprintf(out, "  make anew: %s\n", name)
	}
	if c := p.Cut; c != nil {
		fmt.Fprintf(out, "  cut at offset %d, position %d of %s: %d bytes go to the kept bytes", c.At, c.Pos, c.Segment, c.Bytes)
		if len(c.Segments) > 0 {
			fmt.Fprintf(out, ", with all of %d segments behind it", len(c.Segments))
		}
		fmt.Fprintln(out)
	}
	if p.Left != "" {
		fmt.Fprintf(out, "  left as it is: %s\n", p.Left)
	}
}
