package host

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
)

// What a truncation takes off a log is told before it is gone (log.Options.Keep):
// a receipt is written and the bytes are kept. This file says what the log doesn't
// know of it: whose it is, why it was cut, and what its high watermark was.

// Keeper keeps what leaves the logs of a node. Nil keeps nothing.
type Keeper struct {
	store  *receipt.Store
	rt     loop.Runtime
	logger *zap.Logger
	// full: a disk was found full, so that kept bytes give way.
	full atomic.Bool
}

// NewKeeper returns a Keeper of a node's store.
func NewKeeper(store *receipt.Store, rt loop.Runtime, logger *zap.Logger) *Keeper {
	return &Keeper{store: store, rt: rt, logger: logger}
}

// Stats counts receipts and kept bytes; any goroutine.
func (k *Keeper) Stats() receipt.Stats {
	if k == nil {
		return receipt.Stats{}
	}
	return k.store.Stats()
}

// keep makes a receipt of a removal that is about to happen. It waits for the disk.
func (k *Keeper) keep(of receipt.Subject, r *log.Removal) {
	if k == nil {
		return
	}
	got, err := k.store.Keep(k.rt.Now().Wall, of, r)
	k.tell(&got, err)
}

// tell logs a receipt.
func (k *Keeper) tell(r *receipt.Receipt, err error) {
	what := "bytes were cut from a log"
	if r.Cause == receipt.Unreadable {
		what = "a file that makes no sense is replaced"
	}
	file, pos := "", int64(0)
	if len(r.Parts) > 0 {
		file, pos = r.Parts[0].File, r.Parts[0].Position
	}
	k.logger.Warn(what, zap.String("partition", model.TopicPartition{Topic: r.Topic, Partition: r.Partition}.String()),
		zap.Int64("receipt", r.ID), zap.String("cause", string(r.Cause)), zap.String("detail", r.Detail),
		zap.String("file", file), zap.Int64("position", pos), zap.Int64("bytes", r.Bytes),
		zap.Int64("start", r.Start), zap.Int64("end", r.End), zap.Int64("records", r.Records),
		zap.Bool("below the high watermark", r.BelowHighWatermark), zap.String("kept", r.Kept), zap.String("not kept", r.NotKept))
	if err != nil {
		k.logger.Error("a receipt could not be written; it is tried again", zap.Error(err))
	}
}

// keepFile makes a receipt of a small file of a log directory that is unreadable
// and will be replaced.
func (k *Keeper) keepFile(d *Dir, path string, why error) {
	if k == nil {
		return
	}
	info, err := d.fs.Stat(path)
	if err != nil || info.Size == 0 {
		return
	}
	of := receipt.Subject{Dir: d.path, Cause: receipt.Unreadable, Detail: why.Error()}
	k.keep(of, &log.Removal{
		Why: log.WhyUnreadable, File: path, Bytes: info.Size, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch,
		Parts: []log.Part{{File: path, Bytes: info.Size}},
	})
}

// keepEpochs makes a receipt of an epoch file that contradicts the batches, and will be
// replaced. It waits for the disk.
func (h *Hosted) keepEpochs(w *log.WrongEpochs) {
	info, err := h.m.deps.FS.Stat(w.File)
	if err != nil || info.Size == 0 {
		return
	}
	of := receipt.Subject{ID: h.id, TP: h.tp, Dir: h.Dir(), Cause: receipt.Unreadable, Detail: w.Damage.Err.Error()}
	h.m.keeper().keep(of, &log.Removal{
		Why: log.WhyUnreadable, File: w.File, Bytes: info.Size, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch,
		Parts: []log.Part{{File: w.File, Bytes: info.Size}},
	})
}

// makesNoSense reports an error of a file's content, not of the disk.
func makesNoSense(err error) bool {
	var format *checkpoint.FormatError
	return errors.As(err, &format)
}

// tend writes receipts that wait, and drops what is too old, or in the way.
func (k *Keeper) tend(clockHeld bool) {
	if k == nil {
		return
	}
	if err := k.store.Retry(k.rt.Now().Wall, !clockHeld); err != nil {
		k.logger.Debug("receipts still can't be written", zap.Error(err))
	}
	if !k.full.Swap(false) {
		return
	}
	for freed := int64(0); freed < freedAtOnce; {
		n, ok := k.store.GiveWay()
		if !ok {
			return
		}
		freed += n
		k.logger.Warn("kept bytes gave way: a disk is full", zap.Int64("bytes", n))
	}
}

// freedAtOnce is about how many kept bytes give way at a time.
const freedAtOnce = 64 << 20

// noRoom is told that a disk was found full.
func (k *Keeper) noRoom() {
	if k != nil {
		k.full.Store(true)
	}
}

// keeping is what receipts of a partition say besides what left. It belongs to
// whoever has the log.
type keeping struct {
	cause         receipt.Cause // "": the log knows why
	detail        string
	highWatermark model.Offset
}

// keep is the log.Options.Keep of a partition.
func (h *Hosted) keep(r *log.Removal) {
	of := receipt.Subject{
		ID: h.id, TP: h.tp, Dir: h.Dir(), Cause: h.keeping.cause, Detail: h.keeping.detail, HighWatermark: h.keeping.highWatermark,
	}
	switch r.Why {
	case log.WhyCrashTail, log.WhyCrashHole:
		of.Cause, of.Detail = receipt.CrashTail, r.Why+" after a stop of kind "+h.dir.stopOf(h.id, h.tp).String()
	case log.WhyUnfinishedCut:
		of.Cause = receipt.UnfinishedCut
	case log.WhyBelowStart:
		of.Cause = receipt.BelowLogStart
	case log.WhyUnreadable:
		of.Cause = receipt.Unreadable
	}
	if of.Cause == receipt.Divergence && r.Start < min(of.HighWatermark, r.End) {
		of.Cause = receipt.UncleanElection
	}
	h.m.keeper().keep(of, r)
}

func (m *ReplicaManager) keeper() *Keeper { return m.deps.Dirs.o.Kept }

// KeptStats counts receipts and kept bytes; any goroutine.
func (m *ReplicaManager) KeptStats() receipt.Stats { return m.keeper().Stats() }

// keepTorn makes a receipt of a partition.metadata that makes no sense and is
// about to be written anew.
func (f *foundDir) keepTorn(k *Keeper, why string) {
	k.keepFile(f.dir, filepath.Join(f.dir.path, f.name, checkpoint.PartitionMetadataFile), errors.New(why))
}

// unreadable says whether a small file is there and can be read, though its
// reader made nothing of it.
func unreadable(fsys vfs.FS, path string) bool {
	b, err := vfs.ReadFile(fsys, path)
	return err == nil && len(b) > 0 && !errors.Is(err, fs.ErrNotExist)
}
