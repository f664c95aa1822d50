package salvage

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// segmentBytes is how long an exported segment becomes, as in Kafka's default.
const segmentBytes = 1 << 30

// Each calls fn with every chosen batch, in the order of offsets, until fn
// returns an error. The batch is valid until fn returns.
func (s *Survey) Each(fs vfs.FS, fn func(b record.Batch) error) error {
	for _, r := range s.Chosen {
		if err := r.each(fs, func(f scan.Placed) error { return fn(f.Batch) }); err != nil {
			return err
		}
	}
	return nil
}

// Export writes the chosen batches as the segments of a partition's directory,
// which must not exist yet, with their offsets. Where an epoch falls, because
// batches of several leaders survived, it is raised to the one before: it lies
// outside the checksum, and a log with falling epochs could not be opened. The
// directory is durable when Export returns nil.
func (s *Survey) Export(fs vfs.FS, dir string) (raised int64, err error) {
	if _, err := fs.Stat(dir); err == nil {
		return 0, fmt.Errorf("%s: %w", dir, os.ErrExist)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	x := &exporter{fs: fs, dir: dir, epoch: model.NoEpoch}
	err = s.Each(fs, x.write)
	if err = errors.Join(err, x.finish()); err != nil {
		return x.raised, err
	}
	return x.raised, errors.Join(fs.SyncDir(dir), fs.SyncDir(filepath.Dir(dir)))
}

// exporter writes segments.
type exporter struct {
	fs     vfs.FS
	dir    string
	file   vfs.File
	base   model.Offset
	buf    []byte // what is not written yet
	size   int64  // of what is written
	epoch  model.LeaderEpoch
	raised int64
}

func (x *exporter) write(b record.Batch) error {
	full := x.size+int64(len(x.buf))+int64(len(b)) > segmentBytes || int64(b.LastOffset()-x.base) > math.MaxInt32
	if x.file == nil || full {
		if err := x.roll(b.BaseOffset()); err != nil {
			return err
		}
	}
	at := len(x.buf)
	x.buf = append(x.buf, b...)
	if b.LeaderEpoch() < x.epoch {
		record.Stamp(record.Batch(x.buf[at:]), b.BaseOffset(), x.epoch)
		x.raised++
	}
	x.epoch = max(x.epoch, b.LeaderEpoch())
	if len(x.buf) >= scan.WindowBytes {
		return x.drain()
	}
	return nil
}

func (x *exporter) roll(base model.Offset) error {
	if err := x.finish(); err != nil {
		return err
	}
	f, err := x.fs.OpenFile(filepath.Join(x.dir, fmt.Sprintf("%020d.log", int64(base))), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	x.file, x.base, x.size = f, base, 0
	return nil
}

func (x *exporter) drain() error {
	n, err := x.file.WriteAt(x.buf, x.size)
	x.size += int64(n)
	x.buf = x.buf[:0]
	return err
}

// finish makes the segment that is being written durable.
func (x *exporter) finish() error {
	if x.file == nil {
		return nil
	}
	err := errors.Join(x.drain(), x.file.Sync(), x.file.Close())
	x.file = nil
	return err
}
