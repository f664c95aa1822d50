package log

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// segment is one segment as readers see it. All fields but the loaded indexes
// are set before a View holds it and never change; of the segment that is being
// written only base and file mean anything, its rest is in View.tail.
type segment struct {
	base model.Offset
	file *segmentFile
	// end is the offset after the last batch; the next segment may begin later.
	end model.Offset
	// size is the number of bytes that belong to the log; the file may be longer
	// until a cut is carried out.
	size int64
	// maxTS is the greatest timestamp, maxTSLast the last offset of its batch.
	maxTS     model.Timestamp
	maxTSLast model.Offset
	// txns are the aborted transactions whose markers lie here.
	txns []txnEntry
	// seal is nil if there is none, as in a directory that Kafka wrote. resealed is
	// the one that has replaced it since.
	seal     *seal
	resealed atomic.Pointer[seal]
	// unread is nil if this process wrote the segment, or has read all of it.
	unread *unread
	// interval is used to index the segment anew.
	interval int32

	// indexes is nil until a reader needs them, and again when the cache is full.
	indexes atomic.Pointer[segmentIndexes]
	// repair asks the writer to store indexes that a reader found bad.
	repair atomic.Bool
	// storing: what stands beside it is being written.
	storing atomic.Bool
	// heads is the digest of its batches' heads, see headSum; 0 is unknown.
	heads atomic.Uint64
}

// segmentIndexes are the indexes of a sealed segment.
type segmentIndexes struct {
	offsets []offsetEntry
	times   []timeEntry
	// unsure: they come from files that no seal vouches for. An entry of offsets
	// can be confirmed where it points, one of times can't be.
	unsure bool
}

// bytes returns the memory that the indexes take, about.
func (x *segmentIndexes) bytes() int64 {
	return int64(len(x.offsets))*8 + int64(len(x.times))*16 + 64
}

// path returns the name of a file beside the segment.
func (s *segment) path(suffix string) string {
	return filepath.Join(filepath.Dir(s.file.name()), fileName(s.base, suffix))
}

// span is the greatest relative offset that the segment holds.
func (s *segment) span() uint32 { return relative(s.base, max(s.base, s.end-1)) }

// load returns the indexes of a sealed segment: from memory, else from their
// files, else, when those are missing or are not of this segment, from the
// segment itself. f is the pinned file.
func (s *segment) load(f vfs.File) (*segmentIndexes, error) {
	if x := s.indexes.Load(); x != nil {
		return x, nil
	}
	x, err := s.readIndexes()
	if err != nil {
		return s.rebuild(f)
	}
	s.keep(x)
	return x, nil
}

// keep stores indexes in memory, unless another reader was faster.
func (s *segment) keep(x *segmentIndexes) {
	if s.indexes.CompareAndSwap(nil, x) {
		s.file.cache.admitIndex(s, x.bytes())
	}
}

// readIndexes reads both index files. An error says that they can't be used.
func (s *segment) readIndexes() (*segmentIndexes, error) {
	ob, err := vfs.ReadFile(s.file.fs, s.path(indexSuffix))
	if err != nil {
		return nil, err
	}
	tb, err := vfs.ReadFile(s.file.fs, s.path(timeSuffix))
	if err != nil {
		return nil, err
	}
	se := s.lastSeal()
	if se != nil && (digest(ob) != se.offsetsCRC || digest(tb) != se.timesCRC) {
		return nil, fmt.Errorf("segment %d: indexes are not those that were sealed", s.base)
	}
	offsets, err := decodeOffsets(ob, s.size, s.span())
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", s.base, err)
	}
	times, err := decodeTimes(tb, s.span())
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", s.base, err)
	}
	return &segmentIndexes{offsets: offsets, times: times, unsure: se == nil}, nil
}

// lastSeal is the seal that stands on the disk now, nil if there is none.
func (s *segment) lastSeal() *seal {
	if se := s.resealed.Load(); se != nil {
		return se
	}
	return s.seal
}

// rebuild indexes the segment anew and replaces what is in memory. The files
// are the writer's to replace.
func (s *segment) rebuild(f vfs.File) (*segmentIndexes, error) {
	x := newIndexBuilder(s.base, s.interval)
	sc := scanner{f: f, limit: s.size, buf: make([]byte, min(s.size, scanBufferSize))}
	for pos := int64(0); ; {
		b, err := sc.next(pos)
		if err != nil {
			return nil, fmt.Errorf("index segment %d anew: %w", s.base, err)
		}
		if b == nil {
			break
		}
		x.addBatch(b, pos)
		pos += int64(len(b))
	}
	x.noteTime()
	fresh := &segmentIndexes{offsets: x.offsets, times: x.times}
	s.file.cache.dropIndex(s)
	s.keep(fresh)
	s.repair.Store(true)
	return fresh, nil
}

// store writes the index files and the seal of a segment. They are not synced; a
// torn one is noticed by its digest. It is for segments above the recovery point,
// which does not pass them before a flush has synced all four files: should power
// fail before, their batches are read again. See storeBelow.
func (s *segment) store(x *segmentIndexes, se seal) (*seal, error) {
	if err := s.storeIndexes(x, &se); err != nil {
		return nil, err
	}
	if err := writeWhole(s.file.fs, s.path(sealSuffix), se.encode()); err != nil {
		return nil, err
	}
	return &se, nil
}

// storeBelow is store for a segment below the recovery point, which the next start
// may take as it stands. The seal comes first, durably: else a loss of power could
// leave indexes of which nothing says that they are torn.
func (s *segment) storeBelow(x *segmentIndexes, se seal) (*seal, error) {
	s.digests(x, &se)
	if err := vfs.WriteFileAtomic(s.file.fs, s.path(sealSuffix), se.encode()); err != nil {
		return nil, err
	}
	if err := s.storeIndexes(x, &se); err != nil {
		return nil, err
	}
	return &se, nil
}

// digests notes in the seal what the index files are going to be.
func (s *segment) digests(x *segmentIndexes, se *seal) {
	se.offsetsCRC = digest(encodeOffsets(nil, x.offsets))
	se.timesCRC = digest(encodeTimes(nil, x.times))
	se.txnsCRC = digest(encodeTxns(nil, s.txns))
}

// sealFor is the final seal of the segment in front of next, without digests.
func (s *segment) sealFor(next model.Offset) seal {
	return seal{final: true, size: s.size, next: next, maxTS: s.maxTS, maxTSLast: s.maxTSLast, heads: s.headSum()}
}

// storeIndexes writes the index files and notes their digests in the seal.
func (s *segment) storeIndexes(x *segmentIndexes, se *seal) error {
	files := []struct {
		suffix string
		data   []byte
		crc    *uint32
	}{
		{indexSuffix, encodeOffsets(nil, x.offsets), &se.offsetsCRC},
		{timeSuffix, encodeTimes(nil, x.times), &se.timesCRC},
		{txnSuffix, encodeTxns(nil, s.txns), &se.txnsCRC},
	}
	for _, f := range files {
		*f.crc = digest(f.data)
		path := s.path(f.suffix)
		if f.suffix == txnSuffix && len(f.data) == 0 {
			if err := removeIfThere(s.file.fs, path); err != nil {
				return err
			}
			continue
		}
		if err := writeWhole(s.file.fs, path, f.data); err != nil {
			return err
		}
	}
	return nil
}

// sideFiles are the names of what may stand beside a segment.
func (s *segment) sideFiles() []string {
	return []string{s.path(indexSuffix), s.path(timeSuffix), s.path(txnSuffix), s.path(sealSuffix)}
}

// writeWhole replaces a file's content, not atomically and without a sync: for
// files whose content is checked when it is read.
func writeWhole(fs vfs.FS, path string, data []byte) error {
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		if n, err := f.WriteAt(data, 0); err != nil {
			_ = f.Close()
			_ = fs.Remove(path) // the write error is the one to tell
			return fmt.Errorf("write %s, %d of %d bytes: %w", path, n, len(data), err)
		}
	}
	return f.Close()
}

// removeIfThere removes a file; that it isn't there is no error.
func removeIfThere(fs vfs.FS, path string) error {
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
