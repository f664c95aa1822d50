package log

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/epoch"
)

// flushState is what the next flush has to do beside the segments.
type flushState struct {
	// running is the flush that was started and not finished, nil without one.
	running *FlushJob
	// side are small files that were written since the last flush.
	side []string
	// dir: names were added to the directory since the last flush.
	dir    bool
	epochs epochFile
}

func (s *flushState) noteSide(paths ...string) {
	for _, p := range paths {
		if !slices.Contains(s.side, p) {
			s.side = append(s.side, p)
		}
	}
	s.dir = true
}

// epochFile stores the epoch cache. A flush does so on any goroutine; the owner
// does when the log is emptied. An older content never replaces a newer one.
type epochFile struct {
	// saved is the version of the cache that was last stored; known is false if
	// the file's content is not that of any. Only the owner touches them.
	saved uint64
	known bool
	// shared is what jobs touch too.
	shared *sharedEpochFile
}

type sharedEpochFile struct {
	mu sync.Mutex
	// newest is the newest version that was ever stored.
	newest uint64
}

func (f *epochFile) note(version uint64) { f.saved, f.known = version, true }

// write stores entries, unless something newer was stored already.
func (f *sharedEpochFile) write(fs vfs.FS, dir string, entries []epoch.Entry, version uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if version < f.newest {
		return nil
	}
	if err := checkpoint.WriteEpochs(fs, epochPath(dir), entries); err != nil {
		return fmt.Errorf("store epochs of %s: %w", dir, err)
	}
	f.newest = version
	return nil
}

// clearEpochs empties the cache and its file: the log has no batch any more, and
// an old file would later be taken for that of a log that begins further on.
func (l *Log) clearEpochs() error {
	l.blank = false
	l.epochs.Clear()
	f := &l.flush.epochs
	if f.known && f.saved == l.epochs.Version() {
		return nil
	}
	if err := f.shared.write(l.fs, l.dir, nil, l.epochs.Version()); err != nil {
		return err
	}
	f.note(l.epochs.Version())
	return nil
}

// FlushJob makes a prefix of the log durable. It is started and finished by the
// owner of the log and run by anybody in between. Only one exists at a time.
type FlushJob struct {
	fs  vfs.FS
	dir string
	// end is the log's end when the job was started: what it makes durable.
	end model.Offset
	// generation is that of the log when the job was started.
	generation uint64
	files      []*segmentFile
	side       []string
	syncDir    bool

	writeEpochs bool
	entries     []epoch.Entry
	version     uint64
	epochFile   *sharedEpochFile

	// noRoom is set if the disk had no room for the epoch file. Run only.
	noRoom error

	once sync.Once
	err  error
}

// End is the offset below which all is durable when Run has succeeded.
func (j *FlushJob) End() model.Offset { return j.end }

// NoRoom is why a job that Run had no error for moves no recovery point: what
// stands in the segments is durable, but for the epoch file there was no room. A
// later start may hold no batch that this job was to make durable against that
// file. It is nil otherwise, and vfs.IsNoSpace holds of it. Only once Run has
// returned.
func (j *FlushJob) NoRoom() error { return j.noRoom }

// StartFlush captures what must become durable for the recovery point to reach
// the log's present end. It returns nil if nothing is unflushed, if another
// flush is under way (FinishFlush of that one comes first), or if the log is
// not usable.
func (l *Log) StartFlush() *FlushJob {
	if l.usable() != nil || l.flush.running != nil {
		return nil
	}
	s := &l.flush
	j := &FlushJob{
		fs: l.fs, dir: l.dir, end: l.logEnd, generation: l.generation,
		side: s.side, syncDir: s.dir,
		writeEpochs: !s.epochs.known || s.epochs.saved != l.epochs.Version(),
	}
	for _, seg := range l.segments {
		if seg.file.isDirty() {
			j.files = append(j.files, seg.file)
		}
	}
	if len(j.files) == 0 && len(j.side) == 0 && !j.syncDir && !j.writeEpochs && l.recoveryPoint == l.logEnd {
		return nil
	}
	if j.writeEpochs {
		j.entries, j.version, j.epochFile = l.epochs.Entries(), l.epochs.Version(), s.epochs.shared
	}
	s.running, s.side, s.dir = j, nil, false
	l.blank = false
	return j
}

// Run does the work: content of the segments, oldest first, and of the files
// beside them; then the names in the directory; then the epoch file, which must
// not be older than what the recovery point covers. It may be called from any
// goroutine; a second call returns what the first one did.
func (j *FlushJob) Run() error {
	j.once.Do(func() { j.err = j.run() })
	return j.err
}

// cancel has Run do nothing if it has not begun, and waits for it if it has.
func (j *FlushJob) cancel() {
	j.once.Do(func() { j.err = fmt.Errorf("flush of %s: %w", j.dir, ErrClosed) })
}

func (j *FlushJob) run() error {
	for _, f := range j.files {
		if err := f.sync(); err != nil {
			return err
		}
	}
	for _, path := range j.side {
		if err := syncSide(j.fs, path); err != nil {
			return err
		}
	}
	if j.syncDir && !mutant.On("log-skip-dirsync") {
		if err := j.fs.SyncDir(j.dir); err != nil {
			return fmt.Errorf("sync directory %s: %w", j.dir, err)
		}
	}
	if j.writeEpochs && !mutant.On("log-rp-before-epoch-file") {
		err := j.epochFile.write(j.fs, j.dir, j.entries, j.version)
		if vfs.IsNoSpace(err) {
			j.noRoom = err
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// syncSide makes a file beside the segments durable. One that is gone was
// removed by a later operation.
func syncSide(fs vfs.FS, path string) error {
	f, err := fs.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.SyncData(); err != nil {
		_ = f.Close()
		return fmt.Errorf("fdatasync %s: %w", path, err)
	}
	return f.Close()
}

// FinishFlush takes the outcome of a job into account: the recovery point moves
// to the job's end, unless the log was truncated meanwhile: then the bytes that
// were synced are not those that stand there now. A failure poisons the log: a
// second fsync could succeed without having written what the first one lost. On
// a full disk, where only the epoch file could not be stored, nothing moves, and
// FlushJob.NoRoom says so.
func (l *Log) FinishFlush(j *FlushJob, err error) error {
	if l.flush.running == j {
		l.flush.running = nil
	}
	if err != nil {
		if mutant.On("log-retry-fsync") {
			return err
		}
		return l.poison("flush", err)
	}
	if j.noRoom != nil {
		// What stands in the segments is synced, but the recovery point may not
		// pass epochs that the file lacks. The old file is whole: the next flush
		// tries again.
		return nil
	}
	if f := &l.flush.epochs; j.writeEpochs && (!f.known || f.saved < j.version) {
		f.note(j.version)
	}
	if j.generation != l.generation && !mutant.On("log-stale-flushed") {
		return nil
	}
	l.recoveryPoint = max(l.recoveryPoint, j.end)
	return nil
}
