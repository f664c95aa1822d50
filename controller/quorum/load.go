package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// Errors of Start that an operator must act on.
var (
	// ErrWiped: this node was in use, but its metadata is gone. A voter whose
	// memory was wiped must not vote again under its old name.
	ErrWiped = errors.New("the metadata log of a used node is gone")
	// ErrStranger: the voter set does not hold this node with this directory.
	ErrStranger = errors.New("not a member of the voter set")
	// ErrOtherCluster: the disk belongs to another cluster.
	ErrOtherCluster = errors.New("metadata belongs to another cluster")
	// ErrVoters: the listed voters cannot be served.
	ErrVoters = errors.New("unsupported voter set")
	// ErrDiverged: what this node makes of the metadata log is not what the
	// controllers make of it, and a fresh snapshot did not help.
	ErrDiverged = errors.New("metadata image differs from the controllers'")
)

// errObserve: the disk can't be believed, and the quorum has other members.
var errObserve = errors.New("the metadata of this voter can't be believed")

// damageError says that the metadata directory holds what no crash explains.
// A single voter recovers from it, see recover.go.
type damageError struct {
	dir string
	err error
}

// Error implements error.
func (e *damageError) Error() string { return fmt.Sprintf("damage in %s: %v", e.dir, e.err) }

// Unwrap returns what is wrong.
func (e *damageError) Unwrap() error { return e.err }

// diskState says what a metadata directory holds.
type diskState uint8

const (
	// virgin: nothing, or a bootstrap that was cut short.
	virgin diskState = iota
	// bootstrapped: it has a hard state.
	bootstrapped
	// headless: it has entries or snapshots, but the hard state is missing.
	headless
	// observing: it follows a quorum that it is no member of.
	observing
)

// survey looks at the directory without changing it.
func survey(fs vfs.FS, dir string) (diskState, error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return virgin, nil
	}
	if err != nil {
		return virgin, err
	}
	if slices.Contains(names, hardStateFile) {
		return bootstrapped, nil
	}
	if slices.Contains(names, observedFile) {
		return observing, nil
	}
	// A node that has an identity may have been interrupted while it took over
	// the snapshot of a quorum that it belongs to.
	joining := slices.Contains(names, identityFile)
	state := virgin
	for _, n := range names {
		if at, ok := metadata.ParseSnapshotName(n); ok && at != bootstrapAt && !joining {
			state = headless
		}
		if filepath.Ext(n) != ".log" {
			continue
		}
		info, err := fs.Stat(filepath.Join(dir, n))
		if err != nil {
			return virgin, err
		}
		if info.Size > 0 {
			state = headless
		}
	}
	return state, nil
}

// loaded is what load found beside the storage itself.
type loaded struct {
	image  *metadata.Image // at the snapshot
	report log.LoadReport
}

// unreadable tells damage from a disk that did not answer: the bytes may be well,
// and a start without them would go on without what they say.
func unreadable(dir string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read metadata in %s: %w", dir, err)
	}
	return &damageError{dir, err}
}

// load opens a bootstrapped directory. A *damageError means that only a part of
// it can be believed; nothing was changed then.
func load(o Config, dir string, now model.Now) (*storage, loaded, error) {
	var l loaded
	s := &storage{fs: o.FS, dir: dir, rt: o.RT, flushes: o.flushes}
	var err error
	if s.hard, err = readHardState(o.FS, dir); err != nil {
		return nil, l, unreadable(dir, err)
	}
	all, err := listSnapshots(o.FS, dir)
	if err != nil {
		return nil, l, err
	}
	if len(all) == 0 {
		return nil, l, &damageError{dir, errors.New("no snapshot")}
	}
	if s.snapshot, l.image, err = readSnapshot(o.FS, dir, all[0]); err != nil {
		return nil, l, unreadable(dir, err)
	}
	if o.alone() && len(l.image.Voters()) == 1 {
		s.hard.Commit = max(s.hard.Commit, uint64(o.Acted))
	}
	oldest := all[len(all)-1]
	s.previous = oldest
	s.plog, l.report, err = openLog(o, dir, now, oldest, model.Offset(s.hard.Commit))
	var bad *log.CorruptionError
	if errors.As(err, &bad) {
		return nil, l, &damageError{dir, err}
	}
	if err != nil {
		return nil, l, err
	}
	if err := s.settle(&l); err != nil {
		_ = s.plog.Close(false)
		return nil, l, err
	}
	return s, l, nil
}

// openLog opens the segments. The end of what was once durable is the commit
// index of the hard state: it is written only after the entries it counts, and
// after the epoch file that knows their terms.
func openLog(o Config, dir string, now model.Now, oldest model.OffsetAndEpoch, durable model.Offset) (*log.Log, log.LoadReport, error) {
	return log.Open(log.Options{
		FS: o.FS, Dir: dir, Partition: model.TopicPartition{Topic: TopicName},
		Config:        log.Config{SegmentBytes: o.SegmentBytes, IndexIntervalBytes: 4096},
		Rand:          o.Rand,
		Stop:          log.StopPower,
		RecoveryPoint: durable,
		LogStart:      oldest.Offset.Next(),
		Now:           now,
	})
}

// settle makes snapshot, log and hard state fit each other.
func (s *storage) settle(l *loaded) error {
	if err := s.readTerms(); err != nil {
		return err
	}
	snap := s.snapshotIndex()
	if t, err := s.termInLog(snap); s.lastIndex() < snap || err == nil && t != uint64(s.snapshot.At.Epoch) {
		// A snapshot was taken over from a leader and the log not yet reset.
		if err := s.resetTo(s.snapshot); err != nil {
			return err
		}
	}
	if _, err := s.plog.Reclaim(); err != nil {
		return err
	}
	// A term that is in the log was once this node's; only its vote may be lost.
	if n := len(s.terms); n > 0 && s.terms[n-1].term > s.hard.Term {
		s.hard.Term, s.hard.Vote = s.terms[n-1].term, 0
	}
	if uint64(s.snapshot.At.Epoch) > s.hard.Term {
		s.hard.Term, s.hard.Vote = uint64(s.snapshot.At.Epoch), 0
	}
	s.hard.Commit = max(s.hard.Commit, snap)
	if s.hard.Commit > s.lastIndex() {
		return &damageError{s.dir, fmt.Errorf("commit index %d, but the log ends at %d", s.hard.Commit, s.lastIndex())}
	}
	if len(s.terms) == 0 {
		return nil
	}
	// What a dead process wrote may be in the page cache only. Where only the epoch
	// file finds no room, the entries that it lacks count as not yet committed.
	if err := s.flush(); err != nil && (errors.Is(err, errUnflushed) || !vfs.IsNoSpace(err)) {
		return err
	}
	return nil
}

// readTerms walks the log for the terms of its entries. They come from the
// batches, never from the epoch file, which may be older.
func (s *storage) readTerms() error {
	next := s.plog.LogStart()
	err := s.plog.View().Batches(s.plog.LogStart(), nil, func(raw record.Batch) error {
		if raw.BaseOffset() != next || raw.LastOffsetDelta() != 0 {
			return &damageError{s.dir, fmt.Errorf("entry at offset %d where %d is expected", raw.BaseOffset(), next)}
		}
		next = raw.NextOffset()
		// Every byte is looked at: the library does not survive an entry that
		// can't be read later.
		e, err := entryOf(raw)
		if err != nil {
			return &damageError{s.dir, err}
		}
		s.noteTerm(e.GetIndex(), e.GetTerm())
		if raw.BaseOffset() > s.snapshot.At.Offset {
			s.behindSnapshot += int64(len(raw))
			s.recent = append(s.recent, e)
		}
		s.lastTime = max(s.lastTime, raw.MaxTimestamp())
		return nil
	})
	var bad *log.CorruptionError
	if errors.As(err, &bad) {
		return &damageError{s.dir, err}
	}
	return err
}

// termInLog returns the term of an entry that the log holds.
func (s *storage) termInLog(index uint64) (uint64, error) {
	if index < indexOf(s.plog.LogStart()) || index > s.lastIndex() {
		return 0, errEnough
	}
	for k := len(s.terms) - 1; k >= 0; k-- {
		if s.terms[k].index <= index {
			return s.terms[k].term, nil
		}
	}
	return 0, errEnough
}

// applied returns the index that the library may take as applied. It is that of
// the snapshot, whose configuration InitialState returns.
func (s *storage) applied() uint64 {
	if mutant.On("ctl-confstate-apart") {
		return s.hard.Commit
	}
	return s.snapshotIndex()
}
