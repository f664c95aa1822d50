package repair

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/log/scan"
)

// ErrNotKept: what was to be cut could not be kept, so that it was not cut.
var ErrNotKept = errors.New("the bytes can't be kept, and nothing was cut")

// Apply does what was planned for one log. What is cut goes into the store first.
func (p *Partition) Apply(fs vfs.FS, store *receipt.Store, now model.Now) error {
	if p.Left != "" || p.Nothing() {
		return nil
	}
	a := &applier{Partition: p, fs: fs, store: store, now: now}
	if err := a.readMarks(); err != nil {
		return err
	}
	if err := a.cut(); err != nil {
		return fmt.Errorf("%s: cut: %w", p.Dir, err)
	}
	if err := a.forget(); err != nil {
		return fmt.Errorf("%s: %w", p.Dir, err)
	}
	return a.reopen()
}

// applier is the work of one Apply.
type applier struct {
	*Partition
	fs    vfs.FS
	store *receipt.Store
	now   model.Now
	// What the checkpoints say of the log.
	point, start, cleaned, hw model.Offset
}

func (a *applier) readMarks() error {
	if a.LogDir == "" {
		return nil
	}
	for file, into := range map[string]*model.Offset{ // order-free
		checkpoint.RecoveryPointFile: &a.point, checkpoint.LogStartFile: &a.start,
		checkpoint.CleanerFile: &a.cleaned, checkpoint.HighWatermarkFile: &a.hw,
	} {
		offsets, err := checkpoint.ReadOffsets(a.fs, filepath.Join(a.LogDir, file))
		var bad *checkpoint.FormatError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		*into = offsets[a.Topic]
	}
	return nil
}

// cut keeps what stands behind the cut and takes it off: a promise is taken back
// before it is broken, and the newest goes first, so that what a crash leaves is
// the beginning of a log.
func (a *applier) cut() error {
	if a.Cut == nil {
		return nil
	}
	m, err := a.removal()
	if err != nil {
		return err
	}
	of := receipt.Subject{
		TP: a.Topic, Dir: filepath.Dir(a.Dir), Cause: receipt.Repair, Detail: a.Damage.String(), HighWatermark: a.hw,
	}
	if id, ok, err := checkpoint.ReadPartitionMetadata(a.fs, filepath.Join(a.Dir, checkpoint.PartitionMetadataFile)); err == nil && ok {
		of.ID = model.TopicIDPartition{TopicID: id.TopicID, Partition: a.Topic.Partition}
	}
	// A start cuts even if there is no room to keep what it cuts; a person who
	// mends can make room first.
	switch kept, err := a.store.Keep(a.now.Wall, of, m); {
	case err != nil:
		return err
	case kept.Kept == "" && kept.Again == 0:
		return fmt.Errorf("%w: %s", ErrNotKept, kept.NotKept)
	}
	if err := a.lowerPoint(); err != nil {
		return err
	}
	for _, name := range slices.Backward(a.Cut.Segments) {
		if err := a.remove(sideOf(name)...); err != nil {
			return err
		}
		if err := a.remove(name); err != nil {
			return err
		}
	}
	if err := a.remove(sideOf(a.Cut.Segment)...); err != nil {
		return err
	}
	if err := a.fs.SyncDir(a.Dir); err != nil {
		return err
	}
	f, err := a.fs.OpenFile(filepath.Join(a.Dir, a.Cut.Segment), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(a.Cut.Pos), f.Sync(), f.Close())
}

// sideOf names what may stand beside a segment.
func sideOf(segment string) []string {
	stem := strings.TrimSuffix(segment, ".log")
	return []string{stem + ".index", stem + ".timeindex", stem + ".txnindex", stem + ".seal", stem + ".damaged"}
}

func (a *applier) remove(names ...string) error {
	for _, name := range names {
		if err := a.fs.Remove(filepath.Join(a.Dir, name)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removal describes what is taken off.
func (a *applier) removal() (*log.Removal, error) {
	m := &log.Removal{
		Why: "repair", File: filepath.Join(a.Dir, a.Cut.Segment), Pos: a.Cut.Pos, Bytes: a.Cut.Bytes,
		Start: a.Cut.At, End: max(a.Cut.At, a.Cut.End), FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch,
	}
	for _, name := range append([]string{a.Cut.Segment}, a.Cut.Segments...) {
		from := int64(0)
		if name == a.Cut.Segment {
			from = a.Cut.Pos
		}
		if err := a.describe(m, filepath.Join(a.Dir, name), from); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// describe counts the whole batches of a file from a position on.
func (a *applier) describe(m *log.Removal, path string, from int64) (err error) {
	src, err := scan.Open(a.fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if src.Size() > from {
		first := scan.FloorOf(path) + 1
		if from > 0 {
			first = a.Cut.At
		}
		m.Parts = append(m.Parts, log.Part{File: path, Pos: from, Bytes: src.Size() - from, First: first})
	}
	w := scan.NewWalker(src, scan.FloorOf(path))
	for {
		f, ok, err := w.Next()
		if err != nil || !ok {
			return err
		}
		if f.Pos < from || !f.Valid {
			continue
		}
		if m.Batches == 0 {
			m.FirstEpoch = f.LeaderEpoch()
		}
		if n := len(m.Epochs); n == 0 || m.Epochs[n-1].Epoch != f.LeaderEpoch() {
			m.Epochs = append(m.Epochs, epoch.Entry{Epoch: f.LeaderEpoch(), Start: f.BaseOffset()})
		}
		m.LastEpoch = f.LeaderEpoch()
		m.Batches++
		m.Records += int64(f.Count())
		m.End = max(m.End, f.NextOffset())
	}
}

// lowerPoint lowers the recovery point to the cut.
func (a *applier) lowerPoint() error {
	if a.point <= a.Cut.At {
		return nil
	}
	a.point = a.Cut.At
	path := filepath.Join(a.LogDir, checkpoint.RecoveryPointFile)
	offsets, err := checkpoint.ReadOffsets(a.fs, path)
	if err != nil {
		return err
	}
	offsets[a.Topic] = a.Cut.At
	return checkpoint.WriteOffsets(a.fs, path, offsets)
}

// forget removes derived files that are wrong, and notes of damage, so that they
// are made anew.
func (a *applier) forget() error {
	for _, name := range a.Rebuild {
		if name == checkpoint.PartitionMetadataFile {
			continue // the topic's id can't be made anew
		}
		if err := a.remove(name); err != nil {
			return err
		}
	}
	names, err := a.fs.List(a.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".damaged") {
			if err := a.remove(name); err != nil {
				return err
			}
		}
	}
	return a.fs.SyncDir(a.Dir)
}

// reopen has package log make anew what is missing.
func (a *applier) reopen() error {
	l, _, err := log.Open(log.Options{
		FS: a.fs, Dir: a.Dir, Partition: a.Topic, Stop: log.StopPower, Now: a.now,
		RecoveryPoint: a.point, LogStart: a.start, CleanedTo: a.cleaned, Anew: true,
		Keep: func(m *log.Removal) {
			of := receipt.Subject{TP: a.Topic, Dir: filepath.Dir(a.Dir), Cause: receipt.CrashTail, Detail: m.Why, HighWatermark: a.hw}
			_, _ = a.store.Keep(a.now.Wall, of, m) // a receipt that can't be written doesn't stop a start either
		},
	})
	if err != nil {
		return fmt.Errorf("%s: open after the repair: %w", a.Dir, err)
	}
	return l.Close(true)
}
