package quorum

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// observedFile says that a directory belongs to a node that follows the quorum,
// and how far its image has come. It has two slots that are written in turn, so
// that a torn write leaves the one before.
const (
	observedFile = "observed"
	observedSlot = 128 // bytes of a slot
	clusterMax   = 64  // bytes of a cluster id that fit
)

// observedMark is one slot.
type observedMark struct {
	seq     uint64
	at      model.OffsetAndEpoch
	cluster string
}

func (m *observedMark) encode() []byte {
	e := newEncoder()
	e.u64(m.seq)
	e.at(m.at)
	e.str(m.cluster)
	e.b = append(e.b, make([]byte, observedSlot-4-len(e.b))...)
	e.u32(crc32.Checksum(e.b, crc32.MakeTable(crc32.Castagnoli)))
	return e.b
}

func decodeMark(b []byte) (m observedMark, ok bool) {
	if len(b) < observedSlot {
		return m, false
	}
	body := b[:observedSlot-4]
	sum := decoder{b: b[len(body):observedSlot]}
	if sum.u32() != crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) {
		return m, false
	}
	d := newDecoder(body)
	m = observedMark{seq: d.u64(), at: d.at(), cluster: d.str()}
	return m, d.err == nil
}

// markObserving makes dir, which exists, that of a node that has seen nothing
// yet.
func markObserving(fs vfs.FS, dir string) error {
	m := observedMark{at: noImage()}
	b := append(m.encode(), make([]byte, observedSlot)...)
	return vfs.WriteFileAtomic(fs, filepath.Join(dir, observedFile), b)
}

// observedDisk is the directory of a node that follows.
type observedDisk struct {
	fs  vfs.FS
	dir string
	// file is observedFile; nil for one that keeps everything in memory.
	file vfs.File
	mark observedMark
	// header of the newest snapshot, whose voter configuration and bootstrap
	// digest later ones keep.
	header metadata.SnapshotHeader
	// grown is the size of what was applied since the newest snapshot.
	grown int64
}

// openObserved opens the directory, made if need be, and reads the newest
// snapshot that is whole.
func openObserved(o *Config, dir string) (*observedDisk, *metadata.Image, error) {
	s := &observedDisk{fs: o.FS, dir: dir}
	name := filepath.Join(dir, observedFile)
	if _, err := o.FS.Stat(name); errors.Is(err, os.ErrNotExist) {
		if err := errors.Join(o.FS.MkdirAll(dir, 0o755), o.FS.SyncDir(filepath.Dir(dir)), markObserving(o.FS, dir)); err != nil {
			return nil, nil, err
		}
	}
	b, err := vfs.ReadFile(o.FS, name)
	if err != nil {
		return nil, nil, err
	}
	s.mark.at = noImage()
	for ; len(b) >= observedSlot; b = b[observedSlot:] {
		if m, ok := decodeMark(b); ok && m.seq >= s.mark.seq {
			s.mark = m
		}
	}
	if s.file, err = o.FS.OpenFile(name, os.O_RDWR, 0o644); err != nil {
		return nil, nil, err
	}
	image := metadata.Empty()
	all, err := listSnapshots(o.FS, dir)
	if err != nil {
		return nil, nil, errors.Join(err, s.file.Close())
	}
	for _, at := range all {
		// One that can't be read costs time: what it holds is fetched again.
		if h, m, err := readSnapshot(o.FS, dir, at); err == nil {
			s.header, image = h, m
			break
		}
	}
	return s, image, nil
}

// note makes durable that the image at m was shown to this node.
func (s *observedDisk) note(m *metadata.Image) error {
	if len(m.ClusterID()) > clusterMax {
		return fmt.Errorf("cluster id of %d bytes", len(m.ClusterID()))
	}
	next := observedMark{seq: s.mark.seq + 1, at: m.At(), cluster: m.ClusterID()}
	if s.file == nil {
		s.mark = next
		return nil
	}
	if _, err := s.file.WriteAt(next.encode(), int64(next.seq%2)*observedSlot); err != nil {
		return fmt.Errorf("note metadata offset %s: %w", m.At(), err)
	}
	if err := s.file.SyncData(); err != nil {
		return fmt.Errorf("note metadata offset %s: %w", m.At(), err)
	}
	s.mark = next
	return nil
}

// saveSnapshot stores a snapshot that was fetched.
func (s *observedDisk) saveSnapshot(h metadata.SnapshotHeader, b []byte) error {
	if s.file == nil {
		s.header, s.grown = h, 0
		return nil
	}
	err := vfs.WriteFileAtomic(s.fs, filepath.Join(s.dir, metadata.SnapshotName(h.At)), b)
	if err != nil && !vfs.IsNoSpace(err) {
		return fmt.Errorf("store metadata snapshot: %w", err)
	}
	s.header, s.grown = h, 0
	if err != nil {
		return nil // on a full disk the next start fetches what it lacks, and the next snapshot is tried again
	}
	return s.dropOlder()
}

// writeSnapshot stores the image.
func (s *observedDisk) writeSnapshot(now model.Now, m *metadata.Image) error {
	if s.file == nil {
		s.grown = 0
		return nil
	}
	h := s.header
	h.At, h.Time = m.At(), now.Wall
	return s.saveSnapshot(h, metadata.AppendSnapshot(nil, h, m))
}

// dropOlder removes all snapshots but the newest.
func (s *observedDisk) dropOlder() error {
	all, err := listSnapshots(s.fs, s.dir)
	if err != nil {
		return err
	}
	for _, at := range all {
		if at != s.header.At {
			if err := s.fs.Remove(filepath.Join(s.dir, metadata.SnapshotName(at))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *observedDisk) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
