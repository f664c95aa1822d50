package salvage

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
)

// Run is a row of whole batches that lie one behind the other in one file.
// Offsets and leader epochs rise in it.
type Run struct {
	File string
	// Pos and Bytes say where in the file.
	Pos, Bytes int64
	// First and Last are the first and the last offset.
	First, Last model.Offset
	// FirstEpoch and LastEpoch are the leader epochs of its ends.
	FirstEpoch, LastEpoch model.LeaderEpoch
	Batches, Records      int64
	// sparse: it was joined out of several, so that not every offset from First
	// to Last need lie in one of its batches.
	sparse bool
	// stray: it does not fit in with most of what is in its file.
	stray bool
}

// begin makes a run of one batch.
func begin(file string, f scan.Placed) Run {
	r := Run{File: file, Pos: f.Pos, First: f.BaseOffset(), FirstEpoch: f.LeaderEpoch()}
	r.extend(f)
	return r
}

// continues reports whether a batch goes on where the run ends, in the same
// epoch.
func (r *Run) continues(f scan.Placed) bool {
	return f.Pos == r.Pos+r.Bytes && f.BaseOffset() == r.Last+1 && f.LeaderEpoch() == r.LastEpoch
}

func (r *Run) extend(f scan.Placed) {
	r.Bytes += int64(len(f.Batch))
	r.Last, r.LastEpoch = f.LastOffset(), f.LeaderEpoch()
	r.Batches++
	r.Records += int64(f.Count())
}

// rows are what a run was joined out of.
func (r *Run) rows(fs vfs.FS) (rows []Run, err error) {
	err = r.each(fs, func(f scan.Placed) error {
		if n := len(rows); n > 0 && rows[n-1].continues(f) {
			rows[n-1].extend(f)
		} else {
			rows = append(rows, begin(r.File, f))
		}
		return nil
	})
	return rows, err
}

// each calls fn with each batch of the run, valid until fn returns.
func (r *Run) each(fs vfs.FS, fn func(f scan.Placed) error) (err error) {
	src, err := scan.Open(fs, r.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	for pos := r.Pos; pos < r.Pos+r.Bytes; {
		b, why, err := src.Batch(pos)
		if err == nil && why == "" {
			err = b.CheckCRC()
		} else if err == nil {
			err = errors.New(why)
		}
		if err != nil {
			return fmt.Errorf("%s: position %d, which was whole before: %w", r.File, pos, err)
		}
		f := scan.Placed{Batch: b, Pos: pos, Sum: b.CRC(), Valid: true}
		pos += int64(len(b))
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// Loss is something that is not among what was chosen.
type Loss struct {
	File string
	// Pos and Bytes say where in the file; both 0 for offsets that are nowhere.
	Pos, Bytes int64
	// First and Last bound the offsets, NoOffset where they are not known.
	First, Last model.Offset
	Why         string
}
