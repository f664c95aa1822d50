package log

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Swap puts a rewritten segment in the place of its sources. It is started and
// finished by the owner of the log, and run and unlinked by anybody. Only one
// exists at a time.
//
// The steps, each of which a start after a crash finds and finishes or drops:
//
//  1. <base>.log.cleaned is complete, synced, and no part of the log
//  2. it becomes <base>.log.swap, durably: from here on it counts
//  3. the sources are renamed to .deleted and what stands beside them is removed,
//     durably
//  4. it becomes <base>.log, and its indexes are stored
type Swap struct {
	fs       vfs.FS
	dir      string
	segment  *segment
	indexes  *segmentIndexes
	sources  []*segment
	files    *FileCache
	snapshot []string // of the producers, at the bases that are no longer there

	mu   sync.Mutex
	over bool
	err  error
	done bool
}

// StartSwap puts the finished segment of r in the place of its sources: the View
// shows it from now on. ErrStaleView says that the sources are no longer what
// they were, because the log was cut or its start dropped; r is to be abandoned
// then. ErrBusy says that another removal or swap is under way.
func (l *Log) StartSwap(r *Rewrite) (*Swap, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if l.drop != nil || l.swap != nil {
		return nil, ErrBusy
	}
	at := -1
	for i, s := range l.segments {
		if s.base == r.sources[0].base {
			at = i
		}
	}
	n := len(r.sources)
	if at < 0 || at+n >= len(l.segments) {
		return nil, ErrStaleView
	}
	for k, s := range r.sources {
		if now := l.segments[at+k]; now.file != s.file || now.size != s.size || now.base != s.base {
			return nil, ErrStaleView
		}
	}
	if next := l.segments[at+n].base; next != r.seg.seal.next {
		return nil, ErrStaleView
	}
	s := &Swap{fs: l.fs, dir: l.dir, segment: r.seg, indexes: r.idx, files: l.files, sources: l.segments[at : at+n : at+n]}
	for _, old := range s.sources[1:] {
		s.snapshot = append(s.snapshot, old.path(snapshotSuffix))
	}
	r.seg.keep(r.idx)
	r.seg.storing.Store(true)
	next := append([]*segment(nil), l.segments[:at]...)
	next = append(next, r.seg)
	l.segments = append(next, l.segments[at+n:]...)
	l.swap = s
	l.publish()
	return s, nil
}

// Run does steps 2 to 4. A second call returns what the first one did.
func (s *Swap) Run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.err
	}
	s.over = true
	if s.err = s.run(); s.err == nil {
		s.done = true
	}
	return s.err
}

func (s *Swap) run() error {
	live := s.segment.path(logSuffix)
	if !mutant.On("log-swap-late") {
		if err := s.segment.file.rename(live + swapSuffix); err != nil {
			return fmt.Errorf("swap: %w", err)
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", s.dir, err)
	}
	for _, old := range s.sources {
		if err := discardFiles(s.fs, old, nil); err != nil {
			return err
		}
		s.files.dropIndex(old)
	}
	// A seal of the first source that comes back would be taken for the new one's.
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", s.dir, err)
	}
	if err := s.segment.file.rename(live); err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	for _, path := range s.snapshot {
		_ = s.fs.Remove(path) // Kafka takes it for a stray; it harms nobody
	}
	return s.storeIndexes()
}

// storeIndexes stores the indexes and the seal; the next flush syncs them, and the
// last name. On a full disk they serve from memory until there is room.
func (s *Swap) storeIndexes() error {
	defer s.segment.storing.Store(false)
	_, err := s.segment.storeBelow(s.indexes, *s.segment.seal)
	if !vfs.IsNoSpace(err) {
		return err
	}
	for _, path := range s.segment.sideFiles() {
		if err := removeIfThere(s.fs, path); err != nil {
			return err
		}
	}
	s.segment.repair.Store(true)
	return nil
}

// Unlink removes the files of the sources in which no reader is left, and returns
// how many must wait for a later call.
func (s *Swap) Unlink() (left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		return 0, nil
	}
	return unlinkAll(s.sources)
}

// unlinkAll unlinks renamed segments.
func unlinkAll(segments []*segment) (left int, err error) {
	for i, s := range segments {
		done, err := s.file.unlink()
		if err != nil {
			return left + len(segments) - i, err
		}
		if !done {
			left++
		}
	}
	return left, nil
}

// String names the segments, for log lines.
func (s *Swap) String() string {
	var b strings.Builder
	for i, old := range s.sources {
		if i > 0 {
			b.WriteByte('+')
		}
		fmt.Fprintf(&b, "%d", old.base)
	}
	return b.String()
}

// cancel has Run do nothing if it has not begun, and waits for it if it has.
func (s *Swap) cancel() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

// FinishSwap takes the outcome of Run into account. A failure poisons the log:
// which names the directory holds is not known.
func (l *Log) FinishSwap(s *Swap, err error) error {
	if l.swap == s {
		l.swap = nil
	}
	if err != nil && l.usable() == nil {
		return l.poison("swap segments", err)
	}
	l.flush.noteSide(s.segment.sideFiles()...)
	return l.usable()
}
