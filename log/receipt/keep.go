package receipt

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkBytes is how much is copied at a time.
const chunkBytes = 256 << 10

// copy makes the copy of a receipt's bytes, or notes why there is none.
func (s *Store) copy(now model.Timestamp, r *Receipt, m *log.Removal) {
	switch {
	case r.Bytes == 0:
		return
	case s.o.BytesMax == 0:
		r.NotKept = "tidemark.kept.max.bytes is 0"
	case r.Bytes > s.o.BytesMax:
		r.NotKept = fmt.Sprintf("more than tidemark.kept.max.bytes, %d", s.o.BytesMax)
	}
	if r.NotKept != "" {
		s.stats.NotKept++
		return
	}
	for s.bytes+r.Bytes > s.o.BytesMax && s.dropOldest(r.ID) {
	}
	err := s.copyOnce(r, m)
	for vfs.IsNoSpace(err) && s.dropOldest(r.ID) {
		err = s.copyOnce(r, m)
	}
	if err != nil {
		_ = s.o.FS.RemoveAll(filepath.Join(s.o.Dir, copyName(r.ID))) // the next start tries again
		r.Kept, r.NotKept = "", err.Error()
		s.stats.NotKept++
		return
	}
	s.held = append(s.held, copied{id: r.ID, at: now, bytes: r.Bytes})
	s.bytes += r.Bytes
}

// copyOnce makes <id>/ with the bytes and the receipt, durably.
func (s *Store) copyOnce(r *Receipt, m *log.Removal) error {
	dir := filepath.Join(s.o.Dir, copyName(r.ID))
	if err := s.o.FS.RemoveAll(dir); err != nil {
		return err
	}
	if err := s.o.FS.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, p := range m.Parts {
		part := &r.Parts[i]
		part.Name = part.File
		if strings.HasSuffix(part.File, ".log") {
			part.Name = fmt.Sprintf("%020d.log", int64(p.First))
		}
		crc, err := s.copyPart(filepath.Join(dir, part.Name), p)
		if err != nil {
			return err
		}
		part.CRC32C = crc
	}
	r.Kept = copyName(r.ID)
	if err := vfs.WriteFileAtomic(s.o.FS, filepath.Join(dir, receiptFile), r.encode()); err != nil {
		return err
	}
	return s.o.FS.SyncDir(s.o.Dir)
}

// copyPart copies a range of a file to a new one and returns its digest.
func (s *Store) copyPart(to string, p log.Part) (crc string, err error) {
	dst, err := s.o.FS.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	at := int64(0)
	crc, err = s.eachChunk(p, func(chunk []byte) error {
		if mutant.On("receipt-kept-dropped") {
			return nil
		}
		n, err := dst.WriteAt(chunk, at)
		at += int64(n)
		return err
	})
	if err != nil {
		return "", err
	}
	return crc, dst.Sync()
}

// eachChunk reads a range of a file and returns its digest.
func (s *Store) eachChunk(p log.Part, fn func(chunk []byte) error) (crc string, err error) {
	src, err := s.o.FS.OpenFile(p.File, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer src.Close()
	buf := make([]byte, min(p.Bytes, chunkBytes))
	sum := uint32(0)
	for done := int64(0); done < p.Bytes; {
		chunk := buf[:min(int64(len(buf)), p.Bytes-done)]
		n, err := src.ReadAt(chunk, p.Pos+done)
		if n < len(chunk) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", fmt.Errorf("read %s at %d: %w", p.File, p.Pos+done, err)
		}
		sum = crc32.Update(sum, castagnoli, chunk)
		if fn != nil {
			if err := fn(chunk); err != nil {
				return "", err
			}
		}
		done += int64(n)
	}
	return fmt.Sprintf("%08x", sum), nil
}

// repeated looks for earlier receipts of the same bytes; if all have one, the
// receipt says so and nothing is copied.
func (s *Store) repeated(r *Receipt, m *log.Removal) bool {
	if len(m.Parts) == 0 {
		return false
	}
	for i := range r.Parts {
		seen, ok := s.parts[keyOf(r, &r.Parts[i])]
		if !ok || !s.holds(seen.id) {
			return false
		}
	}
	for i, p := range m.Parts {
		part := &r.Parts[i]
		crc, err := s.eachChunk(p, nil)
		if err != nil || crc != s.parts[keyOf(r, part)].crc {
			return false
		}
		part.CRC32C = crc
	}
	r.Again = s.parts[keyOf(r, &r.Parts[0])].id
	r.NotKept = "kept with the earlier receipt"
	return true
}

func (s *Store) holds(id int64) bool {
	for _, c := range s.held {
		if c.id == id {
			return true
		}
	}
	return false
}

// dropOldest drops the oldest copy but that of one id, and reports whether there
// was one that could be dropped.
func (s *Store) dropOldest(but int64) bool {
	if len(s.held) == 0 || s.held[0].id == but {
		return false
	}
	c := s.held[0]
	if err := s.o.FS.RemoveAll(filepath.Join(s.o.Dir, copyName(c.id))); err != nil {
		return false
	}
	s.held, s.bytes = s.held[1:], s.bytes-c.bytes
	s.stats.Dropped++
	return true
}

// expire drops copies that are too old.
func (s *Store) expire(now model.Timestamp) {
	if s.o.RetentionMs < 0 {
		return
	}
	for len(s.held) > 0 && int64(now)-int64(s.held[0].at) > s.o.RetentionMs && s.dropOldest(0) {
	}
}

// abandon drops the copy of a receipt that could not be written.
func (s *Store) abandon(r *Receipt) {
	if r.Kept == "" {
		return
	}
	for i, c := range s.held {
		if c.id == r.ID {
			s.held, s.bytes = append(s.held[:i:i], s.held[i+1:]...), s.bytes-c.bytes
		}
	}
	_ = s.o.FS.RemoveAll(filepath.Join(s.o.Dir, r.Kept))
	r.Kept, r.NotKept = "", "the receipt could not be written"
}

// sizeOf sums up the files below a directory.
func sizeOf(fsys vfs.FS, dir string) int64 {
	names, err := fsys.List(dir)
	if err != nil {
		return 0
	}
	sum := int64(0)
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fsys.Stat(path)
		switch {
		case err != nil || name == receiptFile:
		case info.IsDir:
			sum += sizeOf(fsys, path)
		default:
			sum += info.Size
		}
	}
	return sum
}
