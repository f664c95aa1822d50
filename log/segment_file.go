package log

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
)

// segmentFile is the file behind a segment, shared by its writer and all
// readers. Its handle comes and goes; it stays while somebody has it pinned.
type segmentFile struct {
	cache *FileCache
	fs    vfs.FS

	mu   sync.Mutex
	path string
	f    vfs.File // nil while closed
	pins int
	used bool
	slot int // position in cache.open, guarded by cache.mu
	// dirty: written since the last SyncData began.
	dirty bool
	// syncErr is the failure of a SyncData. A second try could succeed after the
	// kernel has dropped the pages, so there is none (fsyncgate).
	syncErr error
	// limit is the readable length: the bytes above it were cut off. Views that
	// reach higher are stale. Without a cut it is cutNone.
	limit int64
	// gone: unlinked, no handle may be opened any more.
	gone bool
}

// cutNone is the limit of a file that was never cut.
const cutNone = math.MaxInt64

func newSegmentFile(fs vfs.FS, cache *FileCache, path string) *segmentFile {
	return &segmentFile{cache: cache, fs: fs, path: path, slot: -1, limit: cutNone}
}

// pin returns the handle, opening it if need be, and keeps it open until unpin.
// reach is how many bytes the caller's view says there are; if they are gone
// the view is stale.
func (s *segmentFile) pin(reach int64) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reach > s.limit || (s.gone && s.f == nil) {
		return nil, fmt.Errorf("segment %s: %w", s.path, ErrStaleView)
	}
	if s.f == nil {
		f, err := s.openHandle()
		if err != nil {
			return nil, err
		}
		s.f = f
		s.cache.admit(s)
	}
	s.pins++
	s.used = true
	return s.f, nil
}

// pinForWrite is pin for the writer. What it writes has to be synced.
func (s *segmentFile) pinForWrite() (vfs.File, error) {
	f, err := s.pin(0)
	if err == nil {
		s.setDirty()
	}
	return f, err
}

// openHandle opens the file; out of descriptors, it tries again with fewer.
func (s *segmentFile) openHandle() (vfs.File, error) {
	f, err := s.fs.OpenFile(s.path, os.O_RDWR, 0)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		s.cache.shrink(s)
		f, err = s.fs.OpenFile(s.path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	return f, nil
}

// adopt enters the handle of a file that was just created.
func (s *segmentFile) adopt(f vfs.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f = f
	s.used = true
	s.cache.admit(s)
}

func (s *segmentFile) unpin() {
	s.mu.Lock()
	s.pins--
	s.mu.Unlock()
}

// closeHandle closes the handle if there is one. The caller holds mu.
func (s *segmentFile) closeHandle() {
	if s.f != nil {
		_ = s.f.Close() // all that counts was synced, or is the kernel's to write
		s.f = nil
	}
}

// close closes the handle unless a reader has it; the reader's unpin leaves it
// to the cache then.
func (s *segmentFile) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins > 0 || s.f == nil {
		return
	}
	s.closeHandle()
	s.cache.forget(s)
}

// sync makes what was written so far durable, if there is anything. Only one
// sync runs at a time.
func (s *segmentFile) sync() error {
	s.mu.Lock()
	if s.syncErr != nil && !mutant.On("log-retry-fsync") {
		s.mu.Unlock()
		return s.syncErr
	}
	if !s.dirty || s.gone {
		s.mu.Unlock()
		return nil
	}
	s.dirty = false
	s.mu.Unlock()

	f, err := s.pin(0)
	if err != nil {
		s.setDirty()
		return err
	}
	err = f.SyncData()
	s.unpin()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = true
	s.syncErr = fmt.Errorf("fdatasync %s: %w", s.path, err)
	if mutant.On("log-retry-fsync") {
		s.closeHandle()
		s.cache.forget(s)
	}
	return s.syncErr
}

func (s *segmentFile) setDirty() {
	s.mu.Lock()
	s.dirty = true
	s.mu.Unlock()
}

func (s *segmentFile) isDirty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dirty
}

// rename gives the file another name. A reader that wants a handle meanwhile
// waits, else it would look for the file where it no longer is.
func (s *segmentFile) rename(to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fs.Rename(s.path, to); err != nil {
		return err
	}
	s.path = to
	return nil
}

// renameDir moves the directory that files are in. As with rename, readers wait.
func renameDir(fs vfs.FS, from, to string, files []*segmentFile) error {
	for _, s := range files {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	for _, s := range files {
		s.path = filepath.Join(to, filepath.Base(s.path))
	}
	return nil
}

// setPath tells that the file was renamed, before there are readers.
func (s *segmentFile) setPath(path string) {
	s.mu.Lock()
	s.path = path
	s.mu.Unlock()
}

func (s *segmentFile) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path
}

// cut shortens the file to size if no reader has it, and reports whether it
// did. Views that reach higher become stale.
func (s *segmentFile) cut(size int64) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins > 0 {
		return false, nil
	}
	if s.f == nil {
		f, err := s.openHandle()
		if err != nil {
			return false, err
		}
		s.f = f
		s.cache.admit(s)
	}
	s.limit = min(s.limit, size)
	s.dirty = true
	if err := s.f.Truncate(size); err != nil {
		return false, fmt.Errorf("cut %s to %d: %w", s.path, size, err)
	}
	return true, nil
}

// unlink removes the file if no reader has it, and reports whether it did.
func (s *segmentFile) unlink() (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins > 0 {
		return false, nil
	}
	s.gone = true
	if s.f != nil {
		s.closeHandle()
		s.cache.forget(s)
	}
	if err := s.fs.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("unlink: %w", err)
	}
	return true, nil
}
